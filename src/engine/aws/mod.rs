//! The engine on AWS: tables in DynamoDB, their changes in Kinesis, announcements through SNS.
//!
//! A place is a prefix and a region: its tables are `PREFIX-records` and so on, its streams
//! `PREFIX-changes` and `PREFIX-views`.

mod attributes;
mod change;
pub mod create;
mod errors;
mod feed;
mod tables;
mod topic;

pub use feed::{KinesisFeed, ShardReading};
pub use tables::DynamoTables;
pub use topic::SnsTopic;

use super::{Stream, Table};

pub fn table_name(prefix: &str, table: Table) -> String {
    format!("{prefix}-{}", table.word())
}

pub fn stream_name(prefix: &str, stream: Stream) -> String {
    format!("{prefix}-{}", stream.word())
}
