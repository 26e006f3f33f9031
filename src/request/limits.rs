//! The bounds of requests. Settings that a user may tune have their defaults and ranges in
//! `config`.

/// Header lines of a request that is answered without hyper.
pub const PLAIN_HEADERS: usize = 64;
/// Largest number of restarts of a reader's fill when an announcement overtook its reply; after
/// that it is served, labelled.
pub const REFILLS: usize = 2;
/// Identities per record beyond which callers seem to mint a new token per request.
pub const IDENTITIES_PER_RECORD: usize = 64;

/// Regions that are asked at once for an operator's `compare`; each reply is held until it is read.
pub(crate) const BESIDE_AT_ONCE: usize = 4;

/// Fills of other callers that a reader joins before it asks for itself, where replies are shared under
/// permits.
pub(super) const JOINED_FILLS: usize = 2;
