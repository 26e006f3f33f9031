//! Reads one value: from what was written to what the program uses.
//!
//! A value that is read here lies within its setting's range. Each refusal says what to write
//! instead, and repeats no URL, since one may hold a password.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::HeaderName;
use strum::VariantNames;
use url::Url;

use super::arn::TopicArn;
use super::filter::{FILTER_SUGGESTION, check_filter};
use super::ignored::HeaderPattern;
use super::settings::SettingKind;
use super::template::{PathTemplate, RecordTemplate};
use super::tree::{Raw, Value};
use crate::config::error::{ConfigProblem, nearest, quoted};
use crate::config::limits;
use crate::model::names;

mod header;
mod number;
mod queue;
mod text;

pub(super) use header::{header, header_patterns, headers};
pub(super) use number::{count, duration, mode, size, uids};
pub(super) use queue::{kms_key, tags};
pub(super) use text::{Read, is_none, text, text_of};

use text::list;

/// A type that values of settings have.
pub(super) trait FromRaw: Sized {
    /// Stands for a wrong value of a setting that may be none.
    const NONE: Option<Self> = None;

    /// Reads a value that lies within the range of `kind`.
    fn from_raw(raw: &Raw, kind: SettingKind) -> Read<Self>;
}

impl<T: FromRaw> FromRaw for Option<T> {
    const NONE: Option<Self> = Some(None);

    fn from_raw(raw: &Raw, kind: SettingKind) -> Read<Self> {
        if is_none(raw, kind) { Ok(None) } else { T::from_raw(raw, kind).map(Some) }
    }
}

/// Names the function that reads the values of a type.
macro_rules! read_by {
    ($($type:ty => $read:expr;)*) => { $(
        impl crate::config::value::FromRaw for $type {
            fn from_raw(
                raw: &crate::config::tree::Raw,
                kind: crate::config::settings::SettingKind,
            ) -> crate::config::value::Read<Self> {
                $read(raw, kind)
            }
        }
    )* };
}

