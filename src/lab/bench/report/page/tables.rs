//! Figures of several kinds, a row for each name.

use std::fmt::Write as _;

use super::super::escape::escaped;
use super::super::figures::{NONE, figure};
use crate::lab::bench::result::FigureTable;

pub(super) fn table(table: &FigureTable) -> String {
    let mut html =
        format!("<div class=\"box\"><table class=\"figures\">\n<thead><tr><th>{}</th>", escaped(&table.title));
    for column in &table.columns {
        let _ = write!(html, "<th class=\"n\">{}</th>", escaped(column));
    }
    html += "</tr></thead>\n<tbody>\n";
    for (name, figures) in &table.rows {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escaped(name));
        for value in figures {
            let _ = write!(html, "<td class=\"n\">{}</td>", value.map_or(NONE.into(), figure));
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table></div>\n"
}
