//! Calls AWS: one configuration per region, bounded calls.
//!
//! A call goes to its topic's region, never to the environment's. Credentials come from the SDK's
//! default chain: environment, shared files, web identity (EKS service accounts), container
//! endpoint (ECS tasks, EKS pod identity) and instance metadata. aws-config has all of these
//! without its optional features, which add only `sso`, `credentials-login` and
//! `credentials-process`. Nothing here touches the network until a call is made, so start-up cannot
//! hang on AWS.

use std::fmt;
use std::sync::Arc;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::Url;

use crate::aws::failure::{CallFailure, CallFault};
use crate::aws::sdk_settings::{self, SdkSettings};
use crate::aws::usable::{CheckedCredentials, NoCredentials, profiles};
use crate::aws::{direct, limits};
use crate::config::TopicArn;
use crate::tasks::on_disk;
use crate::tasks::supervision::pass_panic_on;

/// The SDK, configured when it is first needed, and again as long as it cannot be used: a file that
/// was absent may have come. Clones share it.
///
/// All regions share one HTTP client (with its connections and TLS roots) and one credentials
/// cache.
#[derive(Clone)]
pub struct Sdk {
    endpoint: Option<Url>,
    base: Arc<Mutex<Option<Base>>>,
}

/// State that calls in all regions share.
struct Base {
    config: SdkConfig,
    endpoints: Endpoints,
    /// Reason why AWS must not be called, and when it was read.
    unusable: Option<(String, Instant)>,
}

#[derive(Clone)]
enum Endpoints {
    /// Endpoint of the given configuration.
    Given,
    /// All at this one.
    One(String),
    /// Endpoints of variables and profile, else those of AWS.
    Set(Arc<SdkSettings>),
}

/// The configuration of a region's calls.
pub(super) struct Calls {
    pub(super) config: SdkConfig,
    endpoints: Endpoints,
}

impl Calls {
    /// Replacement for the endpoint of `service` that the SDK has read itself, if there is one: the
    /// SDK takes an empty variable for one.
    pub(super) fn endpoint(&self, service: &str) -> Option<Option<String>> {
        match &self.endpoints {
            Endpoints::Given => None,
            Endpoints::One(url) => Some(Some(url.clone())),
            Endpoints::Set(settings) => Some(settings.endpoint(service).map(str::to_owned)),
        }
    }
}

/// A client of `$service`, called `$name` in settings, with what `$config` says of timeouts and
/// retries.
macro_rules! client {
    ($service:ident, $name:literal, $calls:expr, $config:expr) => {{
        let mut builder = $service::config::Builder::from($config);
        if let Some(endpoint) = $calls.endpoint($name) {
            builder.set_endpoint_url(endpoint);
        }
        $service::Client::from_conf(builder.build())
    }};
}
pub(super) use client;

#[derive(Clone, Debug)]
pub struct Clients {
    /// For topics and subscriptions.
    pub sns: aws_sdk_sns::Client,
    /// For checking subscriptions. Not retried, so that a throttled fleet does not ask three times
    /// as often.
    pub looks: aws_sdk_sns::Client,
    /// For queues, except receiving.
    pub sqs: aws_sdk_sqs::Client,
    /// For receiving: a call may take as long as a long poll does.
    pub polling: aws_sdk_sqs::Client,
}

impl Sdk {
    /// Configures from the environment. `endpoint` overrides every AWS endpoint; without it the SDK
    /// itself honours `AWS_ENDPOINT_URL`.
    pub fn new(endpoint: Option<Url>) -> Self {
        Self { endpoint, base: Arc::default() }
    }

    /// Uses a configuration made elsewhere, with its region, timeouts and retries replaced.
    pub fn given(base: SdkConfig) -> Self {
        Self {
            endpoint: None,
            base: Arc::new(Mutex::new(Some(Base { config: base, endpoints: Endpoints::Given, unusable: None }))),
        }
    }

