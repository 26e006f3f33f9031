//! The colour of each subject of a scenario, in its tables and charts: ours blue and thick, everyone
//! else of the muted colours of Okabe and Ito, dashed once those are used up. Each has a contrast of
//! at least 3 to a white and to a dark background, so that one drawing serves both.

use plotters::style::RGBColor;

use super::summary::is_ours;
use crate::bench::result::Scenario;

const OURS: [RGBColor; 3] = [RGBColor(0x2f, 0x7d, 0xd1), RGBColor(0x1f, 0x8f, 0xaa), RGBColor(0x7d, 0x70, 0xd6)];
const OTHERS: [RGBColor; 6] = [
    RGBColor(0x7d, 0x89, 0x96),
    RGBColor(0xb8, 0x7a, 0x14),
    RGBColor(0x21, 0x90, 0x6c),
    RGBColor(0xb5, 0x65, 0x9f),
    RGBColor(0xc8, 0x5a, 0x38),
    RGBColor(0x84, 0x82, 0x2c),
];

/// Colour of a subject, and whether it is dashed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ink {
    pub(super) colour: RGBColor,
    pub(super) ours: bool,
    pub(super) dashed: bool,
}

impl Ink {
    /// The ink that stands for nobody, and that of what is ours.
    pub(super) const PLAIN: Self = Self { colour: OTHERS[0], ours: false, dashed: false };
    pub(super) const OURS: Self = Self { colour: OURS[0], ours: true, dashed: false };

    /// The ink of a subject: its place among those of its kind, in the order of the scenario.
    pub(super) fn of(scenario: &Scenario, subject: &str) -> Self {
        let ours = is_ours(subject);
        let colours: &[RGBColor] = if ours { &OURS } else { &OTHERS };
        let drawn = scenario.plots.iter().flat_map(|plot| &plot.series).map(|(name, _)| name);
        let mut known: Vec<&String> = Vec::new();
        for name in scenario.rows.iter().map(|row| &row.subject).chain(drawn) {
            if is_ours(name) == ours && !known.contains(&name) {
                known.push(name);
            }
        }
        let place = known.into_iter().position(|name| name == subject).unwrap_or_default();
        Self { colour: colours[place % colours.len()], ours, dashed: place / colours.len() % 2 == 1 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::bench::result::{PlotData, Row};

    #[test]
    fn no_two_subjects_look_the_same() {
        let rows = ["haproxy", "nearside", "a", "b", "nearside, TCP", "nginx"];
        let series = ["c", "nearside", "d", "e", "f", "haproxy", "nearside, 2", "nearside, 3"];
        let plot =
            PlotData { series: series.map(|name| (name.to_owned(), Vec::new())).to_vec(), ..PlotData::default() };
        let scenario = Scenario {
            rows: rows.map(|name| Row { subject: name.into(), ..Row::default() }).to_vec(),
            plots: vec![plot],
            ..Scenario::default()
        };
        let inks: BTreeSet<String> =
            rows.iter().chain(&series).map(|name| format!("{:?}", Ink::of(&scenario, name))).collect();
        assert_eq!(inks.len(), 12, "{inks:#?}");
        assert_eq!(Ink::of(&scenario, "nearside"), Ink::OURS);
        assert_eq!(Ink::of(&scenario, "haproxy"), Ink::PLAIN);
        assert_eq!(Ink::of(&scenario, "e"), Ink { dashed: true, ..Ink::PLAIN });
        assert_eq!(Ink::of(&scenario, "nearside, 3"), Ink { dashed: true, ..Ink::OURS });
    }

    #[test]
    fn colours_stand_out_on_light_and_dark() {
        for RGBColor(red, green, blue) in OTHERS.into_iter().chain(OURS) {
            let [red, green, blue] = [red, green, blue].map(|part| (f64::from(part) / 255.0).powf(2.2));
            let light = 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
            assert!(1.05 / light > 3.0 && light / 0.057 > 3.0, "{light}");
        }
    }
}
