//! The engine on AWS: tables in DynamoDB, their changes in Kinesis, announcements through SNS.
//!
//! A place is a prefix and a region: its tables are `PREFIX-records` and so on, its streams
//! `PREFIX-changes` and `PREFIX-views`.

mod attributes;
mod change;
pub mod create;
mod errors;
mod feed;
mod names;
mod tables;
mod topic;

pub use feed::{KinesisFeed, ShardReading};
pub use names::{stream_name, table_name};
pub use tables::DynamoTables;
pub use topic::SnsTopic;
