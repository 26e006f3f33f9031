//! Calls AWS: one configuration per region, bounded calls, and a meaning for every failed call.
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
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sns::error::{ConnectorError, ProvideErrorMetadata, SdkError};
use tokio::sync::OnceCell;
use url::Url;

use crate::aws::{direct, limits};
use crate::config::TopicArn;

/// The SDK, configured once when it is first needed; clones share it.
///
/// All regions share one HTTP client (with its connections and TLS roots) and one credentials
/// cache.
#[derive(Clone)]
pub struct Sdk {
    endpoint: Option<Url>,
    base: Arc<OnceCell<SdkConfig>>,
}

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
        Self { endpoint: None, base: Arc::new(OnceCell::new_with(Some(base))) }
    }

    /// Clients for `region`. The first call reads files and the environment, but never the network.
    pub async fn clients(&self, region: &str) -> Clients {
        let calls = self.calls(region).await;
        // The SDK does not retry a poll: the loop around it knows better when to try again.
        let polls = calls
            .to_builder()
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::builder().operation_timeout(limits::POLL_ANSWER_WAIT).build())
            .build();
        let looks = calls.to_builder().retry_config(RetryConfig::disabled()).build();
        Clients {
            sns: aws_sdk_sns::Client::new(&calls),
            looks: aws_sdk_sns::Client::new(&looks),
            sqs: aws_sdk_sqs::Client::new(&calls),
            polling: aws_sdk_sqs::Client::new(&polls),
        }
    }

    /// The configuration of calls in `region` that may be repeated.
    pub(super) async fn calls(&self, region: &str) -> SdkConfig {
        let base = self.base.get_or_init(|| load(self.endpoint.as_ref(), region)).await;
        let (call, attempt) = limits::AWS_CALL_WAIT;
        base.to_builder()
            .region(Region::new(region.to_owned()))
            .retry_config(RetryConfig::standard().with_max_attempts(limits::AWS_ATTEMPTS))
            .timeout_config(
                TimeoutConfig::builder().operation_timeout(call).operation_attempt_timeout(attempt).build(),
            )
            .build()
    }
}

async fn load(endpoint: Option<&Url>, region: &str) -> SdkConfig {
    // This region only tells the credentials chain which STS to ask. Stating it also keeps the SDK
    // from asking the instance metadata service for one.
    let loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .region(Region::new(region.to_owned()))
        .http_client(direct::client());
    match endpoint {
        Some(url) => {
            let loader = loader.endpoint_url(url.as_str().trim_end_matches('/'));
            let loader =
                if crate::config::is_loopback(url) { loader.credentials_provider(stand_in()) } else { loader };
            loader.load().await
        }
        None => loader.load().await,
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

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {fault}")]
pub struct CallFailure {
    /// The API call, by its AWS name.
    pub call: &'static str,
    pub fault: CallFault,
}

/// The cause of a failed call. A retry helps with all but `Denied` and `Gone`, and with those once
/// somebody has acted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFault {
    #[error("it does not exist")]
    Gone,
    /// Too many calls per second in this account and region.
    #[error("throttled")]
    Throttled,
    /// The credentials are known but do not allow this call. Holds AWS's own words.
    #[error("denied: {0}")]
    Denied(String),
    /// No credentials were found, or AWS does not know them. Holds a stable word.
    #[error("no usable credentials ({0})")]
    Credentials(String),
    /// AWS could not be reached, or did not answer in time. Holds the reason.
    #[error("AWS cannot be reached ({0})")]
    Unreachable(&'static str),
    /// AWS answered with another error. Holds its code only: the message may quote what was sent.
    #[error("refused with {0}")]
    Refused(String),
    /// SNS did not post a confirmation in time.
    #[error("no confirmation arrived")]
    Unconfirmed,
}

impl CallFault {
    /// What an operator can do about the fault.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Gone => "check that the topic exists in that region and account",
            Self::Throttled => "nothing to do: it is tried again later",
            Self::Denied(_) => {
                "allow this process's role sns:Subscribe, sns:Unsubscribe, sns:GetSubscriptionAttributes and \
                 sns:ConfirmSubscription on the topic, and with sqs also sqs:CreateQueue, sqs:DeleteQueue, \
                 sqs:GetQueueAttributes, sqs:ReceiveMessage, sqs:DeleteMessage and sqs:TagQueue on nearside-*; with announcements.queue_kms_key also \
                 kms:Decrypt on the key"
            }
            Self::Credentials(_) => {
                "give the process credentials: a task role (ECS), a service account or pod identity (EKS), or \
                 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            }
            Self::Unreachable(_) => {
                "check the direct way to the region's SNS and SQS endpoints (VPC endpoint, NAT, firewall; no proxy is \
                 used) or announcements.endpoint_url"
            }
            Self::Refused(_) => "look the code up under the call's name in AWS's documentation",
            Self::Unconfirmed => "check that SNS can reach announcements.http_public_url from the internet",
        }
    }
}

impl CallFailure {
    /// Whether AWS could not be asked, or is refusing to answer for now.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.fault, CallFault::Throttled | CallFault::Unreachable(_))
    }

    /// Interprets the error of a failed `call`.
    pub fn of<E: ProvideErrorMetadata + std::error::Error + 'static, R>(
        call: &'static str,
        error: &SdkError<E, R>,
    ) -> Self {
        let fault = match error {
            SdkError::TimeoutError(_) => CallFault::Unreachable("no answer in time"),
            SdkError::ConstructionFailure(_) => CallFault::Credentials("none found".to_owned()),
            SdkError::DispatchFailure(failure) if failure.is_timeout() => CallFault::Unreachable("no answer in time"),
            SdkError::DispatchFailure(failure) if failure.is_io() => CallFault::Unreachable("connection failed"),
            SdkError::DispatchFailure(failure) if failure.as_connector_error().is_some_and(of_credentials) => {
                CallFault::Credentials("none found".to_owned())
            }
            SdkError::DispatchFailure(_) => CallFault::Unreachable("the request could not be sent"),
            SdkError::ResponseError(_) => CallFault::Unreachable("what answered does not speak AWS's protocol"),
            SdkError::ServiceError(answer) => of_code(answer.err().code().unwrap_or("unknown"), || {
                answer.err().message().unwrap_or("no reason given").to_owned()
            }),
            _ => CallFault::Unreachable("unknown"),
        };
        Self { call, fault }
    }

    pub fn is_gone(&self) -> bool {
        self.fault == CallFault::Gone
    }
}

