//! The cache: keys, entries, the store, and the rules of HTTP caching (RFC 9111).

pub mod capacity;
pub mod content;
pub mod derived;
pub mod entry;
pub mod key;
pub mod limits;
pub mod rfc9111;
pub(crate) mod store;
