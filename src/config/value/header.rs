//! Names of headers.

use std::str::FromStr;

use http::HeaderName;

use super::text::{Read, list, text_of};
use crate::config::error::{ConfigProblem, quoted};
use crate::config::ignored::HeaderPattern;
use crate::config::limits;
use crate::config::settings::SettingKind;
use crate::config::tree::Raw;

pub(in crate::config) fn header(raw: &Raw, _: SettingKind) -> Read<HeaderName> {
    const SUGGESTION: &str = "write the name of a header without its colon, such as \"authorization\"";
    let text = text_of(raw, SUGGESTION)?;
    let Ok(name) = HeaderName::from_str(text) else {
        return Err(ConfigProblem::new(format!("{} is not the name of a header", quoted(text)), SUGGESTION));
    };
    if let Some(why) = never_forwarded(&name) {
        return Err(ConfigProblem::new(format!("`{name}` {why}"), "name another header"));
    }
    Ok(name)
}

/// Why no setting may name this header; `None` for almost all headers.
fn never_forwarded(name: &HeaderName) -> Option<&'static str> {
    match name.as_str() {
        "connection"
        | "keep-alive"
        | "proxy-connection"
        | "te"
        | "trailer"
        | "transfer-encoding"
        | "upgrade"
        | "proxy-authenticate"
        | "proxy-authorization" => Some("belongs to one connection (RFC 9110 section 7.6.1)"),
        "host" | "content-length" | "content-encoding" | "content-type" | "expect" => {
            Some("is what HTTP itself goes by")
        }
        "accept" | "accept-encoding" => Some("is part of every key already"),
        "cache-control"
        | "pragma"
        | "range"
        | "if-match"
        | "if-none-match"
        | "if-modified-since"
        | "if-unmodified-since"
        | "if-range" => Some("is Nearside's own to set"),
        "x-nearside-token" => Some("is Nearside's own and goes to no region"),
        _ => None,
    }
}

pub(in crate::config) fn headers(raw: &Raw, kind: SettingKind) -> Read<Vec<HeaderName>> {
    let names = list(raw, limits::HEADERS_PER_ROUTE, "names of headers", |item| header(item, kind))?;
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        Some((_, name)) => Err(ConfigProblem::new(format!("`{name}` is listed twice"), "keep one of the two")),
        None => Ok(names),
    }
}

pub(in crate::config) fn header_patterns(raw: &Raw, kind: SettingKind) -> Read<Vec<HeaderPattern>> {
    list(raw, limits::IGNORED_PER_ROUTE, "names of headers", |item| header_pattern(item, kind))
}

fn header_pattern(raw: &Raw, kind: SettingKind) -> Read<HeaderPattern> {
    const SUGGESTION: &str = "write what the names have in common up to a `-`, such as \"x-forwarded-*\"";
    let text = text_of(raw, SUGGESTION)?;
    let Some(prefix) = text.strip_suffix('*') else { return header(raw, kind).map(HeaderPattern::Name) };
    let is_name = HeaderName::from_str(prefix).is_ok() && !prefix.contains('*');
    if !is_name || !prefix.ends_with('-') || prefix.eq_ignore_ascii_case("x-") {
        let what = format!("{} is no beginning of names that belong together", quoted(text));
        return Err(ConfigProblem::new(what, SUGGESTION));
    }
    Ok(HeaderPattern::Prefix(prefix.to_ascii_lowercase()))
}
