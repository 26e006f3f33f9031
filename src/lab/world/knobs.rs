//! What can be changed of a region while it runs.

use super::chaos::{Latency, Mode};
use super::reply::Habits;

/// What can be changed while the region runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    pub mode: Mode,
    pub latency: Latency,
    pub lag: std::time::Duration,
    /// What its replies carry.
    pub habits: Habits,
    /// Whether replies are held until they are released.
    pub held: bool,
}