    /// Clients for `region`. The first call reads files and the environment, but never the network. Who
    /// failed with these asks again: their settings may have been mended.
    pub async fn clients(&self, region: &str) -> Clients {
        let calls = self.calls(region).await;
        // The SDK does not retry a poll: the loop around it knows better when to try again.
        let polls = calls
            .config
            .to_builder()
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::builder().operation_timeout(limits::POLL_ANSWER_WAIT).build())
            .build();
        let looks = calls.config.to_builder().retry_config(RetryConfig::disabled()).build();
        Clients {
            sns: client!(aws_sdk_sns, "SNS", calls, &calls.config),
            looks: client!(aws_sdk_sns, "SNS", calls, &looks),
            sqs: client!(aws_sdk_sqs, "SQS", calls, &calls.config),
            polling: client!(aws_sdk_sqs, "SQS", calls, &polls),
        }
    }

    /// The configuration of calls in `region` that may be repeated.
    pub(super) async fn calls(&self, region: &str) -> Calls {
        let mut base = self.base.lock().await;
        let base = match base.take() {
            Some(known) if !known.is_outdated() => base.insert(known),
            known => {
                // Boxed: it is large, and usually not needed.
                let load = Box::pin(load(self.endpoint.as_ref(), region, known.and_then(|known| known.unusable)));
                base.insert(load.await)
            }
        };
        let (call, attempt) = limits::AWS_CALL_WAIT;
        let config = base
            .config
            .to_builder()
            .region(Region::new(region.to_owned()))
            .retry_config(RetryConfig::standard().with_max_attempts(limits::AWS_ATTEMPTS))
            .timeout_config(
                TimeoutConfig::builder().operation_timeout(call).operation_attempt_timeout(attempt).build(),
            )
            .build();
        Calls { config, endpoints: base.endpoints.clone() }
    }
}

impl Base {
    /// Says that its settings could not be used and are to be read again.
    fn is_outdated(&self) -> bool {
        self.unusable.as_ref().is_some_and(|(_, read)| read.elapsed() >= limits::SETTINGS_AGAIN_AFTER)
    }
}

/// Reads the settings, and says what is wrong with them unless it is what was wrong `before`.
async fn load(endpoint: Option<&Url>, region: &str, before: Option<(String, Instant)>) -> Base {
    // Files, perhaps on a mount that stalls.
    let read = on_disk(|| sdk_settings::read(sdk_settings::variable)).await;
    let settings = read.unwrap_or_else(|| pass_panic_on());
    let is_emulator = endpoint.is_some_and(crate::config::is_loopback);
    let unusable = settings.unusable().filter(|_| !is_emulator);
    if before.is_none_or(|(before, _)| unusable.as_ref() != Some(&before)) {
        tell(&settings, unusable.is_some());
    }
    // This region only tells the credentials chain which STS to ask. Stating it also keeps the SDK
    // from asking the instance metadata service for one.
    let region = Region::new(region.to_owned());
    let config = match unusable.clone() {
        Some(why) => SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(region)
            .credentials_provider(SharedCredentialsProvider::new(NoCredentials(why)))
            .build(),
        None => read_by_sdk(&settings, endpoint, region).await,
    };
    let endpoints = match endpoint {
        Some(url) => Endpoints::One(url.as_str().trim_end_matches('/').to_owned()),
        None => Endpoints::Set(Arc::new(settings)),
    };
    Base { config, endpoints, unusable: unusable.map(|why| (why, Instant::now())) }
}

fn tell(settings: &SdkSettings, is_unusable: bool) {
    for wrong in &settings.ignored {
        tracing::warn!(%wrong, "a setting of the AWS SDK is skipped");
    }
    for wrong in settings.fatal.iter().filter(|_| is_unusable) {
        tracing::error!(%wrong, "a setting of the AWS SDK cannot be used, so AWS is not called");
    }
}

