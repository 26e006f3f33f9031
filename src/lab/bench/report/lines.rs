//! Line plots: curves in a frame, with their names where they end. A name stands beside its own
//! curve and overlaps no other name. What cannot be drawn (not a number, or not above 0 on a
//! logarithmic axis) is left out, never misplaced.

use std::fmt::Write as _;

use super::escape::escaped;
use super::scale::Scale;

pub(crate) struct PlotLine<'a> {
    /// The subject.
    pub(crate) name: &'a str,
    /// The class of its ink.
    pub(crate) class: &'static str,
    /// From left to right.
    pub(crate) points: Vec<(f64, f64)>,
    /// Points with a tooltip.
    pub(crate) dots: Vec<(f64, f64, String)>,
}

/// How an axis is divided.
pub(crate) enum Division {
    /// Begins at 0.
    Linear,
    /// Marked at powers of ten.
    Logarithmic,
    /// Logarithmic, from the first mark to the last point, labelled at these marks.
    Marked(Vec<(f64, String)>),
}

pub(crate) struct Axis<'a> {
    /// What is shown, and in which unit.
    pub(crate) title: &'a str,
    pub(crate) division: Division,
    /// How a mark's label is written.
    pub(crate) label: fn(f64) -> String,
}

pub(crate) struct Plot<'a> {
    /// The description for those who cannot see it.
    pub(crate) spoken: String,
    pub(crate) x: Axis<'a>,
    pub(crate) y: Axis<'a>,
    pub(crate) lines: Vec<PlotLine<'a>>,
}

/// The size of the view box; letters are laid out for the size that they have on a narrow screen.
pub(crate) const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 350.0;
pub(crate) const LETTERS: f64 = 16.0;
const TICK_LETTERS: f64 = 14.0;
/// The top and bottom of the frame; its left edge depends on the labels.
const TOP: f64 = 30.0;
const BOTTOM: f64 = 290.0;
/// The least distance between the names of two curves.
const NAMES_APART: f64 = 19.0;

/// The approximate width of `text`.
pub(crate) fn text_width(text: &str, letters: f64) -> f64 {
    text.chars().count() as f64 * letters * 0.55
}

/// The approximate width of a subject's name; ours is bold.
pub(crate) fn name_width(name: &str, class: &str, letters: f64) -> f64 {
    text_width(name, if class.starts_with('o') { letters * 1.13 } else { letters })
}

impl Plot<'_> {
    /// The SVG; `None` if there is nothing to draw.
    pub(crate) fn svg(&self) -> Option<String> {
        let (x_log, y_log) = (self.x.is_log(), self.y.is_log());
        let drawable = |value: f64, log: bool| value.is_finite() && (!log || value > 0.0);
        let keep = |(x, y): &(f64, f64)| drawable(*x, x_log) && drawable(*y, y_log);
        let all = || self.lines.iter().flat_map(|line| &line.points).filter(|point| keep(point));
        all().next()?;
        let name = |line: &PlotLine| name_width(&shortened(line.name), line.class, LETTERS);
        let names = self.lines.iter().map(name).fold(0.0, f64::max);
        let y = self.y.scale(all().map(|point| point.1), BOTTOM, TOP);
        let labels = self.y.marks(&y).into_iter().map(|(_, label)| text_width(&label, LETTERS)).fold(0.0, f64::max);
        let (left, right) = ((labels + 10.0).max(26.0), WIDTH - names - 18.0);
        let x = self.x.scale(all().map(|point| point.0), left, right);

        let mut svg = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
            escaped(&self.spoken)
        );
        self.frame(&mut svg, &x, &y, (left, right));
        let mut ends = Vec::new();
        // Ours comes last, so that it lies on top.
        let (ours, others): (Vec<&PlotLine>, Vec<&PlotLine>) =
            self.lines.iter().partition(|line| line.class.starts_with('o'));
        for line in others.into_iter().chain(ours) {
            let places: Vec<(f64, f64)> =
                line.points.iter().filter(|point| keep(point)).map(|(px, py)| (x.at(*px), y.at(*py))).collect();
            let Some(end) = places.last() else { continue };
            ends.push((line, *end));
            curve(&mut svg, line, &places);
            for (px, py, title) in line.dots.iter().filter(|(px, py, _)| keep(&(*px, *py))) {
                let _ = writeln!(
                    svg,
                    "<circle class=\"dot {}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.2\"><title>{}</title></circle>",
                    line.class,
                    x.at(*px),
                    y.at(*py),
                    escaped(title)
                );
            }
        }
        names_at_ends(&mut svg, ends, right);
        Some(svg + "</svg>\n")
    }

    /// Draws grid, axes, marks and titles.
    fn frame(&self, svg: &mut String, x: &Scale, y: &Scale, (left, right): (f64, f64)) {
        for (mark, label) in self.y.marks(y) {
            let place = y.at(mark);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{left:.1} {place:.1}H{right:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                left - 8.0,
                place + 5.0
            );
        }
        let mut free = f64::NEG_INFINITY;
        for (mark, label) in self.x.marks(x) {
            let (place, half) = (x.at(mark), text_width(&label, TICK_LETTERS) / 2.0);
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{place:.1} {TOP}V{BOTTOM}\"/>");
            if place - half >= free {
                free = place + half + 2.0;
                let _ = writeln!(
                    svg,
                    "<text class=\"tick\" x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                    BOTTOM + 21.0
                );
            }
        }
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{left:.1} {BOTTOM}H{right:.1}\"/>\
             <text class=\"tick\" x=\"0\" y=\"14\">{}</text>\
             <text class=\"tick\" x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            escaped(self.y.title),
            BOTTOM + 46.0,
            escaped(self.x.title)
        );
    }
}

