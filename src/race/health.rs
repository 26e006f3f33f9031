//! A region's health: how fast it answers, whether it is an outlier, whether it asked to wait. A
//! race's plan skips outliers and regions that asked to wait, and waits by the p95. An outlier is
//! always probed again. Pure: the time is passed in.

use std::time::Duration;

use super::limits::{
    HEDGE_WAIT, LATE_ATTEMPT_WAIT, LATENCIES, OUTLIER_FAILURES, OUTLIER_SHARE, OUTLIER_WINDOW, PROBE_WAIT,
    RETRY_AFTER,
};
use crate::model::time::Moment;

/// Tolerance of a timer: an attempt that ends right at the p95 is not late.
const TIMER: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(crate) enum Fitness {
    Fit,
    /// It fails too often.
    Outlier {
        /// It is time to see whether it still fails: one attempt may be sent now, and is not waited
        /// for.
        probe: bool,
    },
    /// It sent Retry-After.
    HeldOff {
        until: Moment,
    },
}

#[derive(Debug)]
pub(crate) struct Health {
    latencies: RecentLatencies,
    failures_in_a_row: u32,
    window: Window,
    outlier: Option<Outlier>,
    held_off_until: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Outlier {
    probe_at: Moment,
    wait: Duration,
}

/// Attempts ended since `since`, and those that failed.
#[derive(Debug, Clone, Copy)]
struct Window {
    since: Moment,
    ended: u32,
    failed: u32,
}

impl Health {
    /// Nothing is known yet: fit.
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            latencies: RecentLatencies::default(),
            failures_in_a_row: 0,
            window: Window { since: now, ended: 0, failed: 0 },
            outlier: None,
            held_off_until: Moment::ZERO,
        }
    }

    /// An attempt brought a complete reply that is not a 5xx. An outlier is fit again after one success.
    pub(crate) fn succeeded(&mut self, took: Duration, now: Moment) {
        self.latencies.note(took);
        self.failures_in_a_row = 0;
        if self.outlier.take().is_some() {
            self.window = Window { since: now, ended: 0, failed: 0 };
        }
        self.turn(now).ended += 1;
    }

    /// An attempt brought a 5xx or nothing complete.
    pub(crate) fn failed(&mut self, now: Moment) {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let window = self.turn(now);
        window.ended += 1;
        window.failed += 1;
        let share = f64::from(window.failed) / f64::from(window.ended);
        let often = window.ended >= OUTLIER_WINDOW.1 && share > OUTLIER_SHARE;
        if self.outlier.is_none() && (often || self.failures_in_a_row >= OUTLIER_FAILURES) {
            self.outlier = Some(Outlier { probe_at: now + PROBE_WAIT.0, wait: PROBE_WAIT.0 });
        }
    }

    /// It asked not to be sent requests for `wait`.
    pub(crate) fn hold_off(&mut self, wait: Duration, now: Moment) {
        self.held_off_until = self.held_off_until.max(now + wait.min(RETRY_AFTER));
    }

    pub(crate) fn fitness(&self, now: Moment) -> Fitness {
        match self.outlier {
            _ if now < self.held_off_until => Fitness::HeldOff { until: self.held_off_until },
            Some(outlier) => Fitness::Outlier { probe: now >= outlier.probe_at },
            None => Fitness::Fit,
        }
    }

    /// A probe is being sent: the next is due after twice the wait, five seconds at most.
    pub(crate) fn probing(&mut self, now: Moment) {
        if let Some(outlier) = &mut self.outlier {
            outlier.wait = (outlier.wait * 2).min(PROBE_WAIT.1);
            outlier.probe_at = now + outlier.wait;
        }
    }

    /// The p95 of its latest replies; `None` before the first.
    pub(crate) fn p95(&self) -> Option<Duration> {
        self.latencies.quantile(95)
    }

    /// Longest wait for the region that is worth it: its p95, capped, plus the timer's granularity.
    pub(crate) fn hedge_delay(&self) -> Duration {
        self.p95().unwrap_or(HEDGE_WAIT).min(LATE_ATTEMPT_WAIT) + TIMER
    }

    /// An estimate of its latency, for choosing the fastest.
    pub(crate) fn typical(&self) -> Duration {
        self.latencies.smoothed
    }

    fn turn(&mut self, now: Moment) -> &mut Window {
        if now.since(self.window.since) >= OUTLIER_WINDOW.0 {
            self.window = Window { since: now, ended: 0, failed: 0 };
        }
        &mut self.window
    }
}

