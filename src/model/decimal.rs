//! Numbers as JSON writes them, by value. No digit is lost, since none goes through a double, and
//! no exponent costs more than its text.

/// `1`, `1.0` and `1e0` are equal.
struct Decimal<'t> {
    is_negative: bool,
    /// Without zeros at either end; the point may stand between them.
    digits: &'t str,
    /// The power of ten of the last digit.
    power: i64,
}

impl<'t> Decimal<'t> {
    /// `None` where the exponent is beyond all reason.
    fn read(text: &'t str) -> Option<Self> {
        let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let point = mantissa.find('.').unwrap_or(mantissa.len());
        let kept = mantissa.trim_end_matches(['0', '.']);
        let digits = kept.trim_start_matches(['0', '.']);
        if digits.is_empty() {
            return Some(Self { is_negative: false, digits, power: 0 });
        }
        let (behind, before) = (kept.len().saturating_sub(point + 1), point.saturating_sub(kept.len()));
        let power = exponent.parse::<i64>().ok()?.checked_add(before as i64 - behind as i64)?;
        Some(Self { is_negative, digits, power })
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.digits.bytes().filter(|byte| *byte != b'.')
    }

    fn integer(&self) -> Option<i128> {
        // Below the point the last digit, which is no zero, makes a fraction.
        let scale = 10_i128.checked_pow(u32::try_from(self.power).ok()?)?;
        let whole = self.digits().try_fold(0_i128, |whole, digit| {
            whole.checked_mul(10)?.checked_add(i128::from(char::from(digit).to_digit(10)?))
        });
        let value = whole?.checked_mul(scale)?;
        Some(if self.is_negative { -value } else { value })
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.is_negative, self.power) == (other.is_negative, other.power) && self.digits().eq(other.digits())
    }
}

/// True if two numbers as JSON writes them are the same.
pub(crate) fn are_equal(one: &str, other: &str) -> bool {
    one == other || Decimal::read(one).zip(Decimal::read(other)).is_some_and(|(one, other)| one == other)
}

/// The integer that a number as JSON writes it is; `1.0` and `1e3` are some. `None` for a fraction,
/// and beyond 128 bits.
pub(crate) fn integer(number: &str) -> Option<i128> {
    number.parse().ok().or_else(|| Decimal::read(number)?.integer())
}

#[cfg(test)]
mod tests {
    use super::{are_equal, integer};

    #[test]
    fn numbers_compare_exactly_by_value() {
        for (one, other) in [
            ("1", "1.0"),
            ("1", "1e0"),
            ("10", "1E+1"),
            ("0.10", "1e-1"),
            ("-0", "0.00"),
            ("0e7", "0"),
            ("0e99999999999999999999", "0"),
            ("120", "1.2e2"),
            ("-5", "-50e-1"),
            ("100.50", "1005e-1"),
            ("0.0012", "12e-4"),
            ("9007199254740993.0", "9.007199254740993e15"),
        ] {
            assert!(are_equal(one, other) && are_equal(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("1", "-1"),
            ("1", "10"),
            ("1", "0"),
            ("105", "15"),
            ("1.05", "1.5"),
            ("9007199254740993", "9007199254740992"),
            ("9007199254740993.0", "9007199254740992.0"),
            ("0.1", "0.10000000000000001"),
            ("1e99999999999999999999", "1e99999999999999999998"),
        ] {
            assert!(!are_equal(one, other), "{one} {other}");
        }
    }

    #[test]
    fn integers_are_exact_to_128_bits() {
        for (text, value) in [
            ("-12", -12),
            ("12.0", 12),
            ("1.2e1", 12),
            ("120e-1", 12),
            ("0.00012e5", 12),
            ("0e99999999999999999999", 0),
            ("-0.0", 0),
            ("170141183460469231731687303715884105727.0", i128::MAX),
        ] {
            assert_eq!(integer(text), Some(value), "{text}");
        }
        for text in ["1.5", "12e-1", "1e-400", "1e39", "170141183460469231731687303715884105728.0"] {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    /// An exponent is never written out: these would be gigabytes, or take for ever.
    #[test]
    fn large_exponents_cost_only_their_text() {
        for exponent in
            ["999999999", "-999999999", "9223372036854775807", "-9223372036854775808", "99999999999999999999"]
        {
            assert_eq!(integer(&format!("1e{exponent}")), None, "{exponent}");
            assert_eq!(integer(&format!("1.5e{exponent}")), None, "{exponent}");
            assert_eq!(integer(&format!("10e{exponent}")), None, "{exponent}");
        }
        let zeros = "0".repeat(1_000_000);
        assert_eq!(integer(&format!("1{zeros}e-1000000")), Some(1));
        assert_eq!(integer(&format!("0.{zeros}1e1000001")), Some(1));
        assert_eq!(integer(&format!("1.{zeros}e000000000{zeros}1")), Some(10));
        assert_eq!(integer(&format!("1{zeros}")), None);
        assert_eq!(integer(&format!("1.{zeros}1")), None);
        assert!(are_equal(&format!("1{zeros}"), "1e1000000"));
    }
}