impl Axis<'_> {
    fn is_log(&self) -> bool {
        !matches!(self.division, Division::Linear)
    }

    fn scale(&self, values: impl Iterator<Item = f64>, begin: f64, end: f64) -> Scale {
        let ends = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
        let (least, most) = values.fold((f64::INFINITY, 0.0), ends);
        match &self.division {
            Division::Linear => Scale::from_zero(most, begin, end),
            Division::Logarithmic => Scale::logarithmic(least, most, begin, end),
            Division::Marked(marks) => Scale::between(marks.first().map_or(least, |mark| mark.0), most, begin, end),
        }
    }

    fn marks(&self, scale: &Scale) -> Vec<(f64, String)> {
        match &self.division {
            Division::Marked(marks) => {
                let past = |mark: f64| scale.at(mark * 1.001) <= scale.at(mark);
                marks.iter().filter(|(mark, _)| !past(*mark)).cloned().collect()
            }
            _ => scale.marks().into_iter().map(|mark| (mark, (self.label)(mark))).collect(),
        }
    }
}

fn curve(svg: &mut String, line: &PlotLine, places: &[(f64, f64)]) {
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let (path, class) = (path.join("L"), line.class);
    let _ = writeln!(
        svg,
        "<g><title>{}</title><path class=\"line {class}\" d=\"M{path}\"/><path class=\"touch\" d=\"M{path}\"/></g>",
        escaped(line.name)
    );
}

/// Writes the names to the right of the frame, each as near to the end of its curve as its
/// neighbours allow.
fn names_at_ends(svg: &mut String, mut ends: Vec<(&PlotLine, (f64, f64))>, right: f64) {
    ends.sort_by(|a, b| a.1.1.total_cmp(&b.1.1));
    let wanted: Vec<f64> = ends.iter().map(|(_, (_, y))| *y).collect();
    for ((line, (x, y)), place) in ends.iter().zip(apart(&wanted, TOP, BOTTOM)) {
        let (class, ours) = (line.class, if line.class.starts_with('o') { " ours" } else { "" });
        if right - x > 3.0 || (place - y).abs() > 3.0 {
            let bend = right.max(x + 1.0);
            let _ = writeln!(
                svg,
                "<path class=\"lead {class}\" d=\"M{x:.1} {y:.1}H{bend:.1}L{:.1} {place:.1}\"/>",
                right + 8.0
            );
        }
        let _ = writeln!(
            svg,
            "<circle class=\"dot {class}\" cx=\"{:.1}\" cy=\"{place:.1}\" r=\"3.5\"/>\
             <text class=\"name{ours}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            right + 8.0,
            right + 15.0,
            place + 4.8,
            escaped(&shortened(line.name))
        );
    }
}

/// Cuts a name down to what there is room for.
fn shortened(name: &str) -> String {
    const MOST: usize = 24;
    if name.chars().count() <= MOST { name.into() } else { name.chars().take(MOST - 1).chain(['…']).collect() }
}

/// The places nearest to `wanted` (ascending) that are [`NAMES_APART`] and between the two ends.
fn apart(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut places = wanted.to_vec();
    for next in 1..places.len() {
        places[next] = places[next].max(places[next - 1] + NAMES_APART);
    }
    let mut limit = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - NAMES_APART;
    }
    // More names than room: start at the top and run past the bottom.
    if places.first().is_some_and(|first| *first < top - NAMES_APART) {
        return (0..places.len()).map(|place| top + NAMES_APART * place as f64).collect();
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(lines: Vec<PlotLine<'_>>) -> Plot<'_> {
        let axis = |division| Axis { title: "entries", division, label: super::super::figures::short };
        Plot { spoken: "<memory>".into(), x: axis(Division::Logarithmic), y: axis(Division::Linear), lines }
    }

    #[test]
    fn names_keep_apart_and_between_the_ends() {
        let places = apart(&[100.0, 101.0, 102.0, 289.0, 290.0], TOP, BOTTOM);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= NAMES_APART - 1e-9), "{places:?}");
        assert!(places.iter().all(|place| (TOP..=BOTTOM).contains(place)), "{places:?}");
        assert!(apart(&[], TOP, BOTTOM).is_empty());
        let many = apart(&[50.0; 30], TOP, BOTTOM);
        assert!(many.windows(2).all(|pair| pair[1] > pair[0]) && many[0] >= TOP, "{many:?}");
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        let points = vec![(0.0, 1.0), (10.0, f64::NAN), (100.0, 3.0), (1000.0, 4.0)];
        let svg = plot(vec![PlotLine { name: "a&b", class: "p1", points, dots: vec![] }]).svg().unwrap();
        assert!(svg.contains("a&amp;b") && svg.contains("&lt;memory&gt;") && !svg.contains("NaN"), "{svg}");
        assert_eq!(svg.matches("class=\"line p1\"").count(), 1);
        assert!(
            plot(vec![PlotLine { name: "a", class: "p1", points: vec![(0.0, 1.0)], dots: vec![] }]).svg().is_none()
        );
        assert!(plot(vec![]).svg().is_none());
    }
}
