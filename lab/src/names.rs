//! Names of the lab's regions and their topics, and the reasons why a part of it could not be
//! started.

use nearside::protocol::limits::REGIONS;

/// Names of regions, in the order in which the lab uses them.
pub const REGION_NAMES: [&str; REGIONS] = [
    "eu-west-1",
    "us-east-1",
    "ap-southeast-2",
    "us-west-2",
    "eu-central-1",
    "ap-northeast-1",
    "sa-east-1",
    "ca-central-1",
    "eu-north-1",
    "ap-south-1",
    "af-south-1",
    "me-south-1",
    "eu-west-2",
    "eu-west-3",
    "us-east-2",
    "us-west-1",
];
/// The name of each region's topic.
pub const TOPIC: &str = "context-changes";

/// Why a part of the lab could not be started. The fault is the machine's; another attempt may
/// help.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error("no loopback port for {what}: {source}")]
    Port { what: String, source: std::io::Error },
    /// The HTTP client for deliveries could not be built.
    #[error("no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
}
