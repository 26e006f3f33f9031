//! Owns the names of the properties, and what it is to break one.
//!
//! Before it: [`super::check`]. After it: reports. Invariant: each is a promise or a rule of the
//! protocol.

use std::fmt;
use std::time::Duration;

/// Property that is checked, each with the promise or rule it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Property {
    /// Promise 1, R1: never below what was served or announced.
    Monotone,
    /// Promise 3, R3: nothing requested before an announcement to a reader after it.
    Fenced,
    /// R4, R7: without versions, what the announcer answered is not overruled by those who lag
    /// behind him.
    Announced,
    /// R6: what was announced as changed is not called absent.
    Present,
    /// The record that was asked for, as it is for this caller, and what its head says is said of
    /// it: whatever its shape.
    Own,
    /// A write through the sidecar, or directly by a caller that then asks end to end, is visible
    /// to each request after it.
    ReadYourWrites,
    /// `max-age` and `min-fresh` of a request are honoured.
    Honoured,
    /// Promise 2: never older than the stated bound.
    Bounded,
    /// R16: nothing outlives its TTL.
    HardTtl,
    /// R9, R21: without proof, or against evidence, nothing older than the soft TTL.
    Leased,
    /// R14: what nobody could read may have been about anything.
    Unread,
    /// R17: no stale entry stays unsampled beyond the audit period.
    Audited,
    /// Evidence that no rule mends is named.
    Named,
    /// While one region is well, everybody is answered.
    Answered,
    /// After the last fault everything comes right.
    Converged,
    /// Every fill ends, and nothing is left behind.
    Kept,
    /// Upstream work stays within its budgets.
    Budgeted,
    /// Outside fault windows at most 5 % of answers are labelled.
    Unlabelled,
}

/// A property that did not hold.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    /// Which.
    pub(crate) property: Property,
    /// When.
    pub(crate) at: Duration,
    /// Record, if there is one.
    pub(crate) key: Option<usize>,
    /// Explanation in words.
    pub(crate) text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:.3} s: {}", self.property, self.at.as_secs_f64(), self.text)
    }
}
