//! Integers of JSON, exactly and in every spelling.

use proptest::prelude::*;

use super::*;

/// The body that one field's value makes, written as a number and in quotes.
fn made(field: &str, value: &str) -> Option<Vec<u8>> {
    let quoted = format!("\"{value}\"");
    let [bare, quoted] = [value, &quoted].map(|value| {
        let body = format!("{{\"{field}\":{value}}}");
        kinds().to_protobuf(body.as_bytes()).ok().map(|it| it.body)
    });
    assert_eq!(bare, quoted, "{field} {value}");
    bare
}

#[test]
fn decimal_spelled_integer_keeps_every_digit() {
    for (text, value) in [
        ("9007199254740993.0", 9_007_199_254_740_993),
        ("-9007199254740993.0", -9_007_199_254_740_993),
        ("9007199254740993e0", 9_007_199_254_740_993),
        ("9.007199254740993E+15", 9_007_199_254_740_993),
        ("90071992547409930e-1", 9_007_199_254_740_993),
        ("123456789012345678.0", 123_456_789_012_345_678),
        ("1e18", 1_000_000_000_000_000_000),
        ("9223372036854775807.000", i64::MAX),
        ("-9223372036854775808.0", i64::MIN),
        ("-922337203685477580.8e1", i64::MIN),
        ("1e-0", 1),
        ("10e-1", 1),
    ] {
        assert_eq!(made("anInt64", text), Some(varint(4, value as u64)), "{text}");
        let wrapped = made("wrappedInt64", text);
        assert_eq!(wrapped, Some(bytes(113, varint(1, value as u64))), "{text}");
    }
    assert_eq!(made("aUint64", "1e19"), Some(varint(6, 10_000_000_000_000_000_000)));
    assert_eq!(made("aUint64", "18446744073709551615.0"), Some(varint(6, u64::MAX)));
    let key = br#"{"byInt64":{"9007199254740993.0":"v"}}"#;
    let plain = br#"{"byInt64":{"9007199254740993":"v"}}"#;
    assert_eq!(kinds().to_protobuf(key).unwrap().body, kinds().to_protobuf(plain).unwrap().body);
}

#[test]
fn small_fraction_is_no_integer() {
    for text in ["9007199254740992.5", "4503599627370496.5", "4503599627370496.25", "-9007199254740992.5"] {
        assert_eq!(made("anInt64", text), None, "{text}");
    }
    for text in ["1.0000000000000000001", "0.99999999999999999999", "1e-400", "1e-99999999999999999999", "1e-1"] {
        for field in ["anInt32", "aUint32", "anInt64", "aUint64", "wrappedInt32"] {
            assert_eq!(made(field, text), None, "{field} {text}");
        }
        // In quotes it is a name that the enum does not have.
        assert!(kinds().to_protobuf(format!("{{\"aColour\":{text}}}").as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn integer_beyond_range_never_fits() {
    for (field, text) in [
        ("anInt32", "2147483648.0"),
        ("anInt32", "2147483648e0"),
        ("aUint32", "-1.0"),
        ("aUint32", "4294967296.0"),
        ("anInt64", "9223372036854775808.0"),
        ("anInt64", "-9223372036854775809.0"),
        ("anInt64", "1e19"),
        ("aUint64", "18446744073709551616.0"),
        ("aUint64", "1e20"),
        ("aUint64", "-1e0"),
        ("aUint64", "1e999999999"),
        ("aUint64", "1e99999999999999999999"),
    ] {
        assert_eq!(made(field, text), None, "{field} {text}");
    }
}

/// As Google's Python and Go have it.
#[test]
fn zero_has_no_sign_or_exponent() {
    for text in ["0", "-0", "0.0", "-0.0", "0e0", "0e999999999", "-0.000e-999999999", "0e99999999999999999999"] {
        for field in ["anInt32", "aUint32", "anInt64", "aUint64"] {
            assert_eq!(made(field, text), Some(Vec::new()), "{field} {text}");
        }
    }
}

/// Google's Python takes some of them in quotes, its Go none.
#[test]
fn plus_leading_zeros_bare_point_invalid() {
    for text in ["+1", "01", "-01", "1.", ".5", "1e", "1_0", "0x1"] {
        assert_eq!(made("anInt64", text), None, "{text}");
    }
}

/// `value`, its point moved by `shift` digits, with `zeros` behind it.
fn spelled(value: i128, shift: i32, zeros: usize, mark: &str) -> String {
    let sign = if value < 0 { "-" } else { "" };
    // Zero has no other integer digits: a leading zero is no JSON.
    let scale = if value == 0 { 0 } else { (-shift).max(0) as usize };
    let mut digits = value.unsigned_abs().to_string() + &"0".repeat(scale);
    let fraction = match usize::try_from(shift) {
        Ok(shift) => {
            digits = format!("{digits:0>width$}", width = shift + 1);
            digits.split_off(digits.len() - shift)
        }
        Err(_) => String::new(),
    };
    let fraction = fraction + &"0".repeat(zeros);
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{digits}{point}{fraction}{mark}{shift}")
}

proptest! {
    #[test]
    fn integer_spellings_are_equal(
        signed in prop_oneof![any::<i64>(), -10_000..10_000i64],
        unsigned in any::<u64>(),
        shift in -30..50i32,
        zeros in 0..30usize,
        mark in "e|E",
    ) {
        let text = spelled(signed.into(), shift, zeros, &mark);
        let expected = if signed == 0 { Vec::new() } else { varint(4, signed as u64) };
        prop_assert_eq!(made("anInt64", &text), Some(expected), "{}", text);
        let text = spelled(unsigned.into(), shift, zeros, &mark);
        let expected = if unsigned == 0 { Vec::new() } else { varint(6, unsigned) };
        prop_assert_eq!(made("aUint64", &text), Some(expected), "{}", text);
    }

    #[test]
    fn extra_decimal_digit_is_no_integer(
        value in any::<i64>(),
        shift in 0..50i32,
        zeros in 0..30usize,
        digit in 1..=9u8,
    ) {
        let whole = spelled(value.into(), shift, zeros + 1, "e");
        let (mantissa, exponent) = whole.split_once('e').unwrap();
        let text = format!("{mantissa}{digit}e{exponent}");
        prop_assert_eq!(made("anInt64", &text), None, "{}", text);
    }
}
