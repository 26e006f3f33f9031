//! Which colour each subject has throughout a report, and how charts are painted. A subject has one
//! ink on the whole page: ours is strong and solid, the bounds are grey and dashed, peers are
//! muted. Neighbours also differ in lightness or in their dashes.

use std::fmt::Write as _;

use super::summary::is_ours;
use crate::lab::bench::result::BenchReport;

/// A class, its colour on a light and on a dark background, and its dashes.
type Ink = (&'static str, &'static str, &'static str, &'static str);

/// After Okabe and Ito, toned down so that ours stands out.
const PEERS: [Ink; 8] = [
    ("p0", "#c7871a", "#dca548", ""),
    ("p1", "#2b8f70", "#45b493", ""),
    ("p2", "#b0699a", "#cf8dbb", ""),
    ("p3", "#b85a35", "#dd8660", ""),
    ("p4", "#7d7b2a", "#b5b25a", "7 3"),
    ("p5", "#c7871a", "#dca548", "2 3"),
    ("p6", "#2b8f70", "#45b493", "2 3"),
    ("p7", "#b0699a", "#cf8dbb", "2 3"),
];
const OURS: [Ink; 4] = [
    ("o0", "#2b62a8", "#6aa5ec", ""),
    ("o1", "#4f97cf", "#a3cdf5", "8 4"),
    ("o2", "#1b3f70", "#4a7fc4", "3 3"),
    ("o3", "#6f8fb8", "#86b0d8", "12 3 3 3"),
];
/// What cannot be beaten, and the direct way with nothing in between.
const BOUNDS: [Ink; 3] = [
    ("b0", "#5b6673", "#a5b1be", "6 4"),
    ("b1", "#8b97a5", "#7d8a99", "2 3"),
    ("b2", "#3c4651", "#c6cfd8", "9 3 2 3"),
];

/// An ink for every subject of a report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inks {
    subjects: Vec<(String, &'static str)>,
    taken: [usize; 3],
}

impl Inks {
    /// Assigns inks in the order of the report; subjects beyond the last ink reuse the earlier
    /// ones.
    pub(crate) fn of(report: &BenchReport) -> Self {
        let mut inks = Self::default();
        for scenario in &report.scenarios {
            scenario.rows.iter().for_each(|row| inks.take(&row.subject));
            scenario.plots.iter().flat_map(|plot| &plot.series).for_each(|(name, _)| inks.take(name));
        }
        inks
    }

    fn take(&mut self, subject: &str) {
        if self.subjects.iter().any(|(known, _)| known == subject) {
            return;
        }
        let bound = ["bare", "minimum", "direct", "floor"].iter().any(|word| subject.contains(word));
        let (kind, inks): (usize, &[Ink]) = match (is_ours(subject), bound) {
            (true, _) => (0, &OURS),
            (_, true) => (1, &BOUNDS),
            _ => (2, &PEERS),
        };
        let class = inks[self.taken[kind] % inks.len()].0;
        self.taken[kind] += 1;
        self.subjects.push((subject.to_owned(), class));
    }

    pub(crate) fn class(&self, subject: &str) -> &'static str {
        self.subjects.iter().find(|(known, _)| known == subject).map_or(PEERS[0].0, |(_, class)| class)
    }
}

/// The style of every chart. It uses no custom properties, because some SVG readers do not know
/// them.
pub(crate) fn style() -> String {
    let mut light = String::from(
        "svg text { font: 14px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1d2733 }\n\
         svg .title { font-size: 19px; font-weight: 600 }\n\
         svg .small { font-size: 12px; font-weight: 400; fill: #566476 }\n\
         svg .tick { fill: #566476; font-variant-numeric: tabular-nums }\n\
         svg .figure, svg .ours { font-weight: 600 }\n\
         .ground { fill: #ffffff }\n\
         .axis { stroke: #a9b6c4; stroke-width: 1; fill: none }\n\
         .grid { stroke: #e6ebf0; stroke-width: 1; fill: none }\n\
         .whisker { stroke: #1d2733; stroke-width: 1.4; fill: none }\n\
         .halo { stroke: #ffffff; stroke-width: 4; stroke-opacity: .8; fill: none }\n\
         .bar.plain { fill: #b3bdc8 }\n\
         .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round }\n\
         .line.o0 { stroke-width: 3.2 }\n\
         .lead { fill: none; stroke-width: 1; opacity: .55; stroke-dasharray: none }\n\
         .touch { fill: none; stroke: transparent; stroke-width: 14; pointer-events: stroke }\n",
    );
    let mut dark = String::from(
        "svg text { fill: #e3e9f0 } svg .small, svg .tick { fill: #9aa8b7 } .ground { fill: #0f151c }\n\
         .axis { stroke: #566476 } .grid { stroke: #222c37 } .whisker { stroke: #e3e9f0 }\n\
         .halo { stroke: #0f151c } .bar.plain { fill: #4d5a68 }\n",
    );
    for (class, on_light, on_dark, dashes) in OURS.iter().chain(&BOUNDS).chain(&PEERS) {
        let _ = writeln!(light, ".bar.{class}, .dot.{class} {{ fill: {on_light} }}");
        let _ = writeln!(light, ".line.{class}, .lead.{class} {{ stroke: {on_light} }}");
        if !dashes.is_empty() {
            let _ = writeln!(light, ".line.{class} {{ stroke-dasharray: {dashes} }}");
        }
        let _ = writeln!(dark, ".bar.{class}, .dot.{class} {{ fill: {on_dark} }}");
        let _ = writeln!(dark, ".line.{class}, .lead.{class} {{ stroke: {on_dark} }}");
    }
    format!("{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::bench::result::{Row, Scenario};

    #[test]
    fn a_subject_has_one_ink_and_the_kinds_differ() {
        let scenario = |subjects: &[&str]| Scenario {
            rows: subjects.iter().map(|name| Row { subject: (*name).into(), ..Row::default() }).collect(),
            ..Scenario::default()
        };
        let scenarios = vec![
            scenario(&["nearside", "bare responder", "haproxy"]),
            scenario(&["nginx", "nearside", "exact minimum of three"]),
        ];
        let inks = Inks::of(&BenchReport { scenarios, ..BenchReport::default() });
        let class = |name| inks.class(name);
        assert_eq!([class("nearside"), class("haproxy"), class("nginx")], ["o0", "p0", "p1"]);
        assert_eq!([class("bare responder"), class("exact minimum of three")], ["b0", "b1"]);
        for class in ["o0", "b1", "p1"] {
            assert!(style().matches(&format!(".line.{class},")).count() == 2, "{class} on light and on dark");
        }
    }
}
