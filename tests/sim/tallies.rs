//! Owns what is counted over seeds.
//!
//! Before it: [`super::check`]. After it: tables. Invariant: adding two up is the same as having
//! counted both.

use std::time::Duration;

use super::answer::Answer;
use super::manner::Shape;

/// Counts of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies {
    /// Answers.
    pub(crate) reads: u64,
    /// Answers in Protobuf, and of some fields.
    pub(crate) shaped: (u64, u64),
    /// Parts of batches for one key, of batches for several, and of these last those that waited
    /// for another.
    pub(crate) parts: (u64, u64, u64),
    /// Answers from the store.
    pub(crate) hits: u64,
    /// Failures, all excused.
    pub(crate) failed: u64,
    /// Labelled.
    pub(crate) labelled: u64,
    /// Answers outside fault windows, and of these the labelled.
    pub(crate) quiet: (u64, u64),
    /// Hits outside fault windows where there are watermarks, and of these without a bound.
    pub(crate) vouched: (u64, u64),
    /// Answers that some region could have bettered more than a second before.
    pub(crate) stale: u64,
    /// Greatest delay of a stale answer.
    pub(crate) worst: Duration,
    /// Answers older than what was served before.
    pub(crate) backwards: u64,
    /// Requests to regions.
    pub(crate) attempts: u64,
    /// Stated bounds, in seconds: sum and number.
    pub(crate) bounds: (u64, u64),
}

impl Tallies {
    /// Counts how an answer was asked for.
    pub(crate) fn count_shape(&mut self, answer: &Answer) {
        self.shaped.0 += u64::from(answer.shape == Shape::Protobuf);
        self.shaped.1 += u64::from(matches!(answer.shape, Shape::Fields(_)));
        self.parts.0 += u64::from(answer.batch == 1);
        self.parts.1 += u64::from(answer.batch > 1);
        self.parts.2 += u64::from(answer.before.is_some());
    }

    /// Adds another seed's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.shaped = (self.shaped.0 + other.shaped.0, self.shaped.1 + other.shaped.1);
        let (one, several, waited) = other.parts;
        self.parts = (self.parts.0 + one, self.parts.1 + several, self.parts.2 + waited);
        self.hits += other.hits;
        self.failed += other.failed;
        self.labelled += other.labelled;
        self.quiet = (self.quiet.0 + other.quiet.0, self.quiet.1 + other.quiet.1);
        self.vouched = (self.vouched.0 + other.vouched.0, self.vouched.1 + other.vouched.1);
        self.stale += other.stale;
        self.worst = self.worst.max(other.worst);
        self.backwards += other.backwards;
        self.attempts += other.attempts;
        self.bounds = (self.bounds.0 + other.bounds.0, self.bounds.1 + other.bounds.1);
    }
}