/// Reads settings through the SDK, once those that it cannot use are replaced.
async fn read_by_sdk(settings: &SdkSettings, endpoint: Option<&Url>, region: Region) -> SdkConfig {
    let loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .region(region)
        .http_client(direct::client())
        // It panics on retries that it cannot use. These are replaced for each kind of call.
        .retry_config(RetryConfig::standard())
        .profile_files(profiles(settings))
        .profile_name(settings.profile.clone());
    let loader = match endpoint {
        Some(url) => loader.endpoint_url(url.as_str().trim_end_matches('/')),
        None => loader,
    };
    if endpoint.is_some_and(crate::config::is_loopback) {
        return loader.credentials_provider(stand_in()).load().await;
    }
    let config = loader.load().await;
    match config.credentials_provider() {
        Some(chain) => {
            let checked = SharedCredentialsProvider::new(CheckedCredentials(chain));
            config.to_builder().credentials_provider(checked).build()
        }
        None => config,
    }
}

/// An emulator on this machine accepts any credentials. With these it works without setup, and real
/// credentials never reach it.
fn stand_in() -> Credentials {
    Credentials::new("test", "test", None, None, "emulator on loopback")
}

impl fmt::Debug for Sdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sdk").field("endpoint", &self.endpoint.as_ref().map(Url::as_str)).finish_non_exhaustive()
    }
}

/// Subscribes `endpoint` to `topic` with raw delivery off. Returns the subscription's ARN,
/// confirmed or not.
///
/// # Errors
/// Any [`CallFailure`]; `Gone` when the topic does not exist.
pub async fn subscribe(
    sns: &aws_sdk_sns::Client,
    topic: &TopicArn,
    protocol: &str,
    endpoint: &str,
) -> Result<String, CallFailure> {
    let answer = sns
        .subscribe()
        .topic_arn(&topic.arn)
        .protocol(protocol)
        .endpoint(endpoint)
        .attributes("RawMessageDelivery", "false")
        .return_subscription_arn(true)
        .send()
        .await
        .map_err(|error| CallFailure::of("Subscribe", &error))?;
    answer
        .subscription_arn
        .ok_or_else(|| CallFailure { call: "Subscribe", fault: CallFault::Refused("no subscription ARN".to_owned()) })
}

/// Confirms a subscription with the token that SNS posted, and returns its ARN. From then on only
/// signed calls by the topic's or the subscription's owner can end it.
///
/// # Errors
/// Any [`CallFailure`].
pub async fn confirm(sns: &aws_sdk_sns::Client, topic: &TopicArn, token: &str) -> Result<String, CallFailure> {
    let answer = sns
        .confirm_subscription()
        .topic_arn(&topic.arn)
        .token(token)
        .authenticate_on_unsubscribe("true")
        .send()
        .await
        .map_err(|error| CallFailure::of("ConfirmSubscription", &error))?;
    answer.subscription_arn.ok_or_else(|| CallFailure {
        call: "ConfirmSubscription",
        fault: CallFault::Refused("no subscription ARN".to_owned()),
    })
}

/// Ends a subscription; succeeds if it does not exist.
///
/// # Errors
/// Any [`CallFailure`] but `Gone`.
pub async fn unsubscribe(sns: &aws_sdk_sns::Client, subscription: &str) -> Result<(), CallFailure> {
    match sns.unsubscribe().subscription_arn(subscription).send().await {
        Ok(_) => Ok(()),
        Err(error) => match CallFailure::of("Unsubscribe", &error) {
            failure if failure.is_gone() => Ok(()),
            failure => Err(failure),
        },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[tokio::test]
    async fn unreachable_endpoint_says_what_to_check() {
        let clients = nowhere().clients("eu-west-1").await;
        let failure = unsubscribe(&clients.sns, "arn:aws:sns:eu-west-1:000000000000:t:1").await.unwrap_err();
        assert_eq!(failure.fault, CallFault::Unreachable("connection failed"));
        assert!(failure.advice().contains("endpoint_url"));
    }

    /// AWS on a local port at which nobody listens, with fixed credentials so that no test looks
    /// for the machine's.
    pub(crate) fn nowhere() -> Sdk {
        let credentials = aws_sdk_sns::config::Credentials::new("test", "test", None, None, "test");
        Sdk::given(
            SdkConfig::builder()
                .behavior_version(BehaviorVersion::v2026_01_12())
                .credentials_provider(aws_sdk_sns::config::SharedCredentialsProvider::new(credentials))
                .endpoint_url("http://127.0.0.1:1")
                .build(),
        )
    }
}