/// The latest latencies, and a smoothed one.
#[derive(Debug, Default)]
pub(crate) struct RecentLatencies {
    latest: Vec<Duration>,
    /// Samples in ascending order: every race asks for a quantile.
    sorted: Vec<Duration>,
    next: usize,
    smoothed: Duration,
}

impl RecentLatencies {
    pub(crate) fn note(&mut self, took: Duration) {
        self.smoothed = if self.latest.is_empty() { took } else { (self.smoothed * 7 + took) / 8 };
        if self.latest.len() < LATENCIES {
            self.latest.push(took);
        } else {
            let gone = std::mem::replace(&mut self.latest[self.next], took);
            self.next = (self.next + 1) % LATENCIES;
            let place = self.sorted.partition_point(|latency| *latency < gone);
            self.sorted.remove(place);
        }
        let place = self.sorted.partition_point(|latency| *latency < took);
        self.sorted.insert(place, took);
    }

    pub(crate) fn quantile(&self, percent: usize) -> Option<Duration> {
        let place = self.sorted.len() * percent / 100;
        self.sorted.get(place.min(self.sorted.len().checked_sub(1)?)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment::from_nanos(1_000_000_000_000);
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn five_failures_make_outlier_until_success() {
        let mut health = Health::new(START);
        (0..4).for_each(|_| health.failed(START));
        assert_eq!(health.fitness(START), Fitness::Fit);
        health.failed(START);
        assert_eq!(health.fitness(START), Fitness::Outlier { probe: false });
        let due = START + PROBE_WAIT.0;
        assert_eq!(health.fitness(due), Fitness::Outlier { probe: true });
        health.probing(due);
        assert_eq!(health.fitness(due), Fitness::Outlier { probe: false }, "one probe at a time");
        health.failed(due);
        assert_eq!(health.fitness(due + PROBE_WAIT.0), Fitness::Outlier { probe: false });
        assert_eq!(health.fitness(due + PROBE_WAIT.0 * 2), Fitness::Outlier { probe: true });
        health.succeeded(20 * MS, due);
        assert_eq!(health.fitness(due), Fitness::Fit);
    }

    #[test]
    fn high_failure_rate_makes_outlier() {
        let mut health = Health::new(START);
        for attempt in 0..20 {
            if attempt % 3 == 0 { health.succeeded(MS, START) } else { health.failed(START) }
        }
        assert!(matches!(health.fitness(START), Fitness::Outlier { .. }));
        let mut seldom = Health::new(START);
        for attempt in 0..100 {
            if attempt % 3 == 0 { seldom.failed(START) } else { seldom.succeeded(MS, START) }
        }
        assert_eq!(seldom.fitness(START), Fitness::Fit);
    }

    #[test]
    fn retry_after_is_obeyed_within_cap() {
        let mut health = Health::new(START);
        health.hold_off(Duration::from_secs(3600), START);
        assert_eq!(health.fitness(START), Fitness::HeldOff { until: START + RETRY_AFTER });
        assert_eq!(health.fitness(START + RETRY_AFTER), Fitness::Fit);
    }

    #[test]
    fn ring_quantiles_match_sorted_quantiles() {
        let mut luck = fastrand::Rng::with_seed(7);
        let (mut latencies, mut all) = (RecentLatencies::default(), Vec::new());
        for _ in 0..4 * LATENCIES {
            // Few values, so that many are equal.
            all.push(luck.u32(0..40) * MS);
            latencies.note(all[all.len() - 1]);
            let mut latest = all[all.len().saturating_sub(LATENCIES)..].to_vec();
            latest.sort_unstable();
            for percent in [0, 5, 50, 95, 100] {
                let place = (latest.len() * percent / 100).min(latest.len() - 1);
                assert_eq!(latencies.quantile(percent), Some(latest[place]), "{percent} % of {}", all.len());
            }
        }
    }

    #[test]
    fn quantiles_are_over_the_latest_replies() {
        let mut health = Health::new(START);
        assert_eq!((health.p95(), health.hedge_delay()), (None, HEDGE_WAIT + TIMER));
        (1..=100).for_each(|n| health.succeeded(n * MS, START));
        assert_eq!(health.p95(), Some(96 * MS));
        (0..LATENCIES).for_each(|_| health.succeeded(7 * MS, START));
        assert_eq!(health.p95(), Some(7 * MS));
    }
}
