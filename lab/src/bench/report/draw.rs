//! Drawing with plotters: horizontal bars with whiskers, and lines with their legend. Each is an SVG
//! that stands alone, or empty if it would show nothing. Its text follows the reader's light or dark
//! system, and its description says what it shows.

use std::io;
use std::ops::Range;

use minijinja::HtmlEscape;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{BoldPoints, DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figures::{figure, short};
use super::ink::Ink;
use super::summary::Middle;

pub(crate) type DrawingError = DrawingAreaErrorKind<io::Error>;
type Area<'a, C = Shift> = DrawingArea<SVGBackend<'a>, C>;

/// The width of a drawing, and the heights of its parts. Letters are legible on a phone.
const WIDTH: u32 = 1120;
const PLOT: u32 = 590;
const BAR: u32 = 70;
const KEY: u32 = 50;
const AXIS: u32 = 95;
const FONT: (&str, u32) = ("system-ui, sans-serif", 40);
/// The width of a letter, about.
const LETTER: usize = 18;
/// Least number of powers of ten on an axis that is marked at nothing else.
const POWERS: f64 = 2.4;
/// Colours: what is black to plotters has the colour of text.
const STYLE: &str = "<style>svg{color:#1d2733}.ground{fill:#fff}@media(prefers-color-scheme:dark){svg{color:#e3e9f0}\
                     .ground{fill:#0f151c}}</style><rect class=\"ground\" width=\"100%\" height=\"100%\"/>";

pub(super) struct Bar {
    pub(super) name: String,
    pub(super) ink: Ink,
    /// The bar's length, and the ends of the whisker.
    pub(super) value: Middle,
    /// Remark behind the figure.
    pub(super) remark: String,
}

pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) ink: Ink,
    /// From left to right.
    pub(super) points: Vec<(f64, f64)>,
}

pub(super) struct Axis<'a> {
    /// Quantity, and its unit.
    pub(super) title: &'a str,
    pub(super) log: bool,
    pub(super) label: fn(f64) -> String,
}

/// The bars from top to bottom, on one axis that begins at 0.
pub(super) fn bars(title: &str, unit: &str, bars: &[Bar]) -> Result<String, DrawingError> {
    let mut svg = String::new();
    if bars.is_empty() {
        return Ok(svg);
    }
    let names = widest(bars.iter().map(|bar| bar.name.clone()));
    // The longest bar has its label behind it.
    let room = f64::from(WIDTH - names) / f64::from(WIDTH - names - widest(bars.iter().map(Bar::label)));
    let end = room * bars.iter().map(|bar| bar.value.most).fold(f64::MIN_POSITIVE, f64::max);
    let mut rows = Scale::new(false, bars.len() as f64..0.0);
    rows.marks = (0..bars.len()).map(|row| row as f64 + 0.5).collect();
    let area = area(&mut svg, BAR * bars.len() as u32 + AXIS);
    let mut chart = ChartBuilder::on(&area)
        .margin_right(24)
        .x_label_area_size(AXIS)
        .y_label_area_size(names)
        .build_cartesian_2d(Scale::new(false, 0.0..end), rows)?;
    frame(&mut chart, (unit, ""), [&|value| short(*value), &|row| bars[*row as usize].name.clone()])?;
    for (bar, row) in bars.iter().zip(0..) {
        let (plot, value, black) = (chart.plotting_area(), bar.value, BLACK.filled());
        let (top, middle, bottom) = (f64::from(row) + 0.2, f64::from(row) + 0.5, f64::from(row) + 0.8);
        plot.draw(&Rectangle::new([(0.0, top), (value.median, bottom)], bar.ink.colour.filled()))?;
        if value.most > value.least {
            plot.draw(&ErrorBar::new_horizontal(middle, value.least, value.median, value.most, black, 10))?;
        }
        plot.draw(&beside(bar.label(), (value.most + end * 0.02, middle)))?;
    }
    drop((chart, area));
    let said: Vec<String> = bars.iter().map(|bar| format!("{} {}", bar.name, bar.label())).collect();
    Ok(alone(&svg, title, &format!("{unit}: {}", said.join(", "))))
}

/// The lines and their legend. A point that an axis has no place for is left out.
pub(super) fn lines(title: &str, x: &Axis<'_>, y: &Axis<'_>, lines: Vec<Line<'_>>) -> Result<String, DrawingError> {
    let (mut svg, mut lines) = (String::new(), lines);
    lines.iter_mut().for_each(|line| line.points.retain(|point| x.has(point.0) && y.has(point.1)));
    lines.retain(|line| !line.points.is_empty());
    // The thick ones first, so that they hide nothing.
    lines.sort_by_key(|line| !line.ink.ours);
    if lines.is_empty() {
        return Ok(svg);
    }
    let rows = lines.len().div_ceil(2) as u32;
    let area = area(&mut svg, PLOT + KEY * rows);
    let (plot, legend) = area.split_vertically(PLOT);
    let points = lines.iter().flat_map(|line| &line.points);
    let (across, up) = (x.scale(points.clone().map(|point| point.0)), y.scale(points.map(|point| point.1)));
    let mut chart = ChartBuilder::on(&plot)
        .margin(10)
        .margin_right(40)
        .x_label_area_size(AXIS)
        .y_label_area_size(widest(up.marks.iter().map(|mark| (y.label)(*mark))) + 40)
        .build_cartesian_2d(across, up)?;
    frame(&mut chart, (x.title, y.title), [&|mark| (x.label)(*mark), &|mark| (y.label)(*mark)])?;
    let rows = Scale::new(false, f64::from(rows)..0.0);
    let keys = ChartBuilder::on(&legend).build_cartesian_2d(Scale::new(false, 0.0..2.0), rows)?;
    for (line, place) in lines.iter().zip(0..) {
        let (left, middle) = (f64::from(place % 2), f64::from(place / 2) + 0.5);
        stroke(chart.plotting_area(), &line.points, line.ink)?;
        stroke(keys.plotting_area(), &[(left + 0.02, middle), (left + 0.12, middle)], line.ink)?;
        keys.plotting_area().draw(&beside(line.name.to_owned(), (left + 0.15, middle)))?;
    }
    drop((chart, keys, plot, legend, area));
    let said: Vec<String> = lines.iter().map(|line| line.in_words(x, y)).collect();
    Ok(alone(&svg, title, &format!("{} by {}: {}", y.title, x.title, said.join("; "))))
}

