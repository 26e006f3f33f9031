//! Limits how often a line that others can provoke is logged: a fixed number in a window, and the
//! rest as a count.
//!
//! At most [`limits::RATIONED_LINES`] lines are logged in a window, and no line left out goes
//! uncounted. The metrics count every event all the same. The code is pure: the time is passed in.

use std::sync::{Mutex, PoisonError};

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
    left_out: u64,
}

impl RateLimiter {
    pub(crate) const fn new() -> Self {
        Self { state: Mutex::new(State { until: Moment::ZERO, logged: 0, left_out: 0 }) }
    }

    /// Whether to log a line at `now`; if so, how many were left out since the last one.
    pub(crate) fn take(&self, now: Moment) -> Option<u64> {
        let (lines, window) = limits::RATIONED_LINES;
        // Each change is a few plain stores, so a panic cannot leave the state half-written.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now >= state.until {
            (state.until, state.logged) = (now + window, 0);
        }
        if state.logged == lines {
            state.left_out += 1;
            return None;
        }
        state.logged += 1;
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_line_that_others_can_provoke_is_logged_a_few_times_a_minute_and_then_counted() {
        let (ration, start) = (RateLimiter::new(), Moment::ZERO + Duration::from_secs(1_000));
        let (lines, window) = limits::RATIONED_LINES;
        let logged = |from: Moment| {
            let times = (0..10_000).map(|place| from + Duration::from_micros(place));
            times.filter_map(|now| ration.take(now)).collect::<Vec<_>>()
        };
        assert_eq!(logged(start), vec![0; lines as usize]);
        let mut later = vec![0; lines as usize];
        later[0] = 10_000 - u64::from(lines);
        assert_eq!(logged(start + window), later, "the next one says how many there were");
        assert_eq!(ration.take(start + 3 * window), Some(10_000 - u64::from(lines)));
    }
}
