//! Parses `Cache-Control`: what a request asks for ([`RequestDirectives`]) and what a reply says
//! ([`ResponseDirectives`]). See RFC 9111, 5.2 and 5.4, and RFC 5861.
//!
//! A directive that contradicts itself or cannot be parsed gets the more careful reading (4.2.1): a
//! duration of zero, for `min-fresh` the longest there is; of several `max-stale` the smallest; and
//! `no-cache="..."` or `private="..."` with bad names applies to the whole reply.

use std::time::Duration;

use http::{HeaderMap, HeaderName, header};

use crate::cache::limits;

/// The number of seconds in a directive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delta {
    #[default]
    Absent,
    /// Present but not a number, or given twice with different numbers.
    Invalid,
    /// Capped at [`limits::DELTA_SECONDS`].
    Seconds(u64),
}

impl Delta {
    /// `self` together with the value of one more such directive.
    fn merged(self, value: Option<&[u8]>) -> Self {
        let parsed = value.and_then(delta_seconds).map_or(Self::Invalid, Self::Seconds);
        if self == Self::Absent || self == parsed { parsed } else { Self::Invalid }
    }

    /// The duration; `invalid` if it could not be parsed.
    pub fn duration(self, invalid: Duration) -> Option<Duration> {
        match self {
            Self::Absent => None,
            Self::Invalid => Some(invalid),
            Self::Seconds(seconds) => Some(Duration::from_secs(seconds)),
        }
    }
}

/// Accepts digits only and caps what overflows (RFC 9111, 1.2.2).
pub(crate) fn delta_seconds(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(
        text.iter()
            .fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
            .min(limits::DELTA_SECONDS),
    )
}

/// Staleness of a reply that the request accepts, the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MaxStale {
    /// Up to this long after its lifetime.
    Within(Duration),
    Any,
}

impl MaxStale {
    /// One directive; a value that cannot be parsed accepts nothing stale beyond zero seconds.
    fn parsed(value: Option<&[u8]>) -> Self {
        value.map_or(Self::Any, |text| Self::Within(Duration::from_secs(delta_seconds(text).unwrap_or_default())))
    }
}

/// Cache directives of a request (5.2.1). Parsed once per request; allocates nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// Validate with a region first. Also set by `Pragma: no-cache` when there is no
    /// `Cache-Control` (5.4).
    pub no_cache: bool,
    pub no_store: bool,
    /// Answer from the store or with a 504.
    pub only_if_cached: bool,
    /// Accept a reply no older than this.
    pub max_age: Option<Duration>,
    /// The reply must stay fresh for at least this much longer.
    pub min_fresh: Option<Duration>,
    /// Accept a stale reply.
    pub max_stale: Option<MaxStale>,
    /// Prefer a reply this stale to an error (RFC 5861, 4).
    pub stale_if_error: Option<Duration>,
}

impl RequestDirectives {
    pub fn of(headers: &HeaderMap) -> Self {
        let (mut max_age, mut min_fresh, mut stale_if_error) = (Delta::Absent, Delta::Absent, Delta::Absent);
        let mut directives = Self::default();
        for (name, value) in all_directives(headers, &header::CACHE_CONTROL) {
            if name.eq_ignore_ascii_case(b"no-cache") {
                directives.no_cache = true;
            } else if name.eq_ignore_ascii_case(b"no-store") {
                directives.no_store = true;
            } else if name.eq_ignore_ascii_case(b"only-if-cached") {
                directives.only_if_cached = true;
            } else if name.eq_ignore_ascii_case(b"max-age") {
                max_age = max_age.merged(value);
            } else if name.eq_ignore_ascii_case(b"min-fresh") {
                min_fresh = min_fresh.merged(value);
            } else if name.eq_ignore_ascii_case(b"stale-if-error") {
                stale_if_error = stale_if_error.merged(value);
            } else if name.eq_ignore_ascii_case(b"max-stale") {
                let more = MaxStale::parsed(value);
                directives.max_stale = Some(directives.max_stale.map_or(more, |earlier| earlier.min(more)));
            }
        }
        directives.max_age = max_age.duration(Duration::ZERO);
        directives.min_fresh = min_fresh.duration(Duration::MAX);
        directives.stale_if_error = stale_if_error.duration(Duration::ZERO);
        directives.no_cache |= !headers.contains_key(header::CACHE_CONTROL)
            && all_directives(headers, &header::PRAGMA).any(|(name, _)| name.eq_ignore_ascii_case(b"no-cache"));
        directives
    }
}

/// A directive that applies to the whole reply or to some of its header fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    #[default]
    Nothing,
    /// `no-cache="a, b"`: only these fields.
    Fields(Vec<HeaderName>),
    Everything,
}

