//! Bounds of the views service.

use std::time::Duration;

/// Views in one file.
pub const VIEWS: usize = 200;
/// Fields of a view.
pub const FIELDS: usize = 200;
/// Upper bound on a view's needs besides its main record. A vector of this many fits into a note.
pub const NEEDS: usize = 8;
/// The longest name of a field, in bytes.
pub const FIELD_NAME_BYTES: usize = 128;
/// The longest pointer, or constant, in bytes.
pub const SOURCE_BYTES: usize = 1024;
/// The greatest number of a definition.
pub const DEFINITION: u64 = 1_000_000_000;
/// Parts of the reverse index of one record.
pub const REFERENCE_PARTS: u16 = 16;
/// Partitions of the failures.
pub const FAILURE_PARTS: u16 = 16;
/// Number of rounds of mapping a view before another one gets its turn.
pub const MAPPING_ROUNDS: u32 = 16;
/// Number of new rounds because a view's main record changes meanwhile.
pub const MOVED_ROUNDS: u32 = 3;
/// Pairs of a view and its copy that are compared at once.
pub const COMPARED_AT_ONCE: usize = 32;
/// Number of retries before a failure.
pub const RETRIES: u32 = 5;
/// A change that touches more views than this becomes a job.
pub const VIEWS_AT_ONCE: usize = 1_000;
/// Items that a job takes at a time; jobs and definitions are listed so many at a time.
pub const JOB_PAGE: usize = 100;
/// Jobs that are looked at.
pub const JOBS: usize = 10_000;
/// Number of tries to write a job or a definition that others write too.
pub const JOB_ROUNDS: u32 = 16;
/// Interval between looks for new jobs while there are none.
pub const JOB_LOOK: Duration = Duration::from_secs(1);
/// Items of a page while two partitions are compared.
pub const WALK_PAGE: usize = 100;
/// Upper bound on suspects that are looked at again at a time.
pub const SUSPECTS: usize = 10_000;
/// Buckets that `verify` reads at once. Each holds a few pages of a megabyte at most.
pub const VERIFIED_AT_ONCE: usize = 8;
/// Views of one bucket that differ, for `verify`.
pub const BUCKET_SUSPECTS: usize = 1_000;
/// Views that the sweep compares until it looks again at what is due, and notes how far it got.
pub const SWEEP_PIECE: u64 = 256;
/// Shortest interval between the sweep's notes.
pub const SWEEP_NOTED_EVERY: Duration = Duration::from_secs(10);
/// Copies that differ, in one answer.
pub const DIFFERING_COPIES: usize = 1_000;
/// Examples in a report.
pub const EXAMPLES: usize = 20;
/// Failures that are listed.
pub const FAILURES: usize = 10_000;
/// After which a change should have been mapped; what the sweep finds is looked at again then.
pub const SWEEP_WAIT: Duration = Duration::from_secs(30);
/// Views that the sweep compares in a second at least, when it does not know how many there are.
pub const SWEEP_LEAST: u32 = 10;
/// Interval between counts of failures.
pub const FAILURES_LOOK: Duration = Duration::from_secs(60);
/// Interval between canaries.
pub const CANARY_EVERY: Duration = Duration::from_secs(1);
/// Interval between two looks at the grants: a region that missed a change has it this much later.
pub const GRANTS_EVERY: Duration = Duration::from_secs(5);
/// Interval between two writes of the same document of grants, for a table that was put back.
pub const GRANTS_AGAIN: Duration = Duration::from_secs(300);
