//! Limits how often a line that others can provoke is logged: a fixed number in a window, and the
//! rest as a count.
//!
//! At most [`limits::RATIONED_LINES`] lines are logged in a window, and no suppressed line goes
//! uncounted. The metrics count every event all the same. The code is pure: the time is passed in.

use parking_lot::Mutex;

use crate::model::time::Moment;
use crate::telemetry::limits;

/// The ration of one kind of line.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    until: Moment,
    logged: u32,
    suppressed: u64,
}

impl RateLimiter {
    pub(crate) const fn new() -> Self {
        Self { state: Mutex::new(State { until: Moment::ZERO, logged: 0, suppressed: 0 }) }
    }

    /// Returns, if a line is to be logged at `now`, how many were suppressed since the last one.
    pub(crate) fn admit(&self, now: Moment) -> Option<u64> {
        let (lines, window) = limits::RATIONED_LINES;
        // Each change is a few plain stores, so a panic cannot leave the state half-written.
        let mut state = self.state.lock();
        if now >= state.until {
            (state.until, state.logged) = (now + window, 0);
        }
        if state.logged == lines {
            state.suppressed += 1;
            return None;
        }
        state.logged += 1;
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn provoked_log_lines_are_rate_limited() {
        let (ration, start) = (RateLimiter::new(), Moment::ZERO + Duration::from_secs(1_000));
        let (lines, window) = limits::RATIONED_LINES;
        assert_eq!(logged(&ration, start), vec![0; lines as usize]);
        let mut later = vec![0; lines as usize];
        later[0] = 10_000 - u64::from(lines);
        assert_eq!(logged(&ration, start + window), later, "the next one says how many there were");
        assert_eq!(ration.admit(start + 3 * window), Some(10_000 - u64::from(lines)));
    }

    /// Lines that are logged, of 10,000 in 10 ms.
    fn logged(ration: &RateLimiter, from: Moment) -> Vec<u64> {
        (0..10_000).filter_map(|micros| ration.admit(from + Duration::from_micros(micros))).collect()
    }
}
