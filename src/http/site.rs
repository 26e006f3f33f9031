//! Pages of other sites. A browser on this machine can reach the ports with a valid `Host`, but it
//! tells which site it asks for (Fetch Metadata, `Sec-Fetch-Site`). Only browsers send that header.

use http::{HeaderMap, HeaderName};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// True if a browser made this request for a page of another origin. `same-site` is another origin
/// too: every port of `localhost` is on its site. `none` means that a person typed the address.
pub fn is_cross_site(headers: &HeaderMap) -> bool {
    headers.get_all(SITE).iter().any(|site| {
        let site = site.as_bytes().trim_ascii();
        !site.eq_ignore_ascii_case(b"same-origin") && !site.eq_ignore_ascii_case(b"none")
    })
}
