//! The cells that metrics count in: [`Grid`] (regions by words) and [`LatencyHistogram`] (a
//! histogram).
//!
//! Counting is one or two relaxed atomic additions, without a lock, a map or an allocation. A
//! reader may see a count that is slightly old, but never one that goes backwards.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::telemetry::limits::METRIC_WORDS;

/// Counts all words that found no free slot.
const OTHER: &str = "other";

/// What happened to the requests of one route.
#[derive(Debug, Default)]
pub struct RouteCounts {
    hits: AtomicU64,
    misses: AtomicU64,
    stale: AtomicU64,
}

impl RouteCounts {
    /// The store answered.
    pub(crate) fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// The regions were asked.
    pub(crate) fn miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// The store answered, although its entry may be old.
    pub(crate) fn stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
    }

    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        self.counted().iter().map(|(_, count)| count).sum()
    }

    /// Each outcome as a stable word, with its count.
    pub(crate) fn counted(&self) -> [(&'static str, u64); 3] {
        let all = [("hit", &self.hits), ("miss", &self.misses), ("stale", &self.stale)];
        all.map(|(word, count)| (word, count.load(Ordering::Relaxed)))
    }
}

/// Counters by row (a region, or none) and word.
///
/// Words are `&'static str`, so the set is closed at compile time. Words given at construction show
/// as zero from the start; others appear when they are first counted.
#[derive(Debug)]
pub(crate) struct Grid {
    words: [OnceLock<&'static str>; METRIC_WORDS],
    expected: usize,
    cells: Box<[AtomicU64]>,
}

impl Grid {
    /// Creates `rows` rows, each with a cell per word.
    pub(crate) fn new(rows: usize, expected: &[&'static str]) -> Self {
        let words = std::array::from_fn(|slot| match expected.get(slot) {
            Some(word) if slot < METRIC_WORDS - 1 => OnceLock::from(*word),
            _ => OnceLock::new(),
        });
        let cells = (0..rows * METRIC_WORDS).map(|_| AtomicU64::new(0)).collect();
        Self { words, expected: expected.len().min(METRIC_WORDS - 1), cells }
    }

    /// Counts `word` once in `row`. A row that does not exist counts nothing.
    pub(crate) fn add(&self, row: usize, word: &'static str) {
        if let Some(cell) = self.cells.get(row * METRIC_WORDS + self.slot(word)) {
            cell.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts `word` so many times in `row`.
    pub(crate) fn add_many(&self, row: usize, word: &'static str, count: u64) {
        if let Some(cell) = self.cells.get(row * METRIC_WORDS + self.slot(word)) {
            cell.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, row: usize, word: &str) -> u64 {
        let known = self.words.iter().position(|slot| slot.get().is_some_and(|known| *known == word));
        known.map_or(0, |slot| self.cell(row, slot))
    }

    pub(crate) fn total(&self) -> u64 {
        self.cells.iter().map(|cell| cell.load(Ordering::Relaxed)).sum()
    }

    /// Every (word, count) of `row` that an operator should see: the expected words even at zero if
    /// `zeros` is set, others once they were counted.
    pub(crate) fn row(&self, row: usize, zeros: bool) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.words.iter().enumerate().filter_map(move |(slot, word)| {
            let count = self.cell(row, slot);
            let last = slot == METRIC_WORDS - 1;
            let word = if last { Some(&OTHER) } else { word.get() };
            word.filter(|_| count > 0 || zeros && slot < self.expected).map(|word| (*word, count))
        })
    }

    fn cell(&self, row: usize, slot: usize) -> u64 {
        self.cells.get(row * METRIC_WORDS + slot).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    /// The slot of `word`, found by a short scan over a handful of words. A new word claims a free
    /// slot.
    fn slot(&self, word: &'static str) -> usize {
        let claimed = self.words[..METRIC_WORDS - 1].iter().position(|slot| *slot.get_or_init(|| word) == word);
        claimed.unwrap_or(METRIC_WORDS - 1)
    }
}

/// A histogram of durations over fixed bounds.
#[derive(Debug)]
pub(crate) struct LatencyHistogram {
    bounds: &'static [u64],
    buckets: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
}

/// A snapshot of a [`LatencyHistogram`].
pub(crate) struct Reading {
    /// The sum of all durations, in seconds.
    pub(crate) sum: f64,
    pub(crate) count: u64,
    /// Upper bound in seconds (infinite for the last), and how many durations fell at or below it
    /// and above the previous one.
    pub(crate) buckets: Vec<(f64, u64)>,
}

impl LatencyHistogram {
    /// `bounds` are upper bounds in nanoseconds, ascending.
    pub(crate) fn new(bounds: &'static [u64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum_ns: AtomicU64::new(0) }
    }

    pub(crate) fn observe(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // One by one, because most of what is observed is a hit, and those fall into the first ones.
        let bucket = self.bounds.iter().position(|bound| nanos <= *bound).unwrap_or(self.bounds.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// Reads the histogram. The count is the sum of the buckets, so that the two agree.
    pub(crate) fn read(&self) -> Reading {
        let upper = self.bounds.iter().map(|nanos| *nanos as f64 / 1e9).chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<_> = upper.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        Reading { sum: self.sum_ns.load(Ordering::Relaxed) as f64 / 1e9, count, buckets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_words_show_at_zero_and_new_ones_once_they_are_counted() {
        let grid = Grid::new(2, &["good", "absent"]);
        grid.add(1, "surprising");
        grid.add(1, "good");
        grid.add(1, "good");
        assert_eq!(grid.row(0, true).collect::<Vec<_>>(), [("good", 0), ("absent", 0)]);
        assert_eq!(grid.row(0, false).count(), 0);
        assert_eq!(grid.row(1, true).collect::<Vec<_>>(), [("good", 2), ("absent", 0), ("surprising", 1)]);
        assert_eq!((grid.get(1, "good"), grid.get(0, "good"), grid.get(1, "never")), (2, 0, 0));
        assert_eq!(grid.total(), 3);
    }

    #[test]
    fn words_beyond_the_bound_are_counted_together_as_other() {
        let grid = Grid::new(1, &[]);
        for n in 0..METRIC_WORDS + 2 {
            grid.add(0, Box::leak(format!("word-{n}").into_boxed_str()));
        }
        let shown: Vec<_> = grid.row(0, true).collect();
        assert_eq!(shown.len(), METRIC_WORDS);
        assert_eq!(shown.last(), Some(&("other", 3)));
    }

    #[test]
    fn a_row_that_does_not_exist_counts_nothing() {
        let grid = Grid::new(1, &["good"]);
        grid.add(7, "good");
        assert_eq!(grid.total(), 0);
    }

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_holds_it() {
        let latency = LatencyHistogram::new(&[1_000, 1_000_000]);
        latency.observe(Duration::from_nanos(1_000));
        latency.observe(Duration::from_nanos(1_001));
        latency.observe(Duration::from_secs(2));
        let reading = latency.read();
        assert_eq!(reading.count, 3);
        assert_eq!(latency.count(), 3);
        assert_eq!(reading.buckets.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1, 1, 1]);
        assert!(reading.buckets[2].0.is_infinite());
        assert!((reading.sum - 2.000_002_001).abs() < 1e-9, "{}", reading.sum);
    }
}