/// Writes the words of a setting as an enum.
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$of_word:meta])* $word:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
        #[strum(serialize_all = "snake_case")]
        $vis enum $name { $($(#[$of_word])* $word,)+ }

        $crate::config::value::read_by! { $name => $crate::config::value::word; }
    };
}

pub(super) use {read_by, words};

read_by! {
    bool => flag;
    u64 => whole;
    usize => usize_count;
    u32 => mode;
    Duration => duration;
    String => string;
    PathBuf => file;
    SocketAddr => address;
    Url => url;
    TopicArn => topic;
    HeaderName => header;
    PathTemplate => path;
    Vec<u32> => uids;
    Vec<String> => strings;
    Vec<HeaderName> => headers;
    Vec<HeaderPattern> => header_patterns;
    Vec<RecordTemplate> => records;
    Vec<(String, String)> => tags;
}

fn whole(raw: &Raw, kind: SettingKind) -> Read<u64> {
    if let SettingKind::Size(..) = kind { size(raw, kind) } else { count(raw, kind) }
}

/// Ranges of counts fit any machine.
fn usize_count(raw: &Raw, kind: SettingKind) -> Read<usize> {
    count(raw, kind).map(|count| usize::try_from(count).unwrap_or(usize::MAX))
}

fn string(raw: &Raw, kind: SettingKind) -> Read<String> {
    match kind {
        SettingKind::RegionName => region_name(raw, kind),
        SettingKind::Name => name(raw, kind),
        SettingKind::KmsKey => kms_key(raw, kind),
        SettingKind::Parameter => parameter(raw, kind),
        SettingKind::Hash => hash(raw, kind),
        SettingKind::Filter => filter(raw, kind),
        _ => text(raw, kind),
    }
}

fn strings(raw: &Raw, kind: SettingKind) -> Read<Vec<String>> {
    match kind {
        SettingKind::Names => names(raw, kind),
        SettingKind::Claims => claims(raw, kind),
        SettingKind::Audiences => audiences(raw, kind),
        _ => hosts(raw, kind),
    }
}

/// One of the words of `T`.
pub(super) fn word<T: FromStr + VariantNames>(raw: &Raw, _: SettingKind) -> Read<T> {
    let one_of = T::VARIANTS.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
    let text = text_of(raw, &format!("write one of {one_of}"))?;
    text.parse().map_err(|_| {
        let suggestion = match nearest(text, T::VARIANTS.iter().copied()) {
            Some(word) => format!("did you mean \"{word}\"? It is one of {one_of}"),
            None => format!("write one of {one_of}"),
        };
        ConfigProblem::new(format!("{} is not known here", quoted(text)), suggestion)
    })
}

/// The name can stand unchanged in a `Cache-Status` detail (RFC 9211 section 2.8: a token of RFC
/// 8941) and in a label.
pub(super) fn region_name(raw: &Raw, _: SettingKind) -> Read<String> {
    let suggestion = "write a letter, then up to 62 letters, digits, `-`, `_` or `.`, such as \"eu-west-1\"";
    let text = text_of(raw, suggestion)?;
    let shaped = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.len() <= 63
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if shaped {
        Ok(text.to_owned())
    } else {
        Err(ConfigProblem::new(format!("{} is not a name", quoted(text)), suggestion))
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

pub(super) fn hash(raw: &Raw, _: SettingKind) -> Read<String> {
    const SUGGESTION: &str = "write what `sha256sum FILE` says, such as \"9f86d081884c..\"";
    let text = text_of(raw, SUGGESTION)?;
    if text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        Ok(text.to_owned())
    } else {
        Err(ConfigProblem::new("a SHA-256 hash is 64 hexadecimal digits", SUGGESTION))
    }
}

pub(super) fn address(raw: &Raw, _: SettingKind) -> Read<SocketAddr> {
    const SUGGESTION: &str = "write an IP address and a port, such as \"127.0.0.1:8700\" or \"[::1]:8700\"";
    let text = text_of(raw, SUGGESTION)?;
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let suggestion = match text.rsplit_once(':') {
        Some(("localhost", port)) => format!("write \"127.0.0.1:{port}\""),
        Some(("" | "*", port)) => {
            format!("write \"127.0.0.1:{port}\", or \"0.0.0.0:{port}\" when other machines are to reach it")
        }
        _ if text.parse::<IpAddr>().is_ok() => "write the port too".to_owned(),
        _ => SUGGESTION.to_owned(),
    };
    Err(ConfigProblem::new(format!("{} is not an address and port", quoted(text)), suggestion))
}

/// A base URL, so no query, fragment or user name.
pub(super) fn url(raw: &Raw, _: SettingKind) -> Read<Url> {
    const SUGGESTION: &str = "write http:// or https://, a host, and perhaps a port and a path, such as \
                           \"https://contexts.eu-west-1.example.com\"";
    let text = text_of(raw, SUGGESTION)?;
    if text.contains(char::is_whitespace) {
        return Err(ConfigProblem::new("a URL with a space", "remove it, or write it as %20"));
    }
    let url = Url::parse(text).map_err(|error| ConfigProblem::new(format!("not a URL: {error}"), SUGGESTION))?;
    if url.port() == Some(0) {
        return Err(ConfigProblem::new(
            "port 0, where nobody can listen",
            "write the port, or leave it out for the scheme's own",
        ));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(ConfigProblem::new("neither an http nor an https URL", SUGGESTION));
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

pub(super) fn topic(raw: &Raw, _: SettingKind) -> Read<TopicArn> {
    text_of(raw, "write the ARN of an SNS topic between quotes")?.parse()
}

pub(super) fn file(raw: &Raw, kind: SettingKind) -> Read<PathBuf> {
    text(raw, kind).map(PathBuf::from)
}

/// Reads hosts, in lower case.
pub(super) fn hosts(raw: &Raw, _: SettingKind) -> Read<Vec<String>> {
    const SUGGESTION: &str = "write a host without scheme, port or path, such as \"contexts.internal\"";
    list(raw, limits::ALLOWED_CALLERS, "hosts", |item| {
        let text = text_of(item, SUGGESTION)?;
        let named = !text.is_empty()
            && text.len() <= 253
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        let address = text.parse::<IpAddr>().is_ok();
        if named || address {
            Ok(text.to_ascii_lowercase())
        } else {
            Err(ConfigProblem::new(format!("{} is not a host", quoted(text)), SUGGESTION))
        }
    })
}

/// Reads the name of a record type or a view.
pub(super) fn name(raw: &Raw, _: SettingKind) -> Read<String> {
    const SUGGESTION: &str = "write a lower-case letter, then up to 63 lower-case letters, digits, `-` or `_`";
    let text = text_of(raw, SUGGESTION)?;
    if names::is_name(text) {
        Ok(text.to_owned())
    } else {
        Err(ConfigProblem::new(format!("{} is not a name", quoted(text)), SUGGESTION))
    }
}

pub(super) fn names(raw: &Raw, kind: SettingKind) -> Read<Vec<String>> {
    let names = list(raw, limits::NAMES, "names", |item| name(item, kind))?;
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        Some((_, name)) => Err(ConfigProblem::new(format!("`{name}` is listed twice"), "keep one of the two")),
        None => Ok(names),
    }
}

/// Reads values of `aud`, compared byte for byte (RFC 7519, section 4.1.3).
pub(super) fn audiences(raw: &Raw, _: SettingKind) -> Read<Vec<String>> {
    const SUGGESTION: &str = "write the audiences of other services, such as [\"https://catalogue.example\"]";
    list(raw, limits::AUDIENCES, "audiences", |item| {
        let audience = text_of(item, SUGGESTION)?;
        let is_plain = !audience.is_empty() && audience.bytes().all(|byte| byte.is_ascii_graphic());
        if is_plain {
            Ok(audience.to_owned())
        } else {
            Err(ConfigProblem::new(format!("{} is no audience", quoted(audience)), SUGGESTION))
        }
    })
}

/// Reads names of claims (RFC 7519, section 4).
pub(super) fn claims(raw: &Raw, _: SettingKind) -> Read<Vec<String>> {
    const SUGGESTION: &str = "write the names of claims, such as [\"tenant\", \"scope\"], or [\"all\"]";
    const OF_ONE_TOKEN: &str = "remove it: it differs from token to token, so nothing would be shared";
    let claims = list(raw, limits::CLAIMS_PER_ROUTE, "claims", |item| {
        let name = text_of(item, SUGGESTION)?;
        match name {
            "exp" | "iat" | "nbf" | "jti" => {
                Err(ConfigProblem::new(format!("`{name}` tells no callers apart"), OF_ONE_TOKEN))
            }
            _ if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(name.to_owned()),
            _ => Err(ConfigProblem::new(format!("{} is no name of a claim", quoted(name)), SUGGESTION)),
        }
    })?;
    match claims.iter().enumerate().find(|(at, name)| claims[..*at].contains(name)) {
        Some((_, name)) => Err(ConfigProblem::new(format!("`{name}` is listed twice"), "keep one of the two")),
        None if claims.len() > 1 && claims.iter().any(|name| name == "all") => {
            Err(ConfigProblem::new("`all` beside other claims", "keep `all`, or the others"))
        }
        None => Ok(claims),
    }
}

pub(super) fn path(raw: &Raw, _: SettingKind) -> Read<PathTemplate> {
    PathTemplate::parse(text_of(raw, "write a path template between quotes, such as \"/v1/contexts/{key}\"")?)
}

pub(super) fn records(raw: &Raw, _: SettingKind) -> Read<Vec<RecordTemplate>> {
    let suggestion = "write a list, such as [\"context:{key}\"]";
    let records = list(raw, limits::RECORDS_PER_ROUTE, "record templates", |item| {
        RecordTemplate::parse(text_of(item, suggestion)?)
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

/// Letters that no client encodes in one way and a proxy in another.
pub(super) fn parameter(raw: &Raw, _: SettingKind) -> Read<String> {
    const SUGGESTION: &str =
        "write the name of a query parameter, of letters, digits, `-`, `_`, `.`, `$`: \"fields\"";
    let text = text_of(raw, SUGGESTION)?;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.$".contains(&byte));
    if is_plain && !text.is_empty() && text.len() <= limits::PARAMETER_BYTES {
        Ok(text.to_owned())
    } else {
        Err(ConfigProblem::new(format!("{} is not a parameter", quoted(text)), SUGGESTION))
    }
}

pub(super) fn filter(raw: &Raw, _: SettingKind) -> Read<String> {
    let text = text_of(raw, FILTER_SUGGESTION)?;
    check_filter(text)?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
