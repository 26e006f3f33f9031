//! Reads one value: from what was written to what the program uses.
//!
//! A value that is read here lies within its setting's range. Each refusal says what to write
//! instead, and repeats no URL, since one may hold a password.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::HeaderName;
use url::Url;

use super::settings::SettingKind;
use super::tree::{Raw, Value};
use super::{HeaderPattern, MessageRef, PathTemplate, RecordTemplate, Share, TopicArn, UrlPerRegion};
use crate::config::error::{ConfigProblem, nearest, quoted};
use crate::config::limits;
use crate::model::names;

mod queue;
pub(super) use queue::{kms_key, tags};

type Read<T> = Result<T, ConfigProblem>;

/// The text of a string or a variable.
fn text_of<'r>(raw: &'r Raw, instead: &str) -> Read<&'r str> {
    match &raw.value {
        Value::Text(text) | Value::Untyped(text) => Ok(text),
        _ => Err(ConfigProblem::new(format!("{} where text belongs", raw.kind()), instead)),
    }
}

/// Whether it says "none": `""` or, for an address, `false`.
pub(super) fn is_none(raw: &Raw, kind: SettingKind) -> bool {
    match &raw.value {
        Value::Text(text) | Value::Untyped(text) if text.is_empty() => true,
        Value::Untyped(text) => kind == SettingKind::AddressOrNone && text == "false",
        Value::Flag(flag) => kind == SettingKind::AddressOrNone && !flag,
        _ => false,
    }
}

/// [`SettingKind::Text`] and other text that needs no further parsing.
pub(super) fn text(raw: &Raw, _: SettingKind) -> Read<String> {
    let text = text_of(raw, "write it between quotes")?;
    if text.chars().any(char::is_control) {
        return Err(ConfigProblem::new("text with a control character", "write printable text"));
    }
    Ok(text.to_owned())
}

/// The name can stand unchanged in a `Cache-Status` detail (RFC 9211 section 2.8: a token of RFC
/// 8941) and in a label.
pub(super) fn region_name(raw: &Raw, _: SettingKind) -> Read<String> {
    let instead = "write a letter, then up to 62 letters, digits, `-`, `_` or `.`, such as \"eu-west-1\"";
    let text = text_of(raw, instead)?;
    let shaped = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.len() <= 63
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if shaped {
        Ok(text.to_owned())
    } else {
        Err(ConfigProblem::new(format!("{} is not a name", quoted(text)), instead))
    }
}

pub(super) fn flag(raw: &Raw, _: SettingKind) -> Read<bool> {
    match &raw.value {
        Value::Flag(flag) => Ok(*flag),
        Value::Untyped(text) if text == "true" => Ok(true),
        Value::Untyped(text) if text == "false" => Ok(false),
        Value::Text(text) if text == "true" || text == "false" => {
            Err(ConfigProblem::new(format!("\"{text}\" in quotes"), format!("write {text} without quotes")))
        }
        Value::Untyped(text) => {
            Err(ConfigProblem::new(format!("{} is neither true nor false", quoted(text)), "write one"))
        }
        _ => Err(ConfigProblem::new(format!("{} where true or false belongs", raw.kind()), "write true or false")),
    }
}

pub(super) fn count(raw: &Raw, kind: SettingKind) -> Read<u64> {
    let (from, to) = if let SettingKind::Count(from, to) = kind { (from, to) } else { (0, u64::MAX) };
    let instead = format!("write a number from {from} to {to}, without quotes");
    let number = match &raw.value {
        Value::Integer { digits, base } => u64::from_str_radix(digits, *base).ok(),
        Value::Untyped(text) => text.replace('_', "").parse().ok(),
        _ => return Err(ConfigProblem::new(format!("{} where a number belongs", raw.kind()), instead)),
    };
    match number {
        Some(number) if (from..=to).contains(&number) => Ok(number),
        Some(number) => Err(ConfigProblem::new(format!("{number} is out of range"), instead)),
        None => Err(ConfigProblem::new("not a whole number within 64 bits", instead)),
    }
}

