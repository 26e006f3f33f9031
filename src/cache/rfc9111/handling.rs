//! The handling of a request, by its method and conditions.

use http::{HeaderMap, HeaderName, Method, header};

/// Handling of an unrouted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// May be answered from the store, and its reply may be stored.
    Cached,
    /// Safe, but only a region can answer it: a range, or a condition that only the origin may
    /// evaluate (4.3.2).
    Passed,
    /// Goes to one region, once; its reply may invalidate (4.4).
    Unsafe,
}

/// A range, and conditions that only the origin may evaluate.
pub const ORIGIN_ONLY: [HeaderName; 4] =
    [header::RANGE, header::IF_RANGE, header::IF_MATCH, header::IF_UNMODIFIED_SINCE];

/// Decides how to handle a request of `method` with `headers`.
pub fn handling_of(method: &Method, headers: &HeaderMap) -> Handling {
    match *method {
        Method::GET | Method::HEAD if ORIGIN_ONLY.iter().any(|name| headers.contains_key(name)) => Handling::Passed,
        Method::GET | Method::HEAD => Handling::Cached,
        _ if is_safe(method) => Handling::Passed,
        _ => Handling::Unsafe,
    }
}

/// True if a range alone keeps a GET or HEAD with these lines from the store.
pub fn is_only_ranged(headers: &HeaderMap) -> bool {
    !headers.contains_key(header::IF_MATCH) && !headers.contains_key(header::IF_UNMODIFIED_SINCE)
}

/// RFC 9110, 9.2.1. An unknown method counts as unsafe (4.4).
pub fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}