/// The SDK reports a failed credentials chain as a dispatch failure; only the error's source tells
/// the difference.
fn of_credentials(failure: &ConnectorError) -> bool {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(failure);
    while let Some(error) = source {
        if error.is::<CredentialsError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// SNS speaks the query protocol and SQS speaks JSON, so the same fault has several codes.
fn of_code(code: &str, message: impl FnOnce() -> String) -> CallFault {
    match code.rsplit(['#', '.']).next().unwrap_or(code) {
        "NotFound" | "NotFoundException" | "ResourceNotFoundException" | "QueueDoesNotExist" | "NonExistentQueue" => {
            CallFault::Gone
        }
        "Throttling"
        | "ThrottlingException"
        | "Throttled"
        | "ThrottledException"
        | "ProvisionedThroughputExceededException"
        | "KMSThrottlingException"
        | "LimitExceededException"
        | "RequestThrottled"
        | "TooManyRequestsException"
        | "RequestLimitExceeded"
        | "OverLimit" => CallFault::Throttled,
        "AuthorizationError"
        | "AuthorizationErrorException"
        | "AccessDenied"
        | "AccessDeniedException"
        | "KMSAccessDenied"
        | "KMSAccessDeniedException" => CallFault::Denied(message()),
        "InvalidClientTokenId"
        | "UnrecognizedClientException"
        | "SignatureDoesNotMatch"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "InvalidSecurity"
        | "InvalidSecurityException"
        | "MissingAuthenticationToken"
        | "IncompleteSignature"
        | "OptInRequired" => CallFault::Credentials(code.to_owned()),
        _ => CallFault::Refused(code.to_owned()),
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
    let missing = || CallFailure { call: "Subscribe", fault: CallFault::Refused("no subscription ARN".to_owned()) };
    answer.subscription_arn.ok_or_else(missing)
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
    let missing =
        || CallFailure { call: "ConfirmSubscription", fault: CallFault::Refused("no subscription ARN".to_owned()) };
    answer.subscription_arn.ok_or_else(missing)
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

    #[test]
    fn the_codes_of_both_protocols_mean_the_same_fault() {
        let fault = |code| of_code(code, || "why".to_owned());
        assert_eq!(fault("AWS.SimpleQueueService.NonExistentQueue"), CallFault::Gone);
        assert_eq!(fault("com.amazonaws.sqs#QueueDoesNotExist"), CallFault::Gone);
        assert_eq!(fault("NotFound"), CallFault::Gone);
        assert_eq!(fault("Throttling"), CallFault::Throttled);
        assert_eq!(fault("AuthorizationError"), CallFault::Denied("why".to_owned()));
        assert_eq!(fault("ExpiredToken"), CallFault::Credentials("ExpiredToken".to_owned()));
        assert_eq!(fault("InvalidParameter"), CallFault::Refused("InvalidParameter".to_owned()));
    }

    #[test]
    fn only_a_denial_repeats_what_aws_said() {
        let said = |code: &str| of_code(code, || "token=secret".to_owned()).to_string();
        assert!(!said("InvalidParameter").contains("secret"));
        assert!(!said("ExpiredToken").contains("secret"));
        assert!(said("AccessDenied").contains("secret"));
    }

    #[tokio::test]
    async fn an_endpoint_where_nothing_listens_is_unreachable_and_says_what_to_check() {
        let clients = nowhere().clients("eu-west-1").await;
        let failure = unsubscribe(&clients.sns, "arn:aws:sns:eu-west-1:000000000000:t:1").await.unwrap_err();
        assert_eq!(failure.fault, CallFault::Unreachable("connection failed"));
        assert!(failure.fault.advice().contains("endpoint_url"));
    }

    /// AWS on a local port that has just been closed, with fixed credentials so that no test looks
    /// for the machine's.
    pub(crate) fn nowhere() -> Sdk {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let credentials = aws_sdk_sns::config::Credentials::new("test", "test", None, None, "test");
        Sdk::given(
            SdkConfig::builder()
                .behavior_version(BehaviorVersion::v2026_01_12())
                .credentials_provider(aws_sdk_sns::config::SharedCredentialsProvider::new(credentials))
                .endpoint_url(format!("http://127.0.0.1:{port}"))
                .build(),
        )
    }
}
