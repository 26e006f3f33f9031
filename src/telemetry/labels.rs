//! The words that labels may take. All show as zero from the start, so that an alarm's first event
//! is an increase like any other.

use crate::protocol::label::Label;

/// What a request that was not a hit may get.
pub(super) const GOT: &[&str] = &["good", "absent", "refused", "too-old", "worthless", "stale", "streamed", "none"];
/// How a leg may end.
pub(super) const LEGS: &[&str] = &[
    "good",
    "absent",
    "refused",
    "too-old",
    "worthless",
    "passed",
    "unjudged",
    "coding",
    "connect",
    "deadline",
    "drained",
    "garbage",
    "no-room",
    "oversized",
    "saturated",
    "target",
    "truncated",
    "unprocessed",
];
/// How an announcement may end.
pub(super) const OUTCOMES: &[&str] = &[
    "applied",
    "heartbeat",
    "duplicate",
    "unrouted",
    "undecodable",
    "paused",
    "lifecycle",
    "forged",
    "bad-certificate",
    "expired",
    "malformed",
    "no-certificate",
    "not-yet-valid",
    "overload",
    "oversized",
    "raw",
    "unknown-signature-version",
    "unknown-type",
    "wrong-host",
    "wrong-path",
    "wrong-topic",
];
/// Why an answer may be labelled as old.
pub(super) const LABELS: &[&str] = &{
    let [a, b, c, d] = Label::COUNTED;
    [a.word(), b.word(), c.word(), d.word()]
};
/// Why a request may be refused before it is looked up.
pub(super) const REFUSALS: &[&str] = &[
    "bad-batch",
    "bad-body",
    "bad-host",
    "bad-target",
    "coding",
    "cross-site",
    "crowded",
    "foreign-host",
    "forwarded",
    "large-batch",
    "large-body",
    "large-head",
    "long-target",
    "many-keys",
    "no-room",
    "not-json",
    "slow-body",
    "token",
    "tunnel",
];
/// Why a request may be passed on.
pub(super) const PASSES: &[&str] = &["body", "condition", "header", "memory", "method", "range", "size", "unrouted"];
/// Why a region's epoch may move.
pub(super) const EPOCHS: &[&str] = &[
    "hole",
    "first-heard",
    "silence",
    "undecodable",
    "unverified",
    "lost",
    "resubscribed",
    "restarted",
    "publisher-gone",
    "live",
    "paused",
    "resumed",
];
/// Why an alarm may be raised.
pub(super) const ALARMS: &[&str] =
    &["version-jump", "floor-dropped", "absence-accepted", "regressed", "announcement-flood", "floor-table-overflow"];
/// What operators may do, in the order in which help lists it.
pub(crate) const ACTS: [&str; 12] = [
    "purge", "refresh", "reset", "inspect", "compare", "drain", "restore", "pause", "resume", "log", "jobs", "reload",
];

/// The labels that acts are counted under: their names, and `none` for a request that is turned
/// away before anything is read.
pub(super) const COUNTED_ACTS: [&str; 13] = {
    let mut all = ["none"; 13];
    let mut at = 0;
    while at < ACTS.len() {
        all[at] = ACTS[at];
        at += 1;
    }
    all
};

/// How an operator's act may end.
pub(super) const ACT_OUTCOMES: [&str; 3] = ["done", "refused", "denied"];
/// How a reload may end.
pub(super) const RELOADS: &[&str] = &["applied", "refused"];
/// How the audit of an entry may end (R17).
pub(super) const AUDITED: &[&str] =
    &["fresh", "announced", "caught-up", "regressed", "stale", "undecided", "unfollowed", "skipped"];
/// The budgets in bytes or number that may refuse.
pub(super) const BUDGETS: &[&str] = &[
    "request-bodies",
    "reply-bodies",
    "announcement-bodies",
    "announcement-connections",
    "races",
    "batches",
    "requests",
    "connections",
];
/// What may become of one key of a batch.
pub(super) const BATCH_PARTS: &[&str] = &["stored", "asked", "refused"];
/// Whether an audited entry was fresh within a window.
pub(super) const WITHIN: &[&str] = &["fresh", "stale"];
/// Kinds of work on a body ([`crate::telemetry::metrics::payload::PayloadWork`]).
pub(super) const WORKS: &[&str] = &[
    "to-json",
    "to-protobuf",
    "index",
    "project",
    "decompress-gzip",
    "decompress-zstd",
    "decompress-dcz",
    "compress-zstd",
];
/// Content codings that are taken off replies.
pub(super) const CODINGS: &[&str] = &["gzip", "zstd", "dcz"];
/// Why one cannot be taken off ([`crate::payload::coding::CodingError`]).
pub(super) const UNDECODABLE: &[&str] =
    &["unasked", "several", "too-large", "damaged", "window", "other-dictionary", "no-room"];
/// Which form a caller may ask for.
pub(super) const FORMS: &[&str] = &["json", "protobuf", "as-named"];