/// A share is kept in millionths, so that it can be compared and hashed.
pub(super) fn share(raw: &Raw, _: SettingKind) -> Read<Share> {
    const INSTEAD: &str = "write a number from 0 to 1, without quotes, such as 0.05";
    let text = match &raw.value {
        Value::Integer { digits, base: 10 } => digits,
        Value::Float(text) | Value::Untyped(text) => text,
        _ => return Err(ConfigProblem::new(format!("{} where a share belongs", raw.kind()), INSTEAD)),
    };
    match text.replace('_', "").parse::<f64>() {
        Ok(share) if share > 0.0 && Share::of(share) == Share::of(0.0) => {
            Err(ConfigProblem::new(format!("{} is nothing: shares are millionths", quoted(text)), INSTEAD))
        }
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(Share::of(share)),
        Ok(_) => Err(ConfigProblem::new(format!("{} is out of range", quoted(text)), INSTEAD)),
        Err(_) => Err(ConfigProblem::new(format!("{} is not a number", quoted(text)), INSTEAD)),
    }
}

pub(super) fn hash(raw: &Raw, _: SettingKind) -> Read<String> {
    const INSTEAD: &str = "write what `sha256sum FILE` says, such as \"9f86d081884c..\"";
    let text = text_of(raw, INSTEAD)?;
    match text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        true => Ok(text.to_owned()),
        false => Err(ConfigProblem::new("a SHA-256 hash is 64 hexadecimal digits", INSTEAD)),
    }
}

