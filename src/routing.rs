//! Routes and the identities behind them: which route a path is on, which records it shows, whose
//! reply it is, and what becomes of a caller's header. Everything here is decided from the
//! configuration and one request's head.

pub mod foreign;
pub mod headers;
pub mod keyed_hashes;
pub mod limits;
pub mod router;