fn area(svg: &mut String, height: u32) -> Area<'_> {
    SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area()
}

/// The axes with their titles, and the grid.
fn frame(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<Scale, Scale>>,
    titles: (&str, &str),
    labels: [&dyn Fn(&f64) -> String; 2],
) -> Result<(), DrawingError> {
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(titles.0).y_desc(titles.1).x_label_formatter(labels[0]).y_label_formatter(labels[1]);
    mesh.label_style(FONT).axis_desc_style(FONT).axis_style(BLACK.mix(0.5)).bold_line_style(BLACK.mix(0.12));
    if titles.1.is_empty() {
        mesh.disable_y_mesh();
    }
    mesh.draw()
}

fn stroke(area: &Area<'_, Cartesian2d<Scale, Scale>>, points: &[(f64, f64)], ink: Ink) -> Result<(), DrawingError> {
    let style = ink.colour.stroke_width(if ink.ours { 8 } else { 4 });
    if let [point] = points {
        area.draw(&Circle::new(*point, 8, ink.colour.filled()))
    } else if ink.dashed {
        area.draw(&DashedPathElement::new(points.to_vec(), 14, 10, style))
    } else {
        area.draw(&PathElement::new(points, style))
    }
}

fn beside<'a>(text: String, point: (f64, f64)) -> Text<'a, (f64, f64), String> {
    Text::new(text, point, TextStyle::from(FONT.into_font()).pos(Pos::new(HPos::Left, VPos::Center)))
}

impl Bar {
    fn label(&self) -> String {
        format!("{} {}", figure(self.value.median), self.remark).trim_end().to_owned()
    }
}

impl Line<'_> {
    fn in_words(&self, x: &Axis<'_>, y: &Axis<'_>) -> String {
        let ends = [self.points[0], self.points[self.points.len() - 1]];
        let [first, last] = ends.map(|point| format!("{} at {}", (y.label)(point.1), (x.label)(point.0)));
        format!("{} from {first} to {last}", self.name)
    }
}

impl Axis<'_> {
    fn has(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    /// All of the values, from 0 on unless the scale is logarithmic.
    fn scale(&self, values: impl Iterator<Item = f64> + Clone) -> Scale {
        let most = values.clone().fold(f64::MIN_POSITIVE, f64::max);
        let least = if self.log { values.fold(most, f64::min) } else { 0.0 };
        Scale::new(self.log, least..if most > least { most * 1.04 } else { most * 10.0 })
    }
}

/// The values of an axis, and those that are marked.
struct Scale {
    log: bool,
    range: Range<f64>,
    marks: Vec<f64>,
}

impl Scale {
    /// With marks at round values.
    fn new(log: bool, range: Range<f64>) -> Self {
        if !log {
            let marks = RangedCoordf64::from(range.clone()).key_points(BoldPoints(6));
            return Self { log, range, marks };
        }
        let (first, last) = (range.start.log10(), range.end.log10());
        let digits: &[f64] = if last - first > POWERS { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let powers = (first.floor() as i32..=last.ceil() as i32).map(|power| 10f64.powi(power));
        let round = powers.flat_map(|power| digits.iter().map(move |digit| digit * power));
        let marks = round.filter(|mark| (range.start * 0.999..=range.end).contains(mark)).collect();
        Self { log, range, marks }
    }

    fn place(&self, value: f64) -> f64 {
        if self.log { value.log10() } else { value }
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let places = self.place(self.range.start)..self.place(self.range.end);
        RangedCoordf64::from(places).map(&self.place(*value), limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.marks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

fn widest(texts: impl Iterator<Item = String>) -> u32 {
    (texts.map(|text| text.chars().count()).max().unwrap_or_default().min(28) * LETTER + 24) as u32
}

/// The drawing with its colours, its title and its description.
fn alone(svg: &str, title: &str, said: &str) -> String {
    let (open, drawing) = svg.split_once('>').unwrap_or_default();
    let drawing = drawing.replace("\"#000000\"", "\"currentColor\"");
    let (title, said) = (HtmlEscape(title), HtmlEscape(said));
    format!("{open} role=\"img\"><title>{title}</title><desc>{said}</desc>{STYLE}{drawing}")
}
