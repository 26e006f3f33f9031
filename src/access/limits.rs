//! Bounds of what callers send and of what is remembered of them.

use std::time::Duration;

/// Size of an issuer's file of keys, in bytes.
pub const KEYS_BYTES: u64 = 256 << 10;
/// Interval between two looks at a file of keys.
pub const WATCH_EVERY: Duration = Duration::from_secs(5);
/// Tokens that are remembered as verified.
pub const REMEMBERED_TOKENS: u64 = 65_536;
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
/// A version of the grants that lies further ahead of the calendar is nobody's.
pub const AHEAD: Duration = Duration::from_secs(300);
/// Least time between two looks for grants that callers know of.
pub const PULL_EVERY: Duration = Duration::from_millis(100);
/// Time for which a request waits for such a look.
pub const PULL_WAIT: Duration = Duration::from_millis(500);