impl Extent {
    fn widen(self, value: Option<&[u8]>) -> Self {
        let named = value.and_then(|value| {
            let names = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
            names.map(HeaderName::from_bytes).collect::<Result<Vec<_>, _>>().ok()
        });
        match (self, named) {
            (Self::Nothing, Some(names)) if !names.is_empty() => Self::Fields(names),
            (Self::Fields(mut all), Some(names)) if !names.is_empty() => {
                all.extend(names);
                Self::Fields(all)
            }
            _ => Self::Everything,
        }
    }

    /// The fields it is limited to, if any.
    pub fn fields(&self) -> &[HeaderName] {
        match self {
            Self::Fields(names) => names,
            _ => &[],
        }
    }
}

/// Directives of a reply for shared caches (5.2.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// Must not be stored (5.2.2.5).
    pub no_store: bool,
    /// Must be validated before each use (5.2.2.4).
    pub no_cache: Extent,
    /// Not for a shared cache (5.2.2.7).
    pub private: Extent,
    /// May be stored even where it otherwise could not (5.2.2.9).
    pub public: bool,
    /// Must not be served stale (5.2.2.2).
    pub must_revalidate: bool,
    /// Like `must_revalidate`, for shared caches only (5.2.2.8).
    pub proxy_revalidate: bool,
    /// Only a cache that understands the status may store it; such a cache ignores `no-store`
    /// (5.2.2.3).
    pub must_understand: bool,
    /// The lifetime (5.2.2.1).
    pub max_age: Delta,
    /// The lifetime in shared caches (5.2.2.10).
    pub s_maxage: Delta,
    /// RFC 5861, 4.
    pub stale_if_error: Delta,
}

impl ResponseDirectives {
    pub fn of(headers: &HeaderMap) -> Self {
        let mut said = Self::default();
        for (name, value) in all_directives(headers, &header::CACHE_CONTROL) {
            if name.eq_ignore_ascii_case(b"no-store") {
                said.no_store = true;
            } else if name.eq_ignore_ascii_case(b"no-cache") {
                said.no_cache = std::mem::take(&mut said.no_cache).widen(value);
            } else if name.eq_ignore_ascii_case(b"private") {
                said.private = std::mem::take(&mut said.private).widen(value);
            } else if name.eq_ignore_ascii_case(b"public") {
                said.public = true;
            } else if name.eq_ignore_ascii_case(b"must-revalidate") {
                said.must_revalidate = true;
            } else if name.eq_ignore_ascii_case(b"proxy-revalidate") {
                said.proxy_revalidate = true;
            } else if name.eq_ignore_ascii_case(b"must-understand") {
                said.must_understand = true;
            } else if name.eq_ignore_ascii_case(b"max-age") {
                said.max_age = said.max_age.merged(value);
            } else if name.eq_ignore_ascii_case(b"s-maxage") {
                said.s_maxage = said.s_maxage.merged(value);
            } else if name.eq_ignore_ascii_case(b"stale-if-error") {
                said.stale_if_error = said.stale_if_error.merged(value);
            }
        }
        said
    }
}

/// The directives in all lines of `name`, each with its unquoted value. Works on bytes, so that a
/// line with non-ASCII text does not hide the directives beside it.
fn all_directives<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
    headers.get_all(name).into_iter().flat_map(|line| Directives { rest: line.as_bytes() })
}

struct Directives<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Directives<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let end = self.rest.iter().position(|byte| matches!(byte, b',' | b'=')).unwrap_or(self.rest.len());
            let (name, rest) = self.rest.split_at(end);
            let name = name.trim_ascii();
            match rest.split_first() {
                Some((b'=', rest)) => {
                    let (value, rest) = value_of(rest);
                    self.rest = rest;
                    return Some((name, Some(value)));
                }
                Some((_, rest)) => self.rest = rest,
                None => self.rest = &[],
            }
            match (name.is_empty(), rest.is_empty()) {
                (false, _) => return Some((name, None)),
                (true, true) => return None,
                (true, false) => {}
            }
        }
    }
}

/// Splits off a token or the inside of a quoted string, and returns the text after the next comma
/// with it.
fn value_of(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let (value, rest) = match text.split_first() {
        Some((b'"', inside)) => {
            let mut escaped = false;
            let close = inside.iter().position(|byte| {
                let closes = *byte == b'"' && !escaped;
                escaped = *byte == b'\\' && !escaped;
                closes
            });
            close.map_or((inside, &[][..]), |at| (&inside[..at], &inside[at + 1..]))
        }
        _ => {
            let end = text.iter().position(|byte| *byte == b',').unwrap_or(text.len());
            (text[..end].trim_ascii_end(), &text[end..])
        }
    };
    let comma = rest.iter().position(|byte| *byte == b',').map_or(rest.len(), |at| at + 1);
    (value, &rest[comma..])
}
