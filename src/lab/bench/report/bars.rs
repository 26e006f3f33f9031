//! Horizontal bars with their figures, and whiskers for the spread of rounds: part of an SVG, for
//! the page and for the picture. Bars begin at 0 on one linear scale, and every figure is written
//! out, so that nobody has to measure a length.

use std::fmt::Write as _;

use super::escape::escaped;
use super::figures::figure;
use super::lines::{name_width, text_width};
use super::scale::Scale;
use super::summary::Middle;

pub(crate) struct Bar {
    /// The subject.
    pub(crate) name: String,
    /// The class of its ink.
    pub(crate) class: &'static str,
    /// The bar's length, and the ends of the whisker.
    pub(crate) value: Middle,
    /// Stands behind the figure, in smaller letters.
    pub(crate) remark: String,
}

/// How the bars are laid out, in units of the view box.
pub(crate) struct Layout {
    /// From the left end of the names to the right end of the figures.
    pub(crate) width: f64,
    /// The font size that there must be room for.
    pub(crate) letters: f64,
    /// The height of a bar; `step` is the distance from one bar to the next.
    pub(crate) height: f64,
    pub(crate) step: f64,
}

impl Layout {
    /// The height of all the bars together.
    pub(crate) fn total(&self, bars: usize) -> f64 {
        self.step * bars as f64 + 8.0
    }
}

/// The bars from (`left`, `top`) on. `unit` is the unit of the figures, for the tooltips.
pub(crate) fn bars(bars: &[Bar], layout: &Layout, unit: &str, left: f64, top: f64) -> String {
    let widest = |of: &dyn Fn(&Bar) -> f64| bars.iter().map(of).fold(0.0, f64::max);
    let names = widest(&|bar| name_width(&bar.name, bar.class, layout.letters)).min(layout.width * 0.4);
    let behind =
        widest(&|bar| text_width(&figure(bar.value.median), layout.letters) + remark_width(bar, layout)) + 22.0;
    let axis = left + names + 10.0;
    let scale = Scale::exact(widest(&|bar| bar.value.most), axis, left + layout.width - behind);
    let mut svg = String::new();
    let _ = writeln!(svg, "<path class=\"axis\" d=\"M{axis:.1} {top:.1}v{:.1}\"/>", layout.total(bars.len()));
    for (place, bar) in bars.iter().enumerate() {
        let y = top + 4.0 + (layout.step - layout.height) / 2.0 + layout.step * place as f64;
        one(&mut svg, bar, &scale, (axis, y), layout, unit);
    }
    svg
}

fn remark_width(bar: &Bar, layout: &Layout) -> f64 {
    if bar.remark.is_empty() { 0.0 } else { text_width(&bar.remark, layout.letters) + 8.0 }
}

fn one(svg: &mut String, bar: &Bar, scale: &Scale, (axis, y): (f64, f64), layout: &Layout, unit: &str) {
    let Bar { name, class, value, remark } = bar;
    let (middle, base) = (y + layout.height / 2.0, y + layout.height / 2.0 + layout.letters * 0.33);
    let (least, end, most) = (scale.at(value.least), scale.at(value.median), scale.at(value.most));
    let ours = if class.starts_with('o') { " class=\"ours\"" } else { "" };
    let _ = write!(
        svg,
        "<g><title>{}: {} {unit} in the median, from {} to {}</title>\
         <text{ours} x=\"{:.1}\" y=\"{base:.1}\" text-anchor=\"end\">{}</text>\
         <rect class=\"bar {class}\" x=\"{axis:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
        escaped(name),
        figure(value.median),
        figure(value.least),
        figure(value.most),
        axis - 9.0,
        escaped(name),
        (end - axis).max(0.5),
        layout.height
    );
    if most - least >= 1.0 {
        let (from, cap) = (middle - layout.height * 0.22, layout.height * 0.44);
        let path =
            format!("M{least:.1} {middle:.1}H{most:.1}M{least:.1} {from:.1}v{cap:.1}M{most:.1} {from:.1}v{cap:.1}");
        // The halo sets the whisker apart from the bar.
        let _ = write!(svg, "<path class=\"halo\" d=\"{path}\"/><path class=\"whisker\" d=\"{path}\"/>");
    }
    let remark = match remark.as_str() {
        "" => String::new(),
        remark => format!("<tspan class=\"small\" dx=\"8\">{}</tspan>", escaped(remark)),
    };
    let _ = writeln!(
        svg,
        "<text class=\"figure\" x=\"{:.1}\" y=\"{base:.1}\">{}{remark}</text></g>",
        most.max(end) + 8.0,
        figure(value.median)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { width: 600.0, letters: 14.0, height: 20.0, step: 30.0 };

    fn bar(name: &str, median: f64) -> Bar {
        let value = Middle { median, least: median * 0.9, most: median * 1.2 };
        Bar { name: name.into(), class: "p0", value, remark: "1.50 x".into() }
    }

    #[test]
    fn every_bar_has_its_name_its_figure_and_its_whisker() {
        let svg = bars(&[bar("nginx", 20.0), bar("<i>", 8.25)], &LAYOUT, "µs", 0.0, 0.0);
        assert!(svg.contains("nginx: 20.0 µs in the median, from 18.0 to 24.0"), "{svg}");
        assert!(svg.contains(">8.25<tspan") && svg.contains("&lt;i&gt;") && !svg.contains("<i>"), "{svg}");
        assert_eq!(svg.matches("class=\"whisker\"").count(), 2);
    }

    #[test]
    fn lengths_are_in_proportion() {
        let svg = bars(&[bar("a", 20.0), bar("b", 10.0)], &LAYOUT, "µs", 0.0, 0.0);
        let widths: Vec<f64> =
            svg.split("width=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect();
        assert!((widths[0] / widths[1] - 2.0).abs() < 0.01, "{widths:?}");
    }
}
