//! What a reply of one size weighs on the wire, and what reading it costs, by form and coding.

use super::{BELOW, Bar, Frame, Layout, MARGIN, TOP, WIDTH, bars, figure, measured_on};
use crate::lab::bench::report::escape::escaped;
use crate::lab::bench::report::summary::Middle;
use crate::lab::bench::result::BenchReport;

/// The size that is drawn, as its rows begin.
const SIZE: &str = "20 KiB ";
/// What is drawn of it: a column's name, and a title.
const COLUMNS: [(&str, &str); 2] = [
    ("bytes", "Bytes on the wire; small: times JSON as it is"),
    ("decode µs", "CPU time to decompress and read it into structures, µs; small: times JSON as it is"),
];
const LAYOUT: Layout = Layout { width: WIDTH - 2.0 * MARGIN, letters: 14.0, height: 17.0, step: 25.0 };
/// Between a title and its bars.
const TITLE: f64 = 12.0;
const BETWEEN: f64 = 34.0;

/// `None` if the report does not tell what payloads cost.
pub(super) fn drawn(report: &BenchReport) -> Option<String> {
    let tables = report.scenarios.iter().filter(|scenario| scenario.name == "payload").flat_map(|it| &it.tables);
    let table = tables.into_iter().find(|table| table.columns.iter().any(|column| column == COLUMNS[0].0))?;
    let (mut drawing, mut top, mut spoken) = (String::new(), TOP + TITLE, Vec::new());
    for (column, title) in COLUMNS {
        let place = table.columns.iter().position(|known| known == column)?;
        let of_it = |(name, figures): &(String, Vec<Option<f64>>)| {
            name.strip_prefix(SIZE).map(str::to_owned).zip(figures.get(place).copied().flatten())
        };
        let shown: Vec<_> = table.rows.iter().filter_map(of_it).collect();
        let json = shown.first()?.1;
        let bar = |(name, value): &(String, f64)| Bar {
            name: name.clone(),
            class: if name.starts_with("JSON") { "plain" } else { "o0" },
            value: Middle { median: *value, least: *value, most: *value },
            remark: format!("{:.2} x", value / json),
        };
        let shown: Vec<Bar> = shown.iter().map(bar).collect();
        drawing += &format!("<text class=\"small\" x=\"{MARGIN}\" y=\"{}\">{}</text>\n", top, escaped(title));
        drawing += &bars(&shown, &LAYOUT, column, MARGIN, top + TITLE);
        top += TITLE + LAYOUT.total(shown.len()) + BETWEEN;
        spoken.push(format!(
            "{title}: {}",
            shown
                .iter()
                .map(|bar| format!("{} {}", bar.name, figure(bar.value.median)))
                .collect::<Vec<_>>()
                .join(", ")
        ));
    }
    let frame = Frame {
        title: "What a reply weighs, and what reading it costs",
        about: "20 KiB of airports as JSON, and the same as Protobuf, under each content coding; dictionaries trained on \
                other airports",
        spoken: &spoken.join(". "),
        below: &measured_on(report, ""),
        height: top - BETWEEN + BELOW,
    };
    Some(frame.around(&drawing))
}

#[cfg(test)]
mod tests {
    use super::super::picture;
    use super::*;
    use crate::lab::bench::result::{FigureTable, Scenario};

    #[test]
    fn forms_and_codings_have_a_bar_for_their_bytes_and_one_for_reading_them() {
        let row = |name: &str, bytes: f64| (name.to_owned(), vec![Some(bytes), Some(1.0), Some(bytes / 100.0)]);
        let table = FigureTable {
            columns: ["bytes", "x JSON", "decode µs"].map(str::to_owned).to_vec(),
            rows: vec![
                row("1 KiB JSON, identity", 1000.0),
                row("20 KiB JSON, identity", 20_000.0),
                row("20 KiB Protobuf, zstd 3", 5_000.0),
            ],
            ..FigureTable::default()
        };
        let scenario = Scenario { name: "payload".into(), tables: vec![table], ..Scenario::default() };
        let report = BenchReport { scenarios: vec![scenario], ..BenchReport::default() };
        let svg = picture(&report).unwrap();
        assert_eq!(svg.matches("<rect class=\"bar ").count(), 4, "{svg}");
        assert!(svg.contains("0.25 x") && !svg.contains("1 KiB"), "{svg}");
        assert!(picture(&BenchReport::default()).is_none());
    }
}
