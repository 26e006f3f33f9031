//! (to be written)
/// RFC 9111 facts of an unrouted entry.
#[derive(Debug)]
pub struct Stored {}
