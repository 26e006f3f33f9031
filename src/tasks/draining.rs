//! A drain as those see it who wait for a peer meanwhile.

use std::time::Duration;

use tokio::time::Instant;

/// A drain that has begun. Who waits for a peer must not wait as long as the drain does.
#[derive(Clone, Copy, Debug)]
pub struct Draining {
    pub(super) began: Instant,
    pub(super) deadline: Duration,
}

impl Draining {
    /// Longest silence of a peer, or time that it may take to send the rest of a request: `most`,
    /// or half of the drain if that is less.
    pub fn silence(self, most: Duration) -> Duration {
        most.min(self.deadline / 2)
    }

    /// Time by which a request must have arrived that a peer may take `most` to send.
    pub fn arrived_by(self, most: Duration) -> Instant {
        self.began + self.silence(most)
    }

    /// Time at which peers that still keep the drain waiting are given up, so that the drain ends
    /// in time.
    pub fn given_up_at(self) -> Instant {
        self.began + self.deadline * 9 / 10
    }

    /// Interval of the looks whether that is so: `most` at the most.
    pub fn look_every(self, most: Duration) -> Duration {
        most.min(self.deadline / 20)
    }
}
