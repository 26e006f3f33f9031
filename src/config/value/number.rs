//! Numbers, with units and without.

use std::time::Duration;

use super::text::{Read, list, text_of};
use crate::config::error::{ConfigProblem, quoted};
use crate::config::limits;
use crate::config::settings::SettingKind;
use crate::config::tree::{Raw, Value};

pub(in crate::config) fn count(raw: &Raw, kind: SettingKind) -> Read<u64> {
    let (from, to) = if let SettingKind::Count(from, to) = kind { (from, to) } else { (0, u64::MAX) };
    let suggestion = format!("write a number from {from} to {to}, without quotes");
    let number = match &raw.value {
        Value::Integer { digits, base } => u64::from_str_radix(digits, *base).ok(),
        Value::Untyped(text) => text.replace('_', "").parse().ok(),
        _ => return Err(ConfigProblem::new(format!("{} where a number belongs", raw.kind()), suggestion)),
    };
    match number {
        Some(number) if (from..=to).contains(&number) => Ok(number),
        Some(number) => Err(ConfigProblem::new(format!("{number} is out of range"), suggestion)),
        None => Err(ConfigProblem::new("not a whole number within 64 bits", suggestion)),
    }
}

pub(in crate::config) fn duration(raw: &Raw, kind: SettingKind) -> Read<Duration> {
    const SUGGESTION: &str = "write a number with a unit between quotes, such as \"250ms\", \"90s\" or \"1h\"";
    let text = match &raw.value {
        Value::Integer { digits, base: 10 } => {
            let what = format!("{} has no unit", quoted(digits));
            return Err(ConfigProblem::new(what, format!("write \"{digits}s\" when seconds are meant")));
        }
        Value::Untyped(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && text != "0" => {
            let what = format!("{} has no unit", quoted(text));
            return Err(ConfigProblem::new(what, format!("write {text}s when seconds are meant")));
        }
        _ => text_of(raw, SUGGESTION)?,
    };
    let Ok(span) = humantime::parse_duration(text) else {
        return Err(ConfigProblem::new(format!("{} is not a duration", quoted(text)), SUGGESTION));
    };
    match kind {
        SettingKind::Duration(from, to) if !(from..=to).contains(&span) => {
            let time = humantime::format_duration;
            let suggestion = format!("write {} to {}", time(from), time(to));
            Err(ConfigProblem::new(format!("{} is out of range", quoted(text)), suggestion))
        }
        _ => Ok(span),
    }
}

/// Reads a size, in bytes.
pub(in crate::config) fn size(raw: &Raw, kind: SettingKind) -> Read<u64> {
    const SUGGESTION: &str = "write a number with a unit between quotes, such as \"256MiB\"";
    let (bytes, written) = match &raw.value {
        Value::Integer { digits, base } => (u64::from_str_radix(digits, *base).ok(), digits.as_str()),
        _ => {
            let text = text_of(raw, SUGGESTION)?;
            (text.parse::<bytesize::ByteSize>().ok().map(|size| size.as_u64()), text)
        }
    };
    let Some(bytes) = bytes else {
        return Err(ConfigProblem::new(format!("{} is not a size", quoted(written)), SUGGESTION));
    };
    match kind {
        SettingKind::Size(from, to) if !(from..=to).contains(&bytes) => {
            let suggestion = format!("write {} to {}", bytesize::ByteSize(from), bytesize::ByteSize(to));
            Err(ConfigProblem::new(format!("{} is out of range", quoted(written)), suggestion))
        }
        _ => Ok(bytes),
    }
}

pub(in crate::config) fn mode(raw: &Raw, _: SettingKind) -> Read<u32> {
    const SUGGESTION: &str = "write permission bits in octal between quotes, such as \"0600\" or \"0660\"";
    let digits = match &raw.value {
        Value::Integer { digits, base: 8 } => digits.as_str(),
        Value::Integer { digits, .. } => {
            return Err(ConfigProblem::new(format!("{} is not octal", quoted(digits)), SUGGESTION));
        }
        _ => text_of(raw, SUGGESTION)?,
    };
    let bare = digits.strip_prefix("0o").unwrap_or(digits);
    match u32::from_str_radix(bare, 8) {
        Ok(bits) if bits <= 0o777 && !bare.starts_with('+') => Ok(bits),
        _ => Err(ConfigProblem::new(format!("{} is not permission bits", quoted(digits)), SUGGESTION)),
    }
}

pub(in crate::config) fn uids(raw: &Raw, _: SettingKind) -> Read<Vec<u32>> {
    list(raw, limits::ALLOWED_CALLERS, "user ids", |item| {
        let uid = count(item, SettingKind::Count(0, u64::from(u32::MAX) - 1))?;
        u32::try_from(uid).map_err(|_| ConfigProblem::new("not a user id", "write a number"))
    })
}
