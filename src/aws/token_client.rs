//! The keys of the process's own role, and the client for its tokens.

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;

use crate::aws::clients::{Sdk, client};
use crate::aws::{failure, limits};

impl Sdk {
    /// The keys of this process, by the SDK's chain; `region` says whose STS gives those of a role.
    ///
    /// # Errors
    /// Reason why there are none, without anything that an endpoint answered.
    pub async fn keys(&self, region: &str) -> Result<Credentials, String> {
        let calls = self.calls(region).await;
        let chain = calls.config.credentials_provider().ok_or("none found")?;
        chain.provide_credentials().await.map_err(|error| failure::of_provider(&error))
    }

    /// A client for `region`'s STS. Its calls are short and not repeated: another region is asked
    /// instead.
    pub async fn token_client(&self, region: &str) -> aws_sdk_sts::Client {
        let calls = self.calls(region).await;
        let config = calls
            .config
            .to_builder()
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::builder().operation_timeout(limits::STS_WAIT).build())
            .build();
        client!(aws_sdk_sts, "STS", calls, &config)
    }
}
