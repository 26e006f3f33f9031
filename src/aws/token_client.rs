//! The client for tokens of the process's own role.

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;

use crate::aws::clients::{Sdk, client};
use crate::aws::limits;

impl Sdk {
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
