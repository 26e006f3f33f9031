//! Headers by which frameworks take a read for another request: a write, or a read of another path.
//! What such a request shows is not what its route names.
//!
//! Many of them (CGI, WSGI, Rack, PHP) take `_` in a name for `-` (RFC 3875, 4.1.18), so it counts as that here.

use http::{HeaderMap, HeaderName, Method};

/// Names another method.
const METHODS: [&str; 4] = ["x-http-method", "x-http-method-override", "x-method-override", "x-original-method"];

/// Names another path.
const TARGETS: [&str; 3] = ["x-original-uri", "x-original-url", "x-rewrite-url"];

/// Returns whether some servers take this header for the one of the other name, which is in lower case.
pub(crate) fn passes_for(name: &HeaderName, other: &str) -> bool {
    name.as_str().bytes().map(folded).eq(other.bytes().map(folded))
}

const fn folded(byte: u8) -> u8 {
    if byte == b'_' { b'-' } else { byte }
}

/// Returns whether this header may make another request of the one that it is in.
pub(crate) fn is_override(name: &HeaderName) -> bool {
    let begins = matches!(name.as_str().as_bytes(), [b'x', b'-' | b'_', ..]);
    begins && METHODS.iter().chain(&TARGETS).any(|other| passes_for(name, other))
}

/// Returns whether by this header one user speaks for another (Kubernetes' API).
pub(crate) fn impersonates(name: &HeaderName) -> bool {
    name.as_str().strip_prefix("impersonate").is_some_and(|rest| rest.starts_with(['-', '_']))
}

/// Those among these headers.
pub(crate) fn overrides(headers: &HeaderMap) -> impl Iterator<Item = &HeaderName> {
    headers.keys().filter(|name| is_override(name))
}

/// The method that a region may take a request for, by those of its headers that `goes_along` says
/// reach it. A value that is no method may be one to somebody, so it counts as a write.
pub(crate) fn taken_as(method: &Method, headers: &HeaderMap, goes_along: impl Fn(&HeaderName) -> bool) -> Method {
    if !method.is_safe() {
        return method.clone();
    }
    let stated = headers.iter().filter(|(name, _)| METHODS.iter().any(|it| passes_for(name, it)) && goes_along(name));
    let values = stated.map(|(_, value)| value.as_bytes().trim_ascii()).filter(|value| !value.is_empty());
    let mut methods = values.map(|value| Method::from_bytes(&value.to_ascii_uppercase()).unwrap_or(Method::POST));
    methods.find(|method| !method.is_safe()).unwrap_or_else(|| method.clone())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn override_header_turns_read_into_write() {
        for (method, name, value, taken) in [
            ("GET", "x-http-method-override", "DELETE", "DELETE"),
            ("HEAD", "x-http-method", " put ", "PUT"),
            ("GET", "x-method-override", "PATCH, GET", "POST"),
            ("GET", "x-original-method", "purge", "PURGE"),
            ("GET", "x_http_method_override", "DELETE", "DELETE"),
            ("GET", "x-http_method-override", "DELETE", "DELETE"),
            ("GET", "x_original_url", "DELETE", "GET"),
            ("GET", "x-http-method-override", "get", "GET"),
            ("HEAD", "x-http-method-override", "GET", "HEAD"),
            ("GET", "x-http-method-override", "", "GET"),
            ("POST", "x-http-method-override", "GET", "POST"),
            ("PUT", "x-http-method-override", "DELETE", "PUT"),
            ("GET", "x-original-url", "DELETE", "GET"),
        ] {
            let name = HeaderName::from_static(name);
            let headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static(value))]);
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(taken_as(&method, &headers, |_| true), *taken, "{method} with {name}: {value}");
            assert_eq!(taken_as(&method, &headers, |_| false), method);
            assert!(overrides(&headers).eq([&name]));
        }
        let mut two = HeaderMap::new();
        for value in ["GET", "DELETE"] {
            two.append("x-http-method-override", HeaderValue::from_static(value));
        }
        assert_eq!(taken_as(&Method::GET, &two, |_| true), Method::DELETE, "whichever line is read");
    }
}
