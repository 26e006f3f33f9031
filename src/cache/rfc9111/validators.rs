//! Conditional requests: those sent to validate a stored reply, and callers' own, answered from one
//! (RFC 9111, 4.3.1 and 4.3.2; RFC 9110, 8.8 and 13).

use http::{HeaderMap, header};

use super::freshness::{date, date_of};
use crate::cache::content::Content;
use crate::cache::entry::Entry;
use crate::cache::limits;

/// An entity tag (RFC 9110, 8.8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntityTag<'a> {
    /// `W/`: equivalent content, but perhaps not byte for byte the same.
    pub weak: bool,
    /// The text between the quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// The tag in a reply's `ETag`. An unquoted one is taken as it stands: servers that forget the
    /// quotes mean it so.
    pub(crate) fn of(headers: &'a HeaderMap) -> Option<Self> {
        Self::first(headers.get(header::ETAG)?.as_bytes())
    }

    fn first(rest: &'a [u8]) -> Option<Self> {
        EntityTags { rest }.next()
    }

    /// Equal, and neither is weak (RFC 9110, 8.8.3.2).
    pub(crate) fn matches_strongly(self, other: Self) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Equal, whether weak or not.
    pub(crate) fn matches_weakly(self, other: Self) -> bool {
        self.opaque == other.opaque
    }
}

/// The entity tags of a list. Commas inside quotes belong to the tag.
struct EntityTags<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for EntityTags<'a> {
    type Item = EntityTag<'a>;

    fn next(&mut self) -> Option<EntityTag<'a>> {
        let start = self.rest.iter().position(|byte| !matches!(byte, b',' | b' ' | b'\t'))?;
        let text = &self.rest[start..];
        let (weak, text) = text.strip_prefix(b"W/").map_or((false, text), |text| (true, text));
        let quoted = text.strip_prefix(b"\"").and_then(|inside| {
            let close = inside.iter().position(|byte| *byte == b'"')?;
            Some((&inside[..close], &inside[close + 1..]))
        });
        let (opaque, rest) = quoted.unwrap_or_else(|| {
            let end = text.iter().position(|byte| *byte == b',').unwrap_or(text.len());
            (text[..end].trim_ascii_end(), &text[end..])
        });
        self.rest = rest;
        Some(EntityTag { weak, opaque })
    }
}

pub(crate) fn has_validator(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ETAG) || headers.contains_key(header::LAST_MODIFIED)
}

/// Removes a caller's conditions, so that a region answers in full and the reply can be stored for
/// everybody.
pub(crate) fn unconditional(headers: &mut HeaderMap) {
    headers.remove(header::IF_NONE_MATCH);
    headers.remove(header::IF_MODIFIED_SINCE);
}

/// Replaces the conditions in `headers` with ones that validate the stored reply (4.3.1). Returns
/// false if the reply has no validator; the request is then unconditional.
pub(crate) fn validate(headers: &mut HeaderMap, stored: &HeaderMap) -> bool {
    unconditional(headers);
    if let Some(tag) = stored.get(header::ETAG) {
        headers.insert(header::IF_NONE_MATCH, tag.clone());
    }
    if let Some(modified) = stored.get(header::LAST_MODIFIED) {
        headers.insert(header::IF_MODIFIED_SINCE, modified.clone());
    }
    has_validator(stored)
}

/// True if a stored reply that may be served now meets the caller's own condition, so that the
/// caller gets a 304 (4.3.2).
///
/// Conditions apply only to what would otherwise be a success (RFC 9110, 13.2.1). `If-None-Match`
/// compares weakly and overrides `If-Modified-Since`, which compares with `Last-Modified`, else
/// `Date`. On a route `Date` is not used: a record may change, and the change be known, within the
/// second that `Date` names, or between two regions' clocks.
pub fn not_modified(request: &HeaderMap, entry: &Entry) -> bool {
    if !entry.status.is_success() || request.contains_key(header::IF_NONE_MATCH) {
        return not_modified_instead(request, entry, &entry.content);
    }
    let Some(since) = date(request, &header::IF_MODIFIED_SINCE) else { return false };
    let modified = entry
        .content
        .value(&header::LAST_MODIFIED)
        .or_else(|| entry.content.value(&header::DATE).filter(|_| entry.validity.routed().is_none()));
    modified.and_then(date_of).is_some_and(|modified| modified <= since)
}

/// Compares the caller's condition with what is made of the entry and served instead, by its tag
/// alone: a reload may have it made in another way, of which the region's `Last-Modified` knows
/// nothing.
pub fn not_modified_instead(request: &HeaderMap, entry: &Entry, content: &Content) -> bool {
    let stored = content.value(&header::ETAG).and_then(EntityTag::first);
    let lines = request.get_all(header::IF_NONE_MATCH).into_iter().map(|line| line.as_bytes().trim_ascii());
    entry.status.is_success()
        && lines.take(limits::ENTITY_TAGS).any(|line| {
            let mut tags = EntityTags { rest: line }.take(limits::ENTITY_TAGS);
            line == b"*" || stored.is_some_and(|stored| tags.any(|tag| tag.matches_weakly(stored)))
        })
}

/// True if a 304 is about this stored reply (4.3.4): judged by a strong tag, else by a weak one,
/// else by `Last-Modified`. A 304 that names no validator is about the reply whose validators were
/// sent.
pub(crate) fn speaks_of(update: &HeaderMap, stored: &HeaderMap) -> bool {
    match EntityTag::of(update) {
        Some(tag) if !tag.weak => EntityTag::of(stored).is_some_and(|stored| tag.matches_strongly(stored)),
        Some(tag) => EntityTag::of(stored).is_some_and(|stored| tag.matches_weakly(stored)),
        None => match update.get(header::LAST_MODIFIED) {
            Some(modified) => stored.get(header::LAST_MODIFIED) == Some(modified),
            None => true,
        },
    }
}
