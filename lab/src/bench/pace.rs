//! Closed and open loops, and the time at which each request is due. In an open loop, request k is
//! due at start + k / rate no matter what happened to the requests before it, and its latency
//! counts from then. So a server that stalls is charged for everybody it kept waiting (no
//! coordinated omission).

use std::time::Duration;

use nearside::model::time::Moment;

use crate::limits;

/// Pace of the requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadPace {
    /// Each connection sends its next request when the last one is answered.
    Closed,
    /// This many requests a second, whether or not they are answered.
    Open {
        /// Requests a second, above zero.
        per_second: f64,
    },
}

/// End of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    After(Duration),
    Requests(u64),
}

/// Which requests are due, and how many were sent.
#[derive(Clone, Debug)]
pub struct Schedule {
    pace: LoadPace,
    end: End,
    start: Moment,
    taken: u64,
    /// Requests that came due behind a full backlog and were given up.
    pub given_up: u64,
}

impl Schedule {
    pub fn new(pace: LoadPace, end: End, start: Moment) -> Self {
        Self { pace, end, start, taken: 0, given_up: 0 }
    }

    /// The next request, if one is to be sent now: the moment from which its latency counts.
    pub fn take(&mut self, now: Moment) -> Option<Moment> {
        let due = match self.pace {
            LoadPace::Closed => now,
            LoadPace::Open { per_second } => {
                let due_by_now = (now.since(self.start).as_secs_f64() * per_second) as u64 + 1;
                let due_by_now = due_by_now.min(self.most());
                let late = due_by_now.saturating_sub(self.taken).saturating_sub(limits::BENCH_BACKLOG);
                self.given_up += late;
                self.taken += late;
                self.due(per_second)
            }
        };
        let sends = due <= now && !self.over(now);
        self.taken += u64::from(sends);
        sends.then_some(due)
    }

    /// True if there is nothing left to send.
    pub fn over(&self, now: Moment) -> bool {
        match (self.pace, self.end) {
            (LoadPace::Closed, End::After(span)) => now.since(self.start) >= span,
            _ => self.taken >= self.most(),
        }
    }

    /// Time until the next request is due; `None` in a closed loop.
    pub fn wait(&self, now: Moment) -> Option<Duration> {
        match self.pace {
            LoadPace::Closed => None,
            LoadPace::Open { per_second } => Some(self.due(per_second).since(now)),
        }
    }

    fn due(&self, per_second: f64) -> Moment {
        self.start + Duration::from_secs_f64(self.taken as f64 / per_second)
    }

    fn most(&self) -> u64 {
        match (self.pace, self.end) {
            (_, End::Requests(most)) => most,
            (LoadPace::Open { per_second }, End::After(span)) => (span.as_secs_f64() * per_second) as u64,
            (LoadPace::Closed, End::After(_)) => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment::from_nanos(1_000_000_000_000);
    const OPEN: LoadPace = LoadPace::Open { per_second: 1000.0 };

    fn at(millis: u64) -> Moment {
        START + Duration::from_millis(millis)
    }

    #[test]
    fn open_loop_counts_from_due_time() {
        let mut schedule = Schedule::new(OPEN, End::Requests(100), START);
        assert_eq!(schedule.take(at(0)), Some(at(0)));
        assert_eq!(schedule.take(at(0)), None);
        assert_eq!(schedule.wait(at(0)), Some(Duration::from_millis(1)));
        // Everything stood still for 50 ms, so the requests that came due meanwhile are late by
        // that much.
        let late: Vec<_> = std::iter::from_fn(|| schedule.take(at(50))).collect();
        assert_eq!(late, (1..=50).map(at).collect::<Vec<_>>());
        assert_eq!(schedule.given_up, 0);
    }

    #[test]
    fn open_loop_abandons_beyond_backlog() {
        let most = limits::BENCH_BACKLOG + 100_000;
        let mut schedule = Schedule::new(OPEN, End::Requests(most), START);
        let first = schedule.take(at(most - 1)).unwrap();
        assert_eq!(schedule.given_up, 100_000);
        assert_eq!(first, at(schedule.given_up));
        let rest = std::iter::from_fn(|| schedule.take(at(2 * most))).count() as u64;
        assert_eq!(rest + 1, limits::BENCH_BACKLOG);
        assert!(schedule.over(at(2 * most)));
    }

    #[test]
    fn closed_loop_sends_immediately_until_end() {
        let mut timed = Schedule::new(LoadPace::Closed, End::After(Duration::from_millis(5)), START);
        assert_eq!((timed.take(at(4)), timed.take(at(5))), (Some(at(4)), None));
        let mut counted = Schedule::new(LoadPace::Closed, End::Requests(1), START);
        assert_eq!((counted.take(at(4)), counted.take(at(4))), (Some(at(4)), None));
        assert_eq!(counted.wait(at(4)), None);
    }
}
