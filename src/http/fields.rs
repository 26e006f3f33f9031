//! Which header fields are passed on: those meant only for the next hop never are (RFC 9110,
//! 7.6.1).

use http::{HeaderMap, HeaderName, header};

/// Fields for one connection only, whether `Connection` names them or not (RFC 9110, 7.6.1), and
/// those between a proxy and its neighbour (RFC 9111, 3.1).
const HOP_BY_HOP: [HeaderName; 8] = [
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];
const PROXY_AUTHENTICATION_INFO: HeaderName = HeaderName::from_static("proxy-authentication-info");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// Fields that describe the stored bytes: a 304 does not change them (RFC 9111, 3.2).
pub(crate) const OF_THE_BODY: [HeaderName; 3] =
    [header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::CONTENT_RANGE];

/// `headers` without those for this hop only and those that `Connection` names.
pub fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    into_end_to_end(headers.clone())
}

/// Removes hop-by-hop fields without a copy.
pub(crate) fn into_end_to_end(mut headers: HeaderMap) -> HeaderMap {
    drop_connection(&mut headers);
    for name in HOP_BY_HOP.iter().chain([&PROXY_AUTHENTICATION_INFO, &HTTP2_SETTINGS]) {
        headers.remove(name);
    }
    headers
}

/// Takes out `Connection` and what it names, but never `Authorization`: that is for all recipients (RFC
/// 9110, 7.6.1), and a line that could be hidden so would let another credential speak for the caller.
pub(crate) fn drop_connection(headers: &mut HeaderMap) {
    let lines = headers.get_all(header::CONNECTION).iter();
    let named = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii));
    let named: Vec<_> = named.filter_map(|name| HeaderName::from_bytes(name).ok()).collect();
    for name in named.iter().filter(|name| **name != header::AUTHORIZATION).chain([&header::CONNECTION]) {
        headers.remove(name);
    }
}

/// True if a 304 made from a stored reply carries this field of it: validators and what caches
/// need, but nothing that describes the absent body (RFC 9110, 15.4.5).
pub(crate) fn belongs_in_not_modified(name: &[u8]) -> bool {
    let of_the_body = OF_THE_BODY.iter().chain(&[header::CONTENT_TYPE, header::CONTENT_LANGUAGE]);
    !of_the_body.into_iter().any(|left_out| left_out.as_str().as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn connection_hides_no_credential() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (header::CONNECTION, "close, Authorization, X-Hop"),
            (header::CONNECTION, "AUTHORIZATION"),
            (header::AUTHORIZATION, "Bearer bad"),
            (HeaderName::from_static("x-hop"), "1"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        drop_connection(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), [header::AUTHORIZATION]);
    }
}
