//! Owns the picture: small multiples of horizontal bars, in one SVG that stands alone.
//!
//! Before it: [`super`] gives names and figures. After it: a file for a README. Invariant: no script, no font and no other
//! file is fetched; every figure is written out, so that no length has to be measured; light and dark follow the reader's
//! system, ground and ink together.

use std::fmt::Write as _;

/// One bar.
pub(super) struct Bar {
    /// Of what; also its colour.
    pub(super) name: &'static str,
    /// How long, at least 0.
    pub(super) value: f64,
    /// As written beside it.
    pub(super) figure: String,
}

/// Bars of one measure.
pub(super) struct Panel {
    /// The measure.
    pub(super) title: &'static str,
    /// What it means.
    pub(super) note: &'static str,
    /// In the order of all panels.
    pub(super) bars: Vec<Bar>,
}

/// Panels, two abreast.
pub(super) struct Picture {
    /// In large.
    pub(super) title: &'static str,
    /// Below it.
    pub(super) about: String,
    /// An even number.
    pub(super) panels: Vec<Panel>,
}

const WIDTH: f64 = 960.0;
/// Where the first panel begins, and how far each reaches.
const TOP: f64 = 86.0;
const PANEL: (f64, f64) = (462.0, 168.0);
/// Within a panel: where bars begin, their longest length, and from one to the next.
const BARS: (f64, f64, f64) = (96.0, 258.0, 32.0);
/// Where the largest is this many times the smallest, lengths are logarithms.
const FAR_APART: f64 = 25.0;

const STYLE: &str = "    \
svg { --ground: #ffffff; --ink: #1d2733; --faint: #566476; --line: #d5dde5; --a: #8b97a5; --b: #c08a1e; --c: #2b62a8 }
    @media (prefers-color-scheme: dark) {
      svg { --ground: #0f151c; --ink: #e3e9f0; --faint: #9aa8b7; --line: #2c3844; --a: #7d8a99; --b: #d9a441; --c: #6aa5ec }
    }
    text { font: 14px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: var(--ink) }
    .title { font-size: 19px; font-weight: 600 }
    .head { font-size: 15px; font-weight: 600 }
    .small { font-size: 12px; fill: var(--faint) }
    .figure { font-weight: 600; font-variant-numeric: tabular-nums }
    .ground { fill: var(--ground) }
    .axis { stroke: var(--line); stroke-width: 1 }
    .bar0 { fill: var(--a) } .bar1 { fill: var(--b) } .bar2 { fill: var(--c) }
";

impl Picture {
    /// The file.
    pub(super) fn svg(&self) -> String {
        let height = TOP + PANEL.1 * (self.panels.len() as f64 / 2.0).ceil() + 6.0;
        let spoken: Vec<String> = self.panels.iter().map(Panel::spoken).collect();
        let mut svg = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-labelledby=\"title text\">\n  <title id=\"title\">{}</title>\n  <desc id=\"text\">{}. {}</desc>\n  \
             <style>\n{STYLE}  </style>\n  <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>\n  \
             <text class=\"title\" x=\"24\" y=\"38\">{}</text>\n  <text class=\"small\" x=\"24\" y=\"60\">{}</text>\n",
            self.title,
            self.about,
            spoken.join(" "),
            self.title,
            self.about
        );
        for (place, panel) in self.panels.iter().enumerate() {
            let (column, line) = ((place % 2) as f64, (place / 2) as f64);
            panel.draw(&mut svg, 24.0 + column * PANEL.0, TOP + line * PANEL.1);
        }
        svg + "</svg>\n"
    }
}

impl Panel {
    /// For those who cannot see it.
    fn spoken(&self) -> String {
        let bars: Vec<String> = self.bars.iter().map(|bar| format!("{} {}", bar.name, bar.figure)).collect();
        format!("{}: {}.", self.title, bars.join(", "))
    }

    fn draw(&self, svg: &mut String, x: f64, y: f64) {
        let scale = Scale::of(&self.bars);
        let note = if scale.from.is_some() { ", logarithmic" } else { "" };
        let axis = x + BARS.0;
        let _ = write!(
            svg,
            "  <text class=\"head\" x=\"{x}\" y=\"{}\">{}</text>\n  <text class=\"small\" x=\"{x}\" y=\"{}\">{}{note}</text>\n",
            y + 16.0,
            self.title,
            y + 34.0,
            self.note
        );
        let (first, last) = (y + 44.0, y + 44.0 + BARS.2 * self.bars.len() as f64);
        let _ = writeln!(svg, "  <path class=\"axis\" d=\"M{axis} {first}V{last}\"/>");
        for (place, bar) in self.bars.iter().enumerate() {
            let (top, length) = (first + 4.0 + BARS.2 * place as f64, scale.length(bar.value));
            let base = top + 17.0;
            let _ = write!(
                svg,
                "  <text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{}</text>\n  \
                 <rect class=\"bar{place}\" x=\"{axis}\" y=\"{top}\" width=\"{length:.1}\" height=\"24\"/>\n  \
                 <text class=\"figure\" x=\"{:.1}\" y=\"{base}\">{}</text>\n",
                axis - 10.0,
                bar.name,
                axis + length + 8.0,
                bar.figure
            );
        }
    }
}

/// From values to lengths.
struct Scale {
    /// The value of length 0, where lengths are logarithms.
    from: Option<f64>,
    to: f64,
}

impl Scale {
    fn of(bars: &[Bar]) -> Self {
        let values = || bars.iter().map(|bar| bar.value).filter(|value| *value > 0.0);
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
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
