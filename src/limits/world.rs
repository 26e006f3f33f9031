//! Owns every bound of the world that `nearside dev` makes: regions, topics and readers in one process.
//!
//! Before it: [`super`], whose names these are too. Invariant: it never bounds what serves callers.

use std::time::Duration;

use super::{KIB, MIB};

/// Records in the catalogue.
pub const WORLD_RECORDS: usize = 200_000;
/// A record's key in the catalogue, bytes: shorter than what an announcement may carry.
pub const WORLD_KEY_BYTES: usize = 512;
/// A record's value, bytes.
pub const WORLD_VALUE_BYTES: usize = 64 * KIB;
/// Changes kept for regions that lag; one that falls further behind reloads everything.
pub const WORLD_CHANGES: usize = 65_536;
/// Connections open at once to one of the world's servers.
pub const WORLD_CONNECTIONS: usize = 4096;
/// A request's body to one of the world's servers, bytes.
pub const WORLD_BODY_BYTES: usize = 512 * KIB;
/// Paths whose requests a region counts one by one, and answers it remembers.
pub const WORLD_PATHS: usize = 32_768;
/// Scripted answers of one region.
pub const WORLD_SCRIPTS: usize = 1024;
/// Topics, queues and subscriptions, each.
pub const WORLD_CHANNELS: usize = 256;
/// Messages that wait in one queue; beyond it the oldest is lost, and counted.
pub const WORLD_QUEUE_MESSAGES: usize = 10_000;
/// Tags of one queue, attributes of a queue or subscription: what AWS allows.
pub const WORLD_TAGS: usize = 50;
/// Deliveries that wait for their time, or for an endpoint's answer, at once.
pub const WORLD_DELIVERIES: usize = 4096;
/// Retries of a failed HTTP delivery, and the wait between them: what SNS does.
pub const SNS_RETRIES: (u32, Duration) = (3, Duration::from_secs(20));
/// How long SNS waits for an endpoint's answer.
pub const SNS_DELIVERY_WAIT: Duration = Duration::from_secs(15);
/// How often a publisher sends its heartbeat (DESIGN.md section 1).
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);
/// What an endless body may grow to before the region gives up, bytes.
pub const ENDLESS_BYTES: usize = 256 * MIB;
