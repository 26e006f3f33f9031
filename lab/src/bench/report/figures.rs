//! Numbers as text: three significant digits, grouped thousands, and a unit that keeps them short.
//! Anything that is not a number becomes a dash, never `NaN`.

use indicatif::HumanCount;

use crate::bench::result::Goal;

/// Mark of a figure that is missing.
pub(crate) const NONE: &str = "–";

/// Three significant digits: `0.0123`, `1.23`, `12.3`, `123`, `12,345`.
pub(crate) fn figure(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        NONE.into()
    } else if size == 0.0 {
        "0".into()
    } else if size >= 99.95 {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", grouped(size.round() as u64))
    } else if size < 0.0005 {
        "<0.001".into()
    } else {
        // The place of the third digit, found after rounding to it: 9.996 is 10.0, not 10.00.
        let scale = 10f64.powi(third_digit(size));
        let digits = third_digit((size * scale).round() / scale) as usize;
        format!("{value:.digits$}")
    }
}

/// The place behind the point of a number's third digit.
fn third_digit(size: f64) -> i32 {
    (2 - size.log10().floor() as i32).max(0)
}

/// A ratio: two digits after the point, or three significant ones.
pub(crate) fn ratio(value: f64) -> String {
    if value.abs() < 9.995 { format!("{value:.2}") } else { figure(value) }
}

/// With commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

/// A time in microseconds, written in the unit that fits it: `8.23 µs`, `1.23 ms`, `1.23 s`.
pub(crate) fn span(us: f64) -> String {
    in_its_unit(us, figure)
}

/// A time in microseconds as a tick: `500 µs`, `1 ms`, `2 s`.
pub(crate) fn time(us: f64) -> String {
    in_its_unit(us, short)
}

fn in_its_unit(us: f64, written: fn(f64) -> String) -> String {
    match us {
        us if !us.is_finite() => NONE.into(),
        us if us < 999.5 => format!("{} µs", written(us)),
        us if us < 999_500.0 => format!("{} ms", written(us / 1e3)),
        us => format!("{} s", written(us / 1e6)),
    }
}

/// Bytes as MiB, without the unit.
pub(crate) fn mebibytes(bytes: f64) -> String {
    figure(bytes / f64::from(1 << 20))
}

/// The label of a tick, as short as possible: `0.5`, `200`, `10 k`, `1 M`.
pub(crate) fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    // A tick is a round number; this removes what binary fractions add to it.
    let rounded = (value * 1e6).round() / 1e6;
    format!("{}{unit}", if rounded >= 1000.0 { figure(rounded) } else { rounded.to_string() })
}

/// A share in percent: `0.4 %`, `12 %`.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 9.95 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// Margin by which a goal was met or missed: `12 % to spare`, `missed by 0.4 %`, `3.2 x what was
/// asked`.
pub(crate) fn margin(goal: &Goal) -> String {
    let Goal { seen, limit, met, .. } = *goal;
    let ratio = seen / limit;
    if !seen.is_finite() {
        "not measured".into()
    } else if limit == 0.0 {
        if met { "met".into() } else { format!("missed by {}", figure(seen.abs())) }
    } else if ratio >= 2.0 {
        // Far above the limit: well met if the limit was a minimum, badly missed if it was a
        // maximum.
        format!("{} x what was {}", self::ratio(ratio), if met { "asked" } else { "allowed" })
    } else {
        let by = percent((ratio - 1.0).abs());
        if met { format!("{by} to spare") } else { format!("missed by {by}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_has_three_significant_digits() {
        let shown = [0.0, 0.0123, 0.9996, 8.2345, 9.996, 12.345, 99.94, 99.96, 123.4, 12_345.6, -3.0];
        let expected = ["0", "0.0123", "1.00", "8.23", "10.0", "12.3", "99.9", "100", "123", "12,346", "-3.00"];
        assert_eq!(shown.map(figure), expected);
        assert_eq!([0.0004, f64::NAN, f64::INFINITY].map(figure), ["<0.001", NONE, NONE]);
    }

    #[test]
    fn time_uses_fitting_unit() {
        assert_eq!(
            [8.234, 999.4, 999.6, 15_120.0, 2.5e6].map(span),
            ["8.23 µs", "999 µs", "1.00 ms", "15.1 ms", "2.50 s"]
        );
    }

    #[test]
    fn ratios_have_two_decimal_places() {
        assert_eq!([0.8723, 1.0, 12.34, f64::NAN].map(ratio), ["0.87", "1.00", "12.3", NONE]);
    }

    #[test]
    fn a_tick_is_short() {
        assert_eq!(
            [0.0, 0.1 + 0.2, 500.0, 2000.0, 10_000.0, 1e6, 2.5e6].map(short),
            ["0", "0.3", "500", "2,000", "10 k", "1 M", "2.5 M"]
        );
    }

    #[test]
    fn goal_states_its_margin() {
        for (goal, said) in [
            (Goal::at_most("", 1.1, 1.15), "4.3 % to spare"),
            (Goal::at_most("", 1.2, 1.15), "missed by 4.3 %"),
            (Goal::at_most("", 5.0, 2.0), "2.50 x what was allowed"),
            (Goal::at_most("", 0.0, 0.0), "met"),
            (Goal::at_most("", 3.0, 0.0), "missed by 3.00"),
            (Goal::at_most("", f64::NAN, 1.0), "not measured"),
            (Goal::at_least("", 160_000.0, 50_000.0), "3.20 x what was asked"),
            (Goal::at_least("", 40_000.0, 50_000.0), "missed by 20 %"),
        ] {
            assert_eq!(margin(&goal), said);
        }
    }
}
