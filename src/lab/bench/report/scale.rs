//! Turns values into places on a picture, and chooses the marks of an axis. A place lies between
//! the two ends whatever the value, and marks are round numbers.

/// How many marks a logarithmic axis has at most.
const MARKS: usize = 8;

/// Maps values to places along one axis.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    log: bool,
    /// The values at the two ends.
    from: f64,
    to: f64,
    /// The places of the two ends; the second may be the smaller one.
    begin: f64,
    end: f64,
}

impl Scale {
    /// From 0 to a round number that is not below `most`.
    pub(crate) fn from_zero(most: f64, begin: f64, end: f64) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let step = round_step(most / 5.0);
        Self { log: false, from: 0.0, to: (most / step).ceil() * step, begin, end }
    }

    /// From 0 to exactly `most`.
    pub(crate) fn exact(most: f64, begin: f64, end: f64) -> Self {
        Self { to: most.max(f64::MIN_POSITIVE), ..Self::from_zero(most, begin, end) }
    }

    /// Logarithmic, from a round number (1, 2 or 5) not above `least` to one not below `most`; both
    /// are above 0.
    pub(crate) fn logarithmic(least: f64, most: f64, begin: f64, end: f64) -> Self {
        let (from, to) = (round_below(least), round_above(most));
        Self { log: true, from, to: if to > from { to } else { from * 10.0 }, begin, end }
    }

    /// Logarithmic between exactly these values.
    pub(crate) fn between(from: f64, to: f64, begin: f64, end: f64) -> Self {
        Self { log: true, from, to: to.max(from * 1.01), begin, end }
    }

    /// The place of `value`.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value / self.from).log10() / (self.to / self.from).log10()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        self.begin + (self.end - self.begin) * share
    }

    /// The round values to mark.
    pub(crate) fn marks(&self) -> Vec<f64> {
        if !self.log {
            let step = round_step((self.to - self.from) / 5.0);
            let count = ((self.to - self.from) / step * 1.000_001).floor() as usize;
            return (0..=count).map(|place| self.from + step * place as f64).collect();
        }
        let decades = (self.to / self.from).log10();
        let within = |digits: &[f64]| {
            let (first, last) = (self.from.log10().floor() as i32, self.to.log10().ceil() as i32);
            let all = (first..=last).flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
            all.filter(|mark| *mark >= self.from * 0.999 && *mark <= self.to * 1.001).collect::<Vec<f64>>()
        };
        let all = if decades <= 2.4 { within(&[1.0, 2.0, 5.0]) } else { within(&[1.0]) };
        let every = all.len().div_ceil(MARKS).max(1);
        all.into_iter().step_by(every).collect()
    }
}

/// 1, 2 or 5 times a power of ten, not below `step`.
fn round_step(step: f64) -> f64 {
    round_above(step)
}

fn round_above(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= value * 0.999_999);
    digit.unwrap_or(10.0) * power
}

fn round_below(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let digit = [5.0, 2.0].into_iter().find(|digit| digit * power <= value * 1.000_001);
    digit.unwrap_or(1.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(seen: &[f64], expected: &[f64]) {
        assert_eq!(seen.len(), expected.len(), "{seen:?}");
        assert!(seen.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs()), "{seen:?}");
    }

    #[test]
    fn marks_are_round_and_within_the_ends() {
        near(&Scale::from_zero(8.7, 0.0, 1.0).marks(), &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        near(&Scale::logarithmic(30.0, 900.0, 0.0, 1.0).marks(), &[20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        near(&Scale::logarithmic(1.5, 80_000.0, 0.0, 1.0).marks(), &[1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
        assert!(Scale::logarithmic(1e-6, 1e12, 0.0, 1.0).marks().len() <= MARKS);
    }

    #[test]
    fn a_place_is_between_the_ends_whatever_the_value() {
        let down = Scale::logarithmic(10.0, 1000.0, 300.0, 20.0);
        assert!((down.at(100.0) - 160.0).abs() < 1e-9);
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert!((20.0..=300.0).contains(&down.at(value)), "{value}");
        }
        assert!((Scale::from_zero(0.0, 5.0, 9.0).at(0.0) - 5.0).abs() < 1e-9);
    }
}
