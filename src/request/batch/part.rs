//! Writes one part of a batch's answer: what a GET of its key would have said, as a JSON object.
//! The body's bytes are the region's where they are JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode, header};
use serde::de::IgnoredAny;

use super::limits::EMBEDDED_DEPTH;
use crate::payload::accept;
use crate::shape::cache_status::{Bound, CacheLine, Detail};
use crate::shape::shown::Shown;

/// Form of a part's body in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As it is.
    Json,
    Base64,
}

/// Fields of a part besides its key and its body.
#[derive(Default)]
pub(super) struct Said<'a> {
    pub(super) status: StatusCode,
    /// As the region states it.
    pub(super) version: Option<&'a [u8]>,
    pub(super) etag: Option<&'a [u8]>,
    pub(super) content_type: Option<&'a [u8]>,
    /// Coding by a region that was asked for none.
    pub(super) coding: Option<&'a [u8]>,
    pub(super) age: Option<u64>,
    pub(super) line: CacheLine,
}

impl<'a> Said<'a> {
    /// Fields of a stored or fetched representation.
    pub(super) fn of(shown: &'a Shown, version_header: &HeaderName) -> Self {
        let Shown { entry, age, not_modified, line, .. } = shown;
        let status = if *not_modified { StatusCode::NOT_MODIFIED } else { entry.status };
        Self { status, age: *age, line: *line, ..Self::default() }.with(shown.content().lines(), version_header)
    }

    /// Fields of these header lines.
    pub(super) fn with(
        mut self,
        lines: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        version_header: &HeaderName,
    ) -> Self {
        for (name, value) in lines {
            match name {
                b"etag" => self.etag = self.etag.or(Some(value)),
                b"content-type" => self.content_type = self.content_type.or(Some(value)),
                b"content-encoding" if !value.eq_ignore_ascii_case(b"identity") => self.coding = Some(value),
                name if name == version_header.as_str().as_bytes() => self.version = self.version.or(Some(value)),
                _ => {}
            }
        }
        self
    }

    /// True if the body is declared as JSON.
    pub(super) fn is_json(&self) -> bool {
        let essence = self.content_type.unwrap_or_default().split(|byte| *byte == b';').next().unwrap_or_default();
        let essence = essence.trim_ascii();
        let suffix = &essence[essence.len().saturating_sub(b"+json".len())..];
        self.coding.is_none()
            && (essence.eq_ignore_ascii_case(b"application/json") || suffix.eq_ignore_ascii_case(b"+json"))
    }

    /// Begins the part: everything but the body, which follows with `form`; `None` for no body.
    pub(super) fn begin(&self, key: &str, headers: Option<&HeaderMap>, form: Option<Form>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"key\":");
        put_text(key, out);
        put_number("status", u64::from(self.status.as_u16()), out);
        if let Some(version) = self.version {
            put_version(version, out);
        }
        if let Some(etag) = self.etag {
            put_member("etag", etag, out);
        }
        if let Some(age) = self.age {
            put_number("age", age, out);
        }
        if let Some(Detail::Label(label)) = self.line.detail {
            put_member("label", label.into_str().as_bytes(), out);
        }
        match self.line.bound {
            Some(Bound::Seconds(seconds)) => put_number("bound", seconds, out),
            Some(Bound::None) => out.extend_from_slice(b",\"bound\":null"),
            None => {}
        }
        // An empty message is a body too: its media type says so.
        let content_type =
            self.content_type.filter(|it| form.is_some() || self.status == StatusCode::OK && accept::is_protobuf(it));
        if let Some(content_type) = content_type.filter(|it| *it != b"application/json") {
            put_member("contentType", content_type, out);
        }
        if let Some(coding) = self.coding.filter(|_| form.is_some()) {
            put_member("contentEncoding", coding, out);
        }
        if let Some(headers) = headers {
            put_headers(headers, out);
        }
        match form {
            Some(Form::Json) => out.extend_from_slice(b",\"body\":"),
            Some(Form::Base64) => out.extend_from_slice(b",\"encoding\":\"base64\",\"body\":\""),
            None => {}
        }
    }
}

/// Ends a part after its body.
pub(super) fn end(form: Option<Form>, out: &mut Vec<u8>) {
    out.extend_from_slice(if form == Some(Form::Base64) { b"\"}" } else { b"}" });
}

