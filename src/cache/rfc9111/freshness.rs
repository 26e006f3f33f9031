//! Lifetime and age of a reply (RFC 9111, 4.2). There is no heuristic: a reply that states no
//! lifetime has none.

use std::time::Duration;

use http::{HeaderMap, HeaderName, header};

use super::directives::{ResponseDirectives, delta_seconds};
use crate::model::time::{Moment, Wall};

/// The lifetime that a reply states for shared caches, if any (4.2.1): `s-maxage`, else `max-age`,
/// else `Expires` minus `Date`. A value that cannot be parsed, or that is given twice with
/// different values, counts as zero.
pub fn lifetime(directives: &ResponseDirectives, headers: &HeaderMap, received: Wall) -> Option<Duration> {
    let stated = directives.s_maxage.duration(Duration::ZERO).or_else(|| directives.max_age.duration(Duration::ZERO));
    stated.or_else(|| {
        headers.contains_key(header::EXPIRES).then(|| {
            // Two different `Expires` would choose the lifetime, and count as none; a second `Date` only
            // says what it is counted from.
            let made = date(headers, &header::DATE).unwrap_or(received);
            date_once(headers, &header::EXPIRES).map_or(Duration::ZERO, |expires| expires.since(made))
        })
    })
}

/// The age to add to the time since the request was sent: together they are the current age.
///
/// Section 4.2.3 has `corrected_initial_age = max(apparent_age, age_value + response_delay)` and
/// adds the time since the reply arrived. Here the delay is taken out of both, so that everything
/// counts from when the request was sent.
pub fn initial_age(headers: &HeaderMap, sent: Moment, received: Moment, received_wall: Wall) -> Duration {
    let delay = received.since(sent);
    let apparent = date(headers, &header::DATE).map_or(Duration::ZERO, |date| received_wall.since(date));
    stated_age(headers).max(apparent.saturating_sub(delay))
}

/// The reply's first `Age`; zero if it is missing or cannot be parsed (5.1).
pub fn stated_age(headers: &HeaderMap) -> Duration {
    let first = headers.get(header::AGE).and_then(|line| line.as_bytes().split(|byte| *byte == b',').next());
    Duration::from_secs(first.and_then(|text| delta_seconds(text.trim_ascii())).unwrap_or(0))
}

/// The HTTP date in a header field; `None` if it is missing or not a date, such as `0` (5.3).
pub fn date(headers: &HeaderMap, name: &HeaderName) -> Option<Wall> {
    date_of(headers.get(name)?.as_bytes())
}

pub(crate) fn date_of(value: &[u8]) -> Option<Wall> {
    let text = std::str::from_utf8(value).ok()?;
    httpdate::parse_http_date(text.trim()).ok().map(Wall::from_system_time)
}

/// Like [`date`], but also `None` if the field is given twice with different values.
fn date_once(headers: &HeaderMap, name: &HeaderName) -> Option<Wall> {
    let first = headers.get(name);
    let agreed = headers.get_all(name).iter().all(|line| Some(line) == first);
    agreed.then(|| date(headers, name)).flatten()
}
