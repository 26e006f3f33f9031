//! What can be changed of a region while it runs: how it answers, and how late it ingests.

use super::chaos::{Latency, Mode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    pub mode: Mode,
    pub latency: Latency,
    pub lag: std::time::Duration,
    /// Whether replies are held until they are released.
    pub held: bool,
}
