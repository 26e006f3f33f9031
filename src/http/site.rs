//! Pages of other sites: a browser on this machine reaches the ports with a valid `Host`, and says on whose behalf it asks
//! (Fetch Metadata, `Sec-Fetch-Site`). Nothing but a browser sends that header.

use http::{HeaderMap, HeaderName};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a browser made this request for a page that is not of this very origin. `same-site` is another origin too: any
/// port of `localhost` is of its site. `none` is a person who typed the address.
pub fn is_cross_site(headers: &HeaderMap) -> bool {
    let ours = |site: &[u8]| site.eq_ignore_ascii_case(b"same-origin") || site.eq_ignore_ascii_case(b"none");
    headers.get_all(SITE).iter().any(|site| !ours(site.as_bytes().trim_ascii()))
}
