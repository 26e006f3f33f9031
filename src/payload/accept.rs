//! Which form a caller asks for, read from `Accept` alone. Only a caller who names Protobuf gets it
//! where the region's own form is JSON.

use crate::telemetry::metrics::payload::RequestedForm;
use http::{HeaderMap, header};

/// Form of the answer on a route that declares a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Json,
    Protobuf {
        /// The one of Protobuf's two names that was asked for: the answer has it.
        media_type: &'static str,
        /// JSON is acceptable too, for a record that has no Protobuf form.
        or_json: bool,
    },
    /// The caller names a media type that is neither form (`text/html`, a version of JSON): its
    /// `Accept` is part of the key and goes to the region as it is.
    AsNamed,
}

/// The two media types that Protobuf goes by.
const PROTOBUF: [&str; 2] = ["application/x-protobuf", "application/protobuf"];

fn protobuf(name: &[u8]) -> Option<&'static str> {
    PROTOBUF.into_iter().find(|it| name.eq_ignore_ascii_case(it.as_bytes()))
}

/// Media range of one element of `Accept`.
enum Range {
    /// `*/*`
    Any,
    /// `application/*`, which says more of JSON than `*/*` does (RFC 9110, 12.5.1).
    AnyApplication,
    Protobuf(&'static str),
    /// JSON without a version.
    Json,
    /// `text/plain`, which clients send beside JSON.
    Text,
    /// `text/*`, which they do too; by itself it takes no JSON.
    AnyText,
    /// A version of JSON: `+json`, or JSON with a parameter.
    Versioned,
    Other,
}

impl Choice {
    /// The form that is asked for, in metrics.
    pub const fn form(self) -> RequestedForm {
        match self {
            Self::Json => RequestedForm::Json,
            Self::Protobuf { .. } => RequestedForm::Protobuf,
            Self::AsNamed => RequestedForm::AsNamed,
        }
    }

    /// Chooses by `Accept`; of equally good ones Protobuf, since it was named on purpose.
    pub fn of(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(header::ACCEPT).iter();
        let (mut protobuf, mut json, mut names_other, mut refuses_json) = (None, None, false, false);
        let (mut any, mut any_application, mut any_text) = (None, None, false);
        for element in lines.flat_map(|line| split(line.as_bytes(), b',')).filter(|it| !it.is_empty()) {
            let (range, quality) = range(element).unwrap_or((Range::Other, 1000));
            match range {
                Range::Protobuf(name) if quality > 0 && protobuf.is_none_or(|(_, best)| quality > best) => {
                    protobuf = Some((name, quality));
                }
                // What is meant instead is the region's to find out.
                Range::Json if quality == 0 => refuses_json = true,
                Range::Json => json = json.max(Some(quality)),
                Range::Versioned if quality > 0 => (json, names_other) = (json.max(Some(quality)), true),
                Range::Any => any = any.max(Some(quality)),
                Range::AnyApplication => any_application = any_application.max(Some(quality)),
                Range::AnyText => any_text |= quality > 0,
                Range::Other => names_other |= quality > 0,
                _ => {}
            }
        }
        let by_wildcard = any_application.or(any).filter(|_| !refuses_json);
        let json = json.or(by_wildcard).unwrap_or_default();
        match protobuf {
            Some((media_type, quality)) if quality >= json => Self::Protobuf { media_type, or_json: json > 0 },
            _ if names_other || refuses_json || any_text && json == 0 => Self::AsNamed,
            _ => Self::Json,
        }
    }
}

/// True if a reply's `Content-Type` is one of Protobuf's two.
pub fn is_protobuf(content_type: &[u8]) -> bool {
    protobuf(essence(content_type)).is_some()
}

/// True if a reply's `Content-Type` is JSON: `application/json` or `application/*+json`.
pub fn is_json(content_type: &[u8]) -> bool {
    let name = essence(content_type).to_ascii_lowercase();
    name == b"application/json" || is_suffixed(&name)
}

/// `application/*+json`, in small letters.
fn is_suffixed(name: &[u8]) -> bool {
    name.strip_prefix(b"application/").and_then(|it| it.strip_suffix(b"+json")).is_some_and(|it| !it.is_empty())
}

/// A media type without its parameters.
fn essence(value: &[u8]) -> &[u8] {
    split(value, b';').next().unwrap_or_default()
}

/// Media range of an element, and its quality in thousandths; `None` if it cannot be read.
fn range(element: &[u8]) -> Option<(Range, u16)> {
    let mut parts = split(element, b';');
    let name = parts.next()?.to_ascii_lowercase();
    let (mut quality, mut has_parameters) = (1000, false);
    for part in parts.filter(|it| !it.is_empty()) {
        let at = part.iter().position(|byte| *byte == b'=').unwrap_or(part.len());
        let (key, value) = (part[..at].trim_ascii().to_ascii_lowercase(), part.get(at + 1..).unwrap_or_default());
        match &*key {
            // What stands behind the quality belongs to Accept, not to the media type.
            b"q" => {
                quality = thousandths(value.trim_ascii())?;
                break;
            }
            b"charset" => {}
            _ => has_parameters = true,
        }
    }
    let range = match &*name {
        b"*/*" => Range::Any,
        b"application/*" => Range::AnyApplication,
        b"text/*" => Range::AnyText,
        b"application/json" | b"text/json" if has_parameters => Range::Versioned,
        b"application/json" | b"text/json" => Range::Json,
        b"text/plain" if !has_parameters => Range::Text,
        name => match protobuf(name) {
            Some(name) => Range::Protobuf(name),
            None if is_suffixed(name) => Range::Versioned,
            None => Range::Other,
        },
    };
    Some((range, quality))
}

/// `0.5` is 500.
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, fraction) = match value {
        [whole @ (b'0' | b'1')] | [whole @ (b'0' | b'1'), b'.'] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return None,
    };
    let mut value = u16::from(whole - b'0');
    for place in 0..3 {
        let digit = fraction.get(place).copied().unwrap_or(b'0');
        value = value * 10 + u16::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    (value <= 1000).then_some(value)
}

/// The parts between separators that do not stand in quotes, without white space around them.
fn split(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    line.split(move |byte| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        is_escaped = is_quoted && *byte == b'\\';
        is_quoted ^= *byte == b'"';
        *byte == separator && !is_quoted
    })
    .map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests;
