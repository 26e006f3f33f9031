//! The shared cache for paths without a route, by RFC 9111: what is stored is decided by the reply's
//! own lines and by nothing that is announced.

pub(crate) mod keep;
pub(crate) mod serve;
