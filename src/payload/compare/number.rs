//! Numbers as JSON writes them, by value: `1`, `1.0` and `1e0` are one. No digit is lost, since
//! none goes through a double.

/// Both are well-formed.
pub(super) fn are_equal(one: &str, other: &str) -> bool {
    one == other || value(one).zip(value(other)).is_some_and(|(one, other)| one == other)
}

/// Sign, digits without zeros at either end, and the power of ten of the last one. `None` where the
/// exponent is beyond all reason.
fn value(text: &str) -> Option<(bool, String, i64)> {
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return Some((false, String::new(), 0));
    }
    let dropped = (digits.len() - kept.len()) as i64;
    let power = exponent.parse::<i64>().ok()?.checked_sub(fraction.len() as i64)?.checked_add(dropped)?;
    Some((is_negative, kept.trim_start_matches('0').to_owned(), power))
}

#[cfg(test)]
mod tests {
    use super::are_equal;

    #[test]
    fn numbers_are_equal_by_value_and_to_the_last_digit() {
        for (one, other) in [
            ("1", "1.0"),
            ("1", "1e0"),
            ("10", "1E+1"),
            ("0.10", "1e-1"),
            ("-0", "0.00"),
            ("0e7", "0"),
            ("120", "1.2e2"),
            ("-5", "-50e-1"),
        ] {
            assert!(are_equal(one, other) && are_equal(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("1", "-1"),
            ("1", "10"),
            ("9007199254740993", "9007199254740992"),
            ("0.1", "0.10000000000000001"),
            ("1e99999999999999999999", "1e99999999999999999998"),
        ] {
            assert!(!are_equal(one, other), "{one} {other}");
        }
    }
}
