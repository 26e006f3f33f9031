//! Percent-encoding, and paths that everyone reads alike.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// `value` without its percent-encoding; [`is_plain`] made sure that this is UTF-8.
pub(super) fn decoded(value: &str) -> Cow<'_, str> {
    percent_decode_str(value).decode_utf8_lossy()
}

/// Returns whether everyone who reads `path` takes it for the same one. It must have no dot segment (RFC
/// 3986 section 5.2.4), raw or encoded, nor one that shows only when `%2F` or `%5C` is decoded, and
/// no escape that is broken or not UTF-8.
pub fn is_plain(path: &str) -> bool {
    if memchr::memchr3(b'%', b'.', b'\\', path.as_bytes()).is_none() {
        return true;
    }
    // A dot segment begins with a dot; dots elsewhere are common in keys.
    let is_suspect = path.contains(['%', '\\']) || path.starts_with('.') || path.contains("/.");
    !is_suspect || path.split('/').all(|segment| !is_dots(segment) && escapes_are_plain(segment))
}

pub(super) fn is_dots(segment: &str) -> bool {
    segment.split('\\').any(|part| part == "." || part == "..")
}

/// Returns whether the escapes of one segment are complete, decode to UTF-8, and hide no dot segment.
pub(super) fn escapes_are_plain(segment: &str) -> bool {
    !segment.contains('%') || unescaped(segment).is_some_and(|text| !text.split('/').any(is_dots))
}

/// `text` without its percent-encoding; `None` if an escape is broken or is no UTF-8.
pub fn unescaped(text: &str) -> Option<Cow<'_, str>> {
    let mut escapes = text.split('%').skip(1);
    if !escapes.all(|after| matches!(after.as_bytes(), [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit()))
    {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok()
}
