//! What becomes of the headers that no region gets through the store.

use http::{HeaderMap, HeaderName, Method};

use crate::cache::rfc9111::{self, Handling};
use crate::config::Route;
use crate::config::overrides::{is_override, taken_as};
use crate::core::foreign::{self, HeaderFate, fate};

/// A line for each fate that some of `headers` have; `sent` are those that go along with a fill.
/// Where the reply is made here, a range is made here too.
pub(super) fn lines(route: &Route, headers: &HeaderMap, sent: &HeaderMap, is_made: bool) -> Vec<String> {
    let is_part = rfc9111::way(&Method::GET, headers) == Handling::Passed;
    let is_part = is_part && !(is_made && rfc9111::is_only_ranged(headers));
    let asks_for_part = |name: &HeaderName| is_part && rfc9111::ORIGIN_ONLY.contains(name);
    let passed_for: Vec<_> = foreign::names(route, headers).collect();
    let is_foreign = |name: &HeaderName| passed_for.contains(&name) && fate(route, name) == HeaderFate::Foreign;
    let is_written = !taken_as(&Method::GET, headers, is_foreign).is_safe();
    let of = |is_meant: &dyn Fn(&HeaderName) -> bool| {
        let is_it = |name: &&HeaderName| !sent.contains_key(*name) && is_meant(name);
        Some(names(headers.keys().filter(is_it))).filter(|names| !names.is_empty())
    };
    let kept = of(&|name| matches!(fate(route, name), HeaderFate::Inert(_)) && !asks_for_part(name));
    let lines = [
        of(&|name| is_foreign(name) && !is_override(name)).map(|names| {
            format!(
                "PASSED ON   for {names}: a request with it goes to one region whole and nothing is stored, until the \
                 route's forward or ignore names it"
            )
        }),
        of(&|name| is_foreign(name) && is_override(name)).map(|names| match is_written {
            true => format!("A WRITE     by {names}: a request with it goes to one region, once, unless the route's ignore names it"),
            false => format!(
                "PASSED ON   for {names}: it may lead elsewhere, so a request with it goes to one region whole and nothing is \
                 stored, unless the route's ignore names it"
            ),
        }),
        of(&asks_for_part).map(|names| format!("PASSED ON   for {names}: one region answers, and nothing is stored")),
        of(&|name| fate(route, name) == HeaderFate::Withheld).map(|names| {
            format!(
                "WITHHELD    {names}: goes to no region beside the sidecar's own credentials; a request with it is passed on \
                 without it and nothing is stored, unless the route's ignore names it"
            )
        }),
        of(&|name| fate(route, name) == HeaderFate::Ignored)
            .map(|names| format!("ignored     {names}: no region gets it (ignore)")),
        of(&|name| fate(route, name) == HeaderFate::Replaced)
            .map(|names| format!("stays here  {names}: the sidecar sends its own credentials")),
        kept.map(|names| format!("stays here  {names}: known to change no answer")),
    ];
    lines.into_iter().flatten().collect()
}

pub(super) fn names<'a>(names: impl Iterator<Item = &'a HeaderName>) -> String {
    names.map(HeaderName::as_str).collect::<Vec<_>>().join(", ")
}
