//! Settings of a region that change while it runs: how it answers, and how late it ingests.

use super::chaos::{Latency, Mode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    pub mode: Mode,
    pub latency: Latency,
    pub lag: std::time::Duration,
    /// True if replies are held until they are released.
    pub held: bool,
}