pub(super) fn put_base64(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
}

/// True if these bytes can stand in a JSON document as they are and its reader can parse them: one
/// record that is too deep for a parser would cost the others too.
pub(super) fn is_json_text(bytes: &[u8]) -> bool {
    depth(bytes) <= EMBEDDED_DEPTH
        && std::str::from_utf8(bytes).is_ok()
        && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
        && is_for_strict_readers(bytes)
}

/// Returns whether JSON has only numbers that a double can hold, and no half of a surrogate pair: a strict
/// reader refuses the whole document for one of either.
fn is_for_strict_readers(json: &[u8]) -> bool {
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        at = match byte {
            b'"' => match after_text(json, at + 1) {
                Some(next) => next,
                None => return false,
            },
            b'-' | b'0'..=b'9' => {
                let len = json[at..].iter().take_while(|byte| is_of_number(**byte)).count();
                if !is_finite(&json[at..at + len]) {
                    return false;
                }
                at + len
            }
            _ => at + 1,
        };
    }
    true
}

const fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

fn is_finite(number: &[u8]) -> bool {
    const FEW: usize = 16;
    let is_plain = number.len() <= FEW && !number.iter().any(|byte| matches!(byte, b'e' | b'E'));
    is_plain || std::str::from_utf8(number).is_ok_and(|text| text.parse().is_ok_and(f64::is_finite))
}

/// Position at which JSON goes on after a text that begins at `at`; `None` if it holds half a surrogate pair.
fn after_text(json: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' if json.get(at + 1) == Some(&b'u') => match unit(json, at)? {
                0xdc00..=0xdfff => return None,
                0xd800..=0xdbff if !unit(json, at + 6).is_some_and(|low| (0xdc00..=0xdfff).contains(&low)) => {
                    return None;
                }
                0xd800..=0xdbff => at += 12,
                _ => at += 6,
            },
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The UTF-16 unit that is escaped at `at`.
fn unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Depth of nested objects and lists, if it is JSON.
fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut most, mut in_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in bytes {
        match byte {
            _ if std::mem::take(&mut is_escaped) => {}
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                most = most.max(depth);
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// True if reading only the value of JSON text loses nothing.
pub(super) fn is_bare(bytes: &Bytes) -> bool {
    bytes.trim_ascii().len() == bytes.len()
}

fn put_number(name: &str, number: u64, out: &mut Vec<u8>) {
    put_name(name, out);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// A member whose value is text that came as a header's value: each byte is a character.
fn put_member(name: &str, value: &[u8], out: &mut Vec<u8>) {
    put_name(name, out);
    put_bytes(value, out);
}

fn put_name(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn put_bytes(value: &[u8], out: &mut Vec<u8>) {
    match std::str::from_utf8(value) {
        Ok(text) if text.is_ascii() => put_text(text, out),
        _ => put_text(&value.iter().map(|byte| char::from(*byte)).collect::<String>(), out),
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
    serde_json::to_writer(out, text).expect("text is JSON, and memory takes it");
}

/// One number for one record, a list for several; nothing for what is none.
fn put_version(stated: &[u8], out: &mut Vec<u8>) {
    let numbers = stated.split(|byte| *byte == b',').map(read_number);
    if !numbers.clone().all(|number| number.is_some()) {
        return;
    }
    put_name("version", out);
    let several = numbers.clone().nth(1).is_some();
    if several {
        out.push(b'[');
    }
    for (at, version) in numbers.flatten().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(itoa::Buffer::new().format(version).as_bytes());
    }
    if several {
        out.push(b']');
    }
}

fn read_number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

/// All lines, in their order. Cookies are for nobody: a batch may be answered from many replies.
fn put_headers(headers: &HeaderMap, out: &mut Vec<u8>) {
    put_name("headers", out);
    out.push(b'[');
    let mut first = true;
    for (name, value) in headers.iter().filter(|(name, _)| *name != header::SET_COOKIE) {
        out.extend_from_slice(if std::mem::take(&mut first) { b"[" } else { b",[" });
        put_text(name.as_str(), out);
        out.push(b',');
        put_bytes(value.as_bytes(), out);
        out.push(b']');
    }
    out.push(b']');
}