pub(super) fn duration(raw: &Raw, kind: SettingKind) -> Read<Duration> {
    const INSTEAD: &str = "write a number with a unit between quotes, such as \"250ms\", \"90s\" or \"1h\"";
    let text = match &raw.value {
        Value::Integer { digits, base: 10 } => {
            let what = format!("{} has no unit", quoted(digits));
            return Err(ConfigProblem::new(what, format!("write \"{digits}s\" when seconds are meant")));
        }
        Value::Untyped(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && text != "0" => {
            let what = format!("{} has no unit", quoted(text));
            return Err(ConfigProblem::new(what, format!("write {text}s when seconds are meant")));
        }
        _ => text_of(raw, INSTEAD)?,
    };
    let Ok(span) = humantime::parse_duration(text) else {
        return Err(ConfigProblem::new(format!("{} is not a duration", quoted(text)), INSTEAD));
    };
    match kind {
        SettingKind::Duration(from, to) if !(from..=to).contains(&span) => {
            let time = humantime::format_duration;
            let instead = format!("write {} to {}", time(from), time(to));
            Err(ConfigProblem::new(format!("{} is out of range", quoted(text)), instead))
        }
        _ => Ok(span),
    }
}

/// In bytes.
pub(super) fn size(raw: &Raw, kind: SettingKind) -> Read<u64> {
    const INSTEAD: &str = "write a number with a unit between quotes, such as \"256MiB\"";
    let (bytes, written) = match &raw.value {
        Value::Integer { digits, base } => (u64::from_str_radix(digits, *base).ok(), digits.as_str()),
        _ => {
            let text = text_of(raw, INSTEAD)?;
            (text.parse::<bytesize::ByteSize>().ok().map(|size| size.as_u64()), text)
        }
    };
    let Some(bytes) = bytes else {
        return Err(ConfigProblem::new(format!("{} is not a size", quoted(written)), INSTEAD));
    };
    match kind {
        SettingKind::Size(from, to) if !(from..=to).contains(&bytes) => {
            let instead = format!("write {} to {}", bytesize::ByteSize(from), bytesize::ByteSize(to));
            Err(ConfigProblem::new(format!("{} is out of range", quoted(written)), instead))
        }
        _ => Ok(bytes),
    }
}

/// Returns the word's place among the words.
pub(super) fn word(raw: &Raw, kind: SettingKind) -> Read<usize> {
    let words = if let SettingKind::Word(words) = kind { words } else { &[] };
    let one_of = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
    let text = text_of(raw, &format!("write one of {one_of}"))?;
    words.iter().position(|word| *word == text).ok_or_else(|| {
        let instead = match nearest(text, words.iter().copied()) {
            Some(word) => format!("did you mean \"{word}\"? It is one of {one_of}"),
            None => format!("write one of {one_of}"),
        };
        ConfigProblem::new(format!("{} is not known here", quoted(text)), instead)
    })
}

pub(super) fn address(raw: &Raw, _: SettingKind) -> Read<SocketAddr> {
    const INSTEAD: &str = "write an IP address and a port, such as \"127.0.0.1:8700\" or \"[::1]:8700\"";
    let text = text_of(raw, INSTEAD)?;
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let instead = match text.rsplit_once(':') {
        Some(("localhost", port)) => format!("write \"127.0.0.1:{port}\""),
        Some(("" | "*", port)) => {
            format!("write \"127.0.0.1:{port}\", or \"0.0.0.0:{port}\" when other machines are to reach it")
        }
        _ if text.parse::<IpAddr>().is_ok() => "write the port too".to_owned(),
        _ => INSTEAD.to_owned(),
    };
    Err(ConfigProblem::new(format!("{} is not an address and port", quoted(text)), instead))
}

/// A base URL, so no query, fragment or user name.
pub(super) fn url(raw: &Raw, _: SettingKind) -> Read<Url> {
    const INSTEAD: &str = "write http:// or https://, a host, and perhaps a port and a path, such as \
                           \"https://contexts.eu-west-1.example.com\"";
    let text = text_of(raw, INSTEAD)?;
    if text.contains(char::is_whitespace) {
        return Err(ConfigProblem::new("a URL with a space", "remove it, or write it as %20"));
    }
    let url = Url::parse(text).map_err(|error| ConfigProblem::new(format!("not a URL: {error}"), INSTEAD))?;
    if url.port() == Some(0) {
        return Err(ConfigProblem::new(
            "port 0, where nobody can listen",
            "write the port, or leave it out for the scheme's own",
        ));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(ConfigProblem::new("neither an http nor an https URL", INSTEAD));
    }
    if !url.username().is_empty()
        || url.password().is_some()
        || text.split('/').nth(2).is_some_and(|s| s.contains('@'))
    {
        return Err(ConfigProblem::new(
            "a URL with a user name or password",
            "remove it, and let a route's `credentials` name the file that holds it",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(ConfigProblem::new("a URL with a query or fragment", "remove all from the `?` or `#` on"));
    }
    Ok(url)
}

/// A base URL for each region.
pub(super) fn url_per_region(raw: &Raw, kind: SettingKind) -> Read<UrlPerRegion> {
    let written = text_of(raw, "write it between quotes")?;
    let left = written.replace("{region}", "");
    if left.contains(['{', '}']) {
        return Err(ConfigProblem::new("braces around something else than `region`", "write {region}, or no braces"));
    }
    let sample = Raw { value: Value::Text(written.replace("{region}", "region")), place: raw.place.clone() };
    url(&sample, kind)?;
    Ok(UrlPerRegion(written.to_owned()))
}

pub(super) fn topic(raw: &Raw, _: SettingKind) -> Read<TopicArn> {
    text_of(raw, "write the ARN of an SNS topic between quotes")?.parse()
}

pub(super) fn file(raw: &Raw, kind: SettingKind) -> Read<PathBuf> {
    text(raw, kind).map(PathBuf::from)
}

pub(super) fn mode(raw: &Raw, _: SettingKind) -> Read<u32> {
    const INSTEAD: &str = "write permission bits in octal between quotes, such as \"0600\" or \"0660\"";
    let digits = match &raw.value {
        Value::Integer { digits, base: 8 } => digits.as_str(),
        Value::Integer { digits, .. } => {
            return Err(ConfigProblem::new(format!("{} is not octal", quoted(digits)), INSTEAD));
        }
        _ => text_of(raw, INSTEAD)?,
    };
    let bare = digits.strip_prefix("0o").unwrap_or(digits);
    match u32::from_str_radix(bare, 8) {
        Ok(bits) if bits <= 0o777 && !bare.starts_with('+') => Ok(bits),
        _ => Err(ConfigProblem::new(format!("{} is not permission bits", quoted(digits)), INSTEAD)),
    }
}

/// The items of a list, each read by `item`; a variable's text is split at commas.
fn list<T>(raw: &Raw, at_most: usize, of: &str, item: impl Fn(&Raw) -> Read<T>) -> Read<Vec<T>> {
    let split;
    let items = match &raw.value {
        Value::List(items) => items,
        Value::Untyped(text) => {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            split = words
                .map(|word| Raw { value: Value::Untyped(word.to_owned()), place: raw.place.clone() })
                .collect::<Vec<_>>();
            &split
        }
        _ => {
            let instead = format!("write {of} between square brackets, such as [\"..\", \"..\"]");
            return Err(ConfigProblem::new(format!("{} where a list belongs", raw.kind()), instead));
        }
    };
    if items.len() > at_most {
        let what = format!("{} where at most {at_most} are taken", items.len());
        return Err(ConfigProblem::new(what, "remove some"));
    }
    items.iter().map(item).collect()
}

pub(super) fn uids(raw: &Raw, _: SettingKind) -> Read<Vec<u32>> {
    list(raw, limits::ALLOWED_CALLERS, "user ids", |item| {
        let uid = count(item, SettingKind::Count(0, u64::from(u32::MAX) - 1))?;
        u32::try_from(uid).map_err(|_| ConfigProblem::new("not a user id", "write a number"))
    })
}

pub(super) fn header(raw: &Raw, _: SettingKind) -> Read<HeaderName> {
    const INSTEAD: &str = "write the name of a header without its colon, such as \"authorization\"";
    let text = text_of(raw, INSTEAD)?;
    let Ok(name) = HeaderName::from_str(text) else {
        return Err(ConfigProblem::new(format!("{} is not the name of a header", quoted(text)), INSTEAD));
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

pub(super) fn headers(raw: &Raw, kind: SettingKind) -> Read<Vec<HeaderName>> {
    let names = list(raw, limits::HEADERS_PER_ROUTE, "names of headers", |item| header(item, kind))?;
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        Some((_, name)) => Err(ConfigProblem::new(format!("`{name}` is listed twice"), "keep one of the two")),
        None => Ok(names),
    }
}

pub(super) fn header_patterns(raw: &Raw, kind: SettingKind) -> Read<Vec<HeaderPattern>> {
    list(raw, limits::IGNORED_PER_ROUTE, "names of headers", |item| header_pattern(item, kind))
}

fn header_pattern(raw: &Raw, kind: SettingKind) -> Read<HeaderPattern> {
    const INSTEAD: &str = "write what the names have in common up to a `-`, such as \"x-forwarded-*\"";
    let text = text_of(raw, INSTEAD)?;
    let Some(prefix) = text.strip_suffix('*') else { return header(raw, kind).map(HeaderPattern::Name) };
    let is_name = HeaderName::from_str(prefix).is_ok() && !prefix.contains('*');
    if !is_name || !prefix.ends_with('-') || prefix.eq_ignore_ascii_case("x-") {
        let what = format!("{} is no beginning of names that belong together", quoted(text));
        return Err(ConfigProblem::new(what, INSTEAD));
    }
    Ok(HeaderPattern::Prefix(prefix.to_ascii_lowercase()))
}

/// In lower case.
pub(super) fn hosts(raw: &Raw, _: SettingKind) -> Read<Vec<String>> {
    const INSTEAD: &str = "write a host without scheme, port or path, such as \"contexts.internal\"";
    list(raw, limits::ALLOWED_CALLERS, "hosts", |item| {
        let text = text_of(item, INSTEAD)?;
        let named = !text.is_empty()
            && text.len() <= 253
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        let address = text.parse::<IpAddr>().is_ok();
        if named || address {
            Ok(text.to_ascii_lowercase())
        } else {
            Err(ConfigProblem::new(format!("{} is not a host", quoted(text)), INSTEAD))
        }
    })
}

/// What a record type or a view is called.
pub(super) fn name(raw: &Raw, _: SettingKind) -> Read<String> {
    const INSTEAD: &str = "write a lower-case letter, then up to 63 lower-case letters, digits, `-` or `_`";
    let text = text_of(raw, INSTEAD)?;
    match names::is_name(text) {
        true => Ok(text.to_owned()),
        false => Err(ConfigProblem::new(format!("{} is not a name", quoted(text)), INSTEAD)),
    }
}

pub(super) fn names(raw: &Raw, kind: SettingKind) -> Read<Vec<String>> {
    let names = list(raw, limits::NAMES, "names", |item| name(item, kind))?;
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        Some((_, name)) => Err(ConfigProblem::new(format!("`{name}` is listed twice"), "keep one of the two")),
        None => Ok(names),
    }
}

pub(super) fn path(raw: &Raw, _: SettingKind) -> Read<PathTemplate> {
    PathTemplate::parse(text_of(raw, "write a path template between quotes, such as \"/v1/contexts/{key}\"")?)
}

pub(super) fn records(raw: &Raw, _: SettingKind) -> Read<Vec<RecordTemplate>> {
    let instead = "write a list, such as [\"context:{key}\"]";
    let records = list(raw, limits::RECORDS_PER_ROUTE, "record templates", |item| {
        RecordTemplate::parse(text_of(item, instead)?)
    })?;
    if records.is_empty() {
        return Err(ConfigProblem::new(
            "an empty list",
            "name the record that the path shows, such as [\"context:{key}\"]",
        ));
    }
    match records.iter().enumerate().find(|(at, record)| records[..*at].contains(record)) {
        Some((_, record)) => Err(ConfigProblem::new(format!("`{record}` is listed twice"), "keep one of the two")),
        None => Ok(records),
    }
}

pub(super) fn message(raw: &Raw, _: SettingKind) -> Read<MessageRef> {
    const INSTEAD: &str = "write a file with a FileDescriptorSet (`buf build -o contexts.binpb`, or `protoc \
                           --include_imports --descriptor_set_out=...`), `#`, and a message: \
                           \"contexts.binpb#acme.v1.Context\"";
    let text = text_of(raw, INSTEAD)?;
    let is_plain = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match text.rsplit_once('#') {
        Some((file, message)) if !file.is_empty() && message.split('.').all(is_plain) => {
            Ok(MessageRef { file: file.into(), message: message.to_owned() })
        }
        _ => Err(ConfigProblem::new(format!("{} names no file and message", quoted(text)), INSTEAD)),
    }
}

/// Letters that no client encodes in one way and a proxy in another.
pub(super) fn parameter(raw: &Raw, _: SettingKind) -> Read<String> {
    const INSTEAD: &str = "write the name of a query parameter, of letters, digits, `-`, `_`, `.`, `$`: \"fields\"";
    let text = text_of(raw, INSTEAD)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.$".contains(&byte);
    match !text.is_empty() && text.len() <= limits::PARAMETER_BYTES && text.bytes().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(ConfigProblem::new(format!("{} is not a parameter", quoted(text)), INSTEAD)),
    }
}

pub(super) fn filter(raw: &Raw, _: SettingKind) -> Read<String> {
    let text = text_of(raw, FILTER_INSTEAD)?;
    check_filter(text)?;
    Ok(text.to_owned())
}

const FILTER_INSTEAD: &str = "write a level (off, error, warn, info, debug, trace) or levels by module, such as \
                              \"info,nearside::sidecar=debug\"";

/// Checks a log filter. `EnvFilter` takes any word for a module, so a mistyped level would silence
/// the log: here a word by itself must be a level.
pub fn check_filter(text: &str) -> Result<(), ConfigProblem> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    for part in text.split(',').filter(|_| !text.contains('[')) {
        let level = part.rsplit('=').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !LEVELS.contains(&level.as_str()) {
            let instead = match nearest(&level, LEVELS) {
                Some(known) => format!("did you mean \"{known}\"?"),
                None => FILTER_INSTEAD.to_owned(),
            };
            return Err(ConfigProblem::new(format!("{} is not a level", quoted(&level)), instead));
        }
    }
    match tracing_subscriber::EnvFilter::builder().parse(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(ConfigProblem::new(format!("{} is not a filter", quoted(text)), FILTER_INSTEAD)),
    }
}

#[cfg(test)]
mod tests;
