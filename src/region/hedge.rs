//! Hedging of a slow read of the table by a second one: after the p95 of the latest reads. One that
//! failed is sent again at once. Both together at most one read in twenty. Pure: the duration of a
//! read is passed in.

use std::time::Duration;

use super::limits::{HEDGE_LEAST, HEDGED_SHARE, HEDGES_SAVED, READS_BEFORE_HEDGING};
use crate::race::health::RecentLatencies;

#[derive(Default)]
pub(crate) struct Hedge {
    latencies: RecentLatencies,
    seen: u32,
    /// Second reads that may be sent.
    saved: f64,
}

impl Hedge {
    /// A read begins, which saves up for a second one. Returns after how long that is worth while;
    /// `None` while too little is known.
    pub(crate) fn begin(&mut self) -> Option<Duration> {
        self.saved = (self.saved + HEDGED_SHARE).min(HEDGES_SAVED);
        let p95 = self.latencies.quantile(95).filter(|_| self.seen >= READS_BEFORE_HEDGING)?;
        Some(p95.max(HEDGE_LEAST))
    }

    /// True if a second read may be sent; it is spent if so.
    pub(crate) fn spend(&mut self) -> bool {
        let enough = self.saved >= 1.0;
        if enough {
            self.saved -= 1.0;
        }
        enough
    }

    /// A read was answered.
    pub(crate) fn answered(&mut self, took: Duration) {
        self.seen = self.seen.saturating_add(1);
        self.latencies.note(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn hedge_waits_for_recent_p95() {
        let mut hedge = Hedge::default();
        for read in 0..20 {
            assert_eq!(hedge.begin(), None, "after {read} reads");
            hedge.answered(ms(if read % 10 == 0 { 50 } else { 4 }));
        }
        assert_eq!(hedge.begin(), Some(ms(50)));
        (0..128).for_each(|_| hedge.answered(ms(3)));
        assert_eq!(hedge.begin(), Some(ms(3)), "the old ones no longer count");
        (0..128).for_each(|_| hedge.answered(Duration::ZERO));
        assert_eq!(hedge.begin(), Some(HEDGE_LEAST));
    }

    /// Number of these reads that are hedged.
    fn hedged(hedge: &mut Hedge, reads: usize) -> usize {
        let each = (0..reads).filter(|_| {
            hedge.begin();
            hedge.spend()
        });
        each.count()
    }

    #[test]
    fn hedging_is_capped_at_five_percent() {
        let mut hedge = Hedge::default();
        assert!((49..=50).contains(&hedged(&mut hedge, 1_000)));
        // A quiet day saves up no storm.
        for _ in 0..1_000_000 {
            hedge.begin();
        }
        assert!(hedged(&mut hedge, 20) <= 11);
    }
}
