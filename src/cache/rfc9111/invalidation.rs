//! Invalidation by unsafe requests (RFC 9111, 4.4).

use http::{HeaderMap, Method, StatusCode, header};
use url::Url;

use super::handling::is_safe;
use crate::cache::limits;

/// The paths, with their queries, whose stored replies are invalid after an unsafe request.
///
/// `outcome` is the region's status, or `None` if the connection broke and nobody knows whether the
/// region did what was asked. An error status invalidates nothing. Otherwise the target is
/// invalidated, and also `Location` and `Content-Location` if they have the same origin: relative,
/// at the host that the caller asked for, or under one of `bases`. Those are the regions' URLs, the
/// one of the region that answered first.
pub fn invalidates(
    method: &Method,
    outcome: Option<StatusCode>,
    target: &str,
    host: Option<&str>,
    bases: &[&Url],
    reply: &HeaderMap,
) -> Vec<String> {
    let failed = outcome.is_some_and(|status| status.is_client_error() || status.is_server_error());
    if is_safe(method) || failed {
        return Vec::new();
    }
    let mut paths = vec![target.to_owned()];
    for name in [header::LOCATION, header::CONTENT_LOCATION] {
        let to = reply.get(name).and_then(|line| line.to_str().ok());
        for path in to.map(|to| local(to, target, host, bases)).unwrap_or_default() {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    paths.truncate(limits::INVALIDATED_TARGETS);
    paths
}

/// `to` as a path of this service, if it is one. There are two when `to` is relative (or names the
/// caller's host) and the region's URL has a path of its own: some services write the path they
/// were asked for, others the one their callers use.
fn local(to: &str, target: &str, host: Option<&str>, bases: &[&Url]) -> Vec<String> {
    // Callers and regions see the same paths under different origins; a placeholder origin tells
    // "relative" from both.
    let Ok(here) = Url::parse(&format!("http://caller.invalid{target}")) else { return Vec::new() };
    let Ok(url) = here.join(to) else { return Vec::new() };
    let mut paths = Vec::new();
    if url.origin() == here.origin() || is_host(&url, host) {
        paths.push(url.path());
        paths.extend(bases.first().and_then(|base| below(base, &url)));
    } else {
        paths.extend(bases.iter().filter(|base| base.origin() == url.origin()).find_map(|base| below(base, &url)));
    }
    paths
        .into_iter()
        .map(|path| url.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}")))
        .collect()
}

/// The URL's path below that of a base.
fn below<'a>(base: &Url, url: &'a Url) -> Option<&'a str> {
    let prefix = base.path().trim_end_matches('/');
    url.path().strip_prefix(prefix).filter(|path| path.starts_with('/'))
}

/// True if the URL's authority matches the caller's `Host`.
fn is_host(url: &Url, host: Option<&str>) -> bool {
    let asked = host.and_then(|host| Url::parse(&format!("{}://{host}/", url.scheme())).ok());
    asked.is_some_and(|asked| asked.origin() == url.origin())
}
