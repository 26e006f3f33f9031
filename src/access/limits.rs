//! Bounds of what callers send and of what is remembered of them.

use std::time::Duration;

/// Size of an issuer's set of keys, and of its metadata, in bytes.
pub const KEYS_BYTES: u64 = 256 << 10;
/// Interval between two looks at a file of keys.
pub const WATCH_EVERY: Duration = Duration::from_secs(5);
/// Tokens that are remembered as verified.
pub const REMEMBERED_TOKENS: u64 = 65_536;
/// Tokens that a sidecar remembers as verified.
pub const REMEMBERED_BY_SIDECARS: u64 = 8_192;
/// Tokens that a sidecar remembers as proving nothing, and for how long.
pub const UNPROVEN: (u64, Duration) = (1_024, Duration::from_secs(1));
/// Claims of a token by which a sidecar tells callers apart.
pub const CLAIMS: usize = 64;
/// Time for which a token is remembered; then its signature is verified again.
pub const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// Size of the document of grants, in bytes: some 1,000 consumers.
pub const DOCUMENT_BYTES: usize = 256 << 10;
/// Depth to which the document is nested.
pub const DOCUMENT_DEPTH: usize = 5;
/// Size of a token, in bytes.
pub const TOKEN_BYTES: usize = 8 << 10;
/// Depth to which a token's claims may be nested.
pub const CLAIMS_DEPTH: usize = 8;
/// Difference of clocks that is allowed for.
pub const SKEW: Duration = Duration::from_secs(30);
/// Longest name of a key (`kid`), in bytes.
pub const KEY_ID_BYTES: usize = 256;
/// Depth to which a set of keys may be nested.
pub const KEYS_DEPTH: usize = 8;
/// Interval between two fetches of an issuer's keys; a tenth of it is jitter.
pub const KEYS_EVERY: Duration = Duration::from_secs(300);
/// Least time between the beginnings of two fetches of an issuer's keys.
pub const KEYS_PAUSE: Duration = Duration::from_secs(10);
/// Time within which an issuer's keys have to arrive, its metadata included.
pub const FETCH_WAIT: Duration = Duration::from_secs(5);
/// Callers that wait for one issuer's keys.
pub const KEY_WAITERS: usize = 256;
/// Longest wait of a caller for its issuer's keys.
pub const KEY_WAIT: Duration = Duration::from_secs(2);
/// Longest wait of a caller for its turn to have a signature verified.
pub const TURN_WAIT: Duration = Duration::from_secs(1);
/// Callers of which it is only observed who they are, at once.
pub const OBSERVED: usize = 256;
/// Errors of a document that are listed.
pub const ERRORS: usize = 100;
/// Pairs of consumer and view whose decisions are counted apart from all others.
pub const COUNTED_PAIRS: usize = 1_000;
/// Pairs with refusals that are shown.
pub const SHOWN_REFUSALS: usize = 100;
/// Least time between two log lines about one principal and view.
pub const LINE_EVERY: Duration = Duration::from_secs(60);
/// Principals and views about which a line was logged in that time; beyond, none is.
pub const REMEMBERED_LINES: usize = 4_096;
/// Size of the file of who is denied everything, in bytes.
pub const DENY_BYTES: u64 = 256 << 10;
/// Interval between two looks at it.
pub const DENY_EVERY: Duration = Duration::from_secs(1);
/// A version of the grants that lies further ahead of the calendar is nobody's.
pub const AHEAD: Duration = Duration::from_secs(300);
/// Least time between two looks for grants that callers know of; it doubles while they bring none.
pub const PULL_EVERY: Duration = Duration::from_millis(100);
/// Longest time to which it does.
pub const PULL_MOST: Duration = Duration::from_secs(10);
/// Time for which a request waits for such a look.
pub const PULL_WAIT: Duration = Duration::from_millis(500);
