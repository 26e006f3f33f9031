//! Owns the picture: small multiples of horizontal bars, in one SVG that stands alone.
//!
//! Before it: [`super`] gives names and figures. After it: a file for a README. Invariant: no
//! script, no font and no other file is fetched; every figure is written out, so that no length has
//! to be measured; light and dark follow the reader's system, ground and ink together.

use std::fmt::Write as _;

/// One bar.
pub(super) struct Bar {
    /// Name; also its colour.
    pub(super) name: &'static str,
    /// Length, at least 0.
    pub(super) value: f64,
    /// As written beside it.
    pub(super) figure: String,
}

/// One measure, in all columns.
pub(super) struct Measure {
    /// Heading in bold.
    pub(super) title: &'static str,
    /// Explanation of it.
    pub(super) note: &'static str,
    /// The bars of each column; one scale for all.
    pub(super) cells: Vec<Vec<Bar>>,
}

/// Measures below each other, columns beside each other.
pub(super) struct Picture {
    /// Heading in large.
    pub(super) title: &'static str,
    /// Below it.
    pub(super) about: String,
    /// Headings of the columns.
    pub(super) columns: Vec<String>,
    /// From above.
    pub(super) measures: Vec<Measure>,
}

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 24.0;
/// Ordinates of the columns' names and of the first measure, and the height of each.
const NAMES: f64 = 92.0;
const TOP: f64 = 112.0;
const STEP: f64 = 156.0;
/// From one column to the next.
const COLUMN: f64 = 462.0;
/// Within a column: where bars begin, their longest length, their height, and from one to the next.
const BARS: (f64, f64, f64, f64) = (84.0, 278.0, 22.0, 29.0);
/// Ratio of the largest to the smallest from which lengths are logarithms.
const FAR_APART: f64 = 25.0;

/// No custom properties: some readers know none.
const STYLE: &str = "    \
text { font: 14px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1d2733 }
    .title { font-size: 19px; font-weight: 600 }
    .head { font-size: 15px; font-weight: 600 }
    .column { font-size: 14px; font-weight: 600; fill: #566476 }
    .small { font-size: 12px; fill: #566476 }
    .figure { font-weight: 600 }
    .ground { fill: #ffffff }
    .axis { stroke: #c5d0db; stroke-width: 1 }
    .bar0 { fill: #8b97a5 } .bar1 { fill: #c08a1e } .bar2 { fill: #2b62a8 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e3e9f0 } .small, .column { fill: #9aa8b7 } .ground { fill: #0f151c } .axis { stroke: #3a4754 }
      .bar0 { fill: #7d8a99 } .bar1 { fill: #d9a441 } .bar2 { fill: #6aa5ec }
    }
";

impl Picture {
    /// The file.
    pub(super) fn svg(&self) -> String {
        let height = TOP + STEP * self.measures.len() as f64;
        let spoken: Vec<String> = self.measures.iter().map(|measure| measure.spoken(&self.columns)).collect();
        let mut svg = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-labelledby=\"title text\">\n  <title id=\"title\">{}</title>\n  <desc id=\"text\">{}. {}</desc>\n  \
             <style>\n{STYLE}  </style>\n  <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>\n  \
             <text class=\"title\" x=\"{MARGIN}\" y=\"36\">{}</text>\n  \
             <text class=\"small\" x=\"{MARGIN}\" y=\"57\">{}</text>\n",
            self.title,
            self.about,
            spoken.join(" "),
            self.title,
            self.about
        );
        for (place, column) in self.columns.iter().enumerate() {
            let x = MARGIN + COLUMN * place as f64;
            let _ = writeln!(svg, "  <text class=\"column\" x=\"{x}\" y=\"{NAMES}\">{column}</text>");
        }
        for (place, measure) in self.measures.iter().enumerate() {
            measure.draw(&mut svg, TOP + STEP * place as f64);
        }
        svg + "</svg>\n"
    }
}

impl Measure {
    /// For those who cannot see it.
    fn spoken(&self, columns: &[String]) -> String {
        let cells: Vec<String> = columns
            .iter()
            .zip(&self.cells)
            .map(|(column, bars)| {
                let bars: Vec<String> = bars.iter().map(|bar| format!("{} {}", bar.name, bar.figure)).collect();
                format!("{column}: {}", bars.join(", "))
            })
            .collect();
        format!("{}. {}.", self.title, cells.join("; "))
    }

    fn draw(&self, svg: &mut String, y: f64) {
        let scale = Scale::of(&self.cells);
        let note = if scale.from.is_some() { "; lengths are logarithmic" } else { "" };
        let _ = writeln!(
            svg,
            "  <text x=\"{MARGIN}\" y=\"{}\"><tspan class=\"head\">{}</tspan>\
             <tspan class=\"small\" dx=\"10\">{}{note}</tspan></text>",
            y + 20.0,
            self.title,
            self.note
        );
        for (place, bars) in self.cells.iter().enumerate() {
            cell(svg, bars, &scale, MARGIN + COLUMN * place as f64 + BARS.0, y + 32.0);
        }
    }
}

/// The bars of one measure in one column, from `axis` to the right and `first` down.
fn cell(svg: &mut String, bars: &[Bar], scale: &Scale, axis: f64, first: f64) {
    let (height, step) = (BARS.2, BARS.3);
    let _ = writeln!(svg, "  <path class=\"axis\" d=\"M{axis} {first}v{}\"/>", step * bars.len() as f64 + 4.0);
    for (place, bar) in bars.iter().enumerate() {
        let (top, length) = (first + 5.0 + step * place as f64, scale.length(bar.value));
        let base = top + 16.0;
        let _ = write!(
            svg,
            "  <text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{}</text>\n  \
             <rect class=\"bar{place}\" x=\"{axis}\" y=\"{top}\" width=\"{length:.1}\" height=\"{height}\"/>\n  \
             <text class=\"figure\" x=\"{:.1}\" y=\"{base}\">{}</text>\n",
            axis - 9.0,
            bar.name,
            axis + length + 8.0,
            bar.figure
        );
    }
}

/// From values to lengths.
struct Scale {
    /// The value of length 0, where lengths are logarithms.
    from: Option<f64>,
    to: f64,
}

impl Scale {
    fn of(cells: &[Vec<Bar>]) -> Self {
        let values = cells.iter().flatten().map(|bar| bar.value).filter(|value| *value > 0.0);
        let (least, most) = (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max));
        let from = (most > least * FAR_APART).then(|| 10f64.powf((least / 2.0).log10().floor()));
        Self { from, to: most.max(f64::MIN_POSITIVE) }
    }

    fn length(&self, value: f64) -> f64 {
        let share = match self.from {
            Some(from) if value > from => (value / from).log10() / (self.to / from).log10(),
            Some(_) => 0.0,
            None => value / self.to,
        };
        share * BARS.1
    }
}
