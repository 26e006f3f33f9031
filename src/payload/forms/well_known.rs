//! The text of timestamps, durations and field masks. Pairs are seconds and nanoseconds.

use std::ops::Range;

use super::error::Problem;

const NANOS: i64 = 1_000_000_000;
/// From year 1 to 9999.
const TIMESTAMPS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
/// Ten thousand years.
const DURATION: i64 = 315_576_000_000;

pub(super) fn print_timestamp(seconds: i64, nanos: i64) -> Result<String, Problem> {
    if !TIMESTAMPS.contains(&seconds) || !(0..NANOS).contains(&nanos) {
        return Err(Problem::Not("a timestamp of the years 1 to 9999"));
    }
    let (year, month, day) = date(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = fraction(nanos);
    Ok(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z"))
}

/// RFC 3339 with capital letters; any offset.
pub(super) fn parse_timestamp(text: &str) -> Option<(i64, i64)> {
    let (head, mut rest) = text.split_at_checked(19)?;
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !marks.iter().all(|(at, mark)| head.as_bytes()[*at] == *mark) {
        return None;
    }
    let (year, month, day) = (part(head, 0..4)?, part(head, 5..7)?, part(head, 8..10)?);
    let (hour, minute, second) = (part(head, 11..13)?, part(head, 14..16)?, part(head, 17..19)?);
    let days = days(year, month, day);
    if date(days) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut nanos = 0;
    if let Some(tail) = rest.strip_prefix('.') {
        let length = tail.bytes().take_while(u8::is_ascii_digit).count();
        nanos = parse_fraction(&tail[..length])?;
        rest = &tail[length..];
    }
    let offset = match rest.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let (hours, minutes) = (part(rest, 1..3)?, part(rest, 4..6)?);
            let is_offset = hours <= 23 && minutes <= 59;
            let offset = hours * 3600 + minutes * 60;
            is_offset.then_some(if *sign == b'+' { offset } else { -offset })?
        }
        _ => return None,
    };
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset;
    TIMESTAMPS.contains(&seconds).then_some((seconds, nanos))
}

pub(super) fn print_duration(seconds: i64, nanos: i64) -> Result<String, Problem> {
    let is_one = (-DURATION..=DURATION).contains(&seconds) && nanos.abs() < NANOS && seconds.signum() * nanos >= 0;
    if !is_one {
        return Err(Problem::Not("a duration of at most ten thousand years, with one sign"));
    }
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    Ok(format!("{sign}{}{}s", seconds.abs(), fraction(nanos.abs())))
}

pub(super) fn parse_duration(text: &str) -> Option<(i64, i64)> {
    let (sign, number) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let number = number.strip_suffix('s')?;
    let (whole, part) = number.split_once('.').map_or((number, None), |(whole, part)| (whole, Some(part)));
    let seconds = digits(whole)?;
    let nanos = part.map_or(Some(0), parse_fraction)?;
    (seconds <= DURATION).then_some((sign * seconds, sign * nanos))
}

/// One path of a mask, `snake_case` to `lowerCamelCase`, if the way back finds it again.
pub(super) fn print_path(path: &str, out: &mut String) -> Result<(), Problem> {
    let start = out.len();
    let mut raised = false;
    for letter in path.chars() {
        if letter == '_' {
            raised = true;
        } else {
            out.push(if raised { letter.to_ascii_uppercase() } else { letter });
            raised = false;
        }
    }
    let back = parse_path(&out[start..]);
    let is_clean = !path.is_empty() && !path.contains(',') && back.as_deref() == Some(path);
    if is_clean { Ok(()) } else { Err(Problem::Not("a field mask that JSON can say")) }
}

pub(super) fn parse_path(path: &str) -> Option<String> {
    let mut out = String::with_capacity(path.len() + 4);
    for letter in path.chars() {
        match letter {
            '_' => return None,
            'A'..='Z' => out.extend(['_', letter.to_ascii_lowercase()]),
            _ => out.push(letter),
        }
    }
    Some(out)
}

/// The digits at this place of a text.
fn part(text: &str, at: Range<usize>) -> Option<i64> {
    digits(text.get(at)?)
}

fn digits(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// As many digits as it takes, in threes.
fn fraction(nanos: i64) -> String {
    match nanos {
        0 => String::new(),
        _ if nanos % 1_000_000 == 0 => format!(".{:03}", nanos / 1_000_000),
        _ if nanos % 1_000 == 0 => format!(".{:06}", nanos / 1_000),
        _ => format!(".{nanos:09}"),
    }
}

fn parse_fraction(digits: &str) -> Option<i64> {
    let is_number = (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("{digits:0<9}").parse().ok())?
}

/// Year, month and day of a day since 1970 (Hinnant's `civil_from_days`).
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (year + era * 400 + i64::from(month <= 2), month, day)
}

fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, within) = (year.div_euclid(400), year.rem_euclid(400));
    let month = if month > 2 { month - 3 } else { month + 9 };
    era * 146_097 + within * 365 + within / 4 - within / 100 + (153 * month + 2) / 5 + day - 1 - 719_468
}
