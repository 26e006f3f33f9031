//! Clients for the services' tables, feeds and topics. How long a call may take, and whether the SDK
//! repeats it, is decided here by which client is used.

use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;

use crate::aws::clients::{Sdk, client};
use crate::aws::limits;

#[derive(Clone, Debug)]
pub struct EngineClients {
    /// For pages and administration.
    pub tables: aws_sdk_dynamodb::Client,
    /// For single reads: short, and not repeated by the SDK.
    pub reads: aws_sdk_dynamodb::Client,
    /// For writes: never repeated, because a repetition meets what the first attempt wrote, and that
    /// looks like a conflict.
    pub writes: aws_sdk_dynamodb::Client,
    pub kinesis: aws_sdk_kinesis::Client,
    /// For subscriptions: an event stream may be silent for seconds.
    pub subscriptions: aws_sdk_kinesis::Client,
    pub sns: aws_sdk_sns::Client,
}

impl Sdk {
    /// Clients for `region`. The first call reads files and the environment, but never the network.
    pub async fn engine_clients(&self, region: &str) -> EngineClients {
        let calls = self.calls(region).await;
        let writes = calls.config.to_builder().retry_config(RetryConfig::disabled()).build();
        let reads = writes
            .to_builder()
            .timeout_config(TimeoutConfig::builder().operation_timeout(limits::READ_WAIT).build())
            .build();
        let subscriptions =
            writes.to_builder().stalled_stream_protection(StalledStreamProtectionConfig::disabled()).build();
        EngineClients {
            tables: client!(aws_sdk_dynamodb, "DYNAMODB", calls, &calls.config),
            reads: client!(aws_sdk_dynamodb, "DYNAMODB", calls, &reads),
            writes: client!(aws_sdk_dynamodb, "DYNAMODB", calls, &writes),
            kinesis: client!(aws_sdk_kinesis, "KINESIS", calls, &calls.config),
            subscriptions: client!(aws_sdk_kinesis, "KINESIS", calls, &subscriptions),
            sns: client!(aws_sdk_sns, "SNS", calls, &calls.config),
        }
    }
}
