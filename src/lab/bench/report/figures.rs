//! How numbers are written: three significant digits, grouped thousands, and a unit that keeps them
//! short. Anything that is not a number becomes a dash, never `NaN`.

use crate::lab::bench::result::Goal;

/// Shown where there is nothing to say.
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
        let place = |size: f64| (2.0 - size.log10().floor()).max(0.0);
        let scale = 10f64.powf(place(size));
        let digits = place((size * scale).round() / scale) as usize;
        format!("{value:.digits$}")
    }
}

/// A ratio: two digits after the point, or three significant ones.
pub(crate) fn ratio(value: f64) -> String {
    if value.abs() < 9.995 { format!("{value:.2}") } else { figure(value) }
}

/// With commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |(place, digit): (usize, char)| {
        let comma = place > 0 && (digits.len() - place).is_multiple_of(3);
        comma.then_some(',').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(comma).collect()
}

/// A time in microseconds, written in the unit that fits it: `8.23 µs`, `1.23 ms`, `1.23 s`.
pub(crate) fn span(us: f64) -> String {
    let (value, unit) = match us {
        us if !us.is_finite() => return NONE.into(),
        us if us < 999.5 => (us, "µs"),
        us if us < 999_500.0 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    format!("{} {unit}", figure(value))
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

/// By how much a goal was met or missed: `12 % to spare`, `missed by 0.4 %`, `3.2 x what was
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
    fn a_figure_has_three_digits_that_count() {
        let shown = [0.0, 0.0123, 0.9996, 8.2345, 9.996, 12.345, 99.94, 99.96, 123.4, 12_345.6, -3.0];
        let expected = ["0", "0.0123", "1.00", "8.23", "10.0", "12.3", "99.9", "100", "123", "12,346", "-3.00"];
        assert_eq!(shown.map(figure), expected);
        assert_eq!([0.0004, f64::NAN, f64::INFINITY].map(figure), ["<0.001", NONE, NONE]);
    }

    #[test]
    fn a_time_has_the_unit_that_fits_it() {
        assert_eq!(
            [8.234, 999.4, 999.6, 15_120.0, 2.5e6].map(span),
            ["8.23 µs", "999 µs", "1.00 ms", "15.1 ms", "2.50 s"]
        );
    }

    #[test]
    fn ratios_have_two_digits_behind_the_point() {
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
    fn a_goal_says_by_how_much() {
        let most = |seen, limit| margin(&Goal::at_most("", seen, limit));
        assert_eq!(
            [most(1.1, 1.15), most(1.2, 1.15), most(5.0, 2.0)],
            ["4.3 % to spare", "missed by 4.3 %", "2.50 x what was allowed"]
        );
        assert_eq!([most(0.0, 0.0), most(3.0, 0.0), most(f64::NAN, 1.0)], ["met", "missed by 3.00", "not measured"]);
        let least = |seen, limit| margin(&Goal::at_least("", seen, limit));
        assert_eq!(
            [least(160_000.0, 50_000.0), least(40_000.0, 50_000.0)],
            ["3.20 x what was asked", "missed by 20 %"]
        );
    }
}
