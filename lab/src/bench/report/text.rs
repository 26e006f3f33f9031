//! Plain text for a terminal: columns that align, and lines that are wrapped. No line is longer than
//! [`WIDTH`] unless a single word is.

use std::fmt::Write as _;

use super::summary::{Column, SPREAD};

/// Columns of a terminal that a report needs.
const WIDTH: usize = 110;
/// Least width of a subject's name, even if the numbers are long.
const NAME: usize = 12;

/// Aligns names to the left and numbers to the right; a name that does not fit is cut.
pub(super) fn laid_out(columns: &[Column]) -> String {
    let mut widths: Vec<usize> = columns.iter().map(width).collect();
    let others: usize = columns.iter().zip(&widths).skip(1).map(|(column, width)| width + gap(column).len()).sum();
    widths[0] = widths[0].min(WIDTH.saturating_sub(2 + others)).max(NAME);
    let mut lines = Vec::new();
    for row in 0..=columns[0].cells.len() {
        let mut line = String::from(" ");
        for (place, (column, width)) in columns.iter().zip(&widths).enumerate() {
            let cell = if row == 0 { &column.name } else { &column.cells[row - 1] };
            let _ = match place {
                0 => write!(line, " {:<width$}", cut(cell, *width)),
                _ => write!(line, "{}{cell:>width$}", gap(column)),
            };
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

fn width(column: &Column) -> usize {
    column.cells.iter().chain([&column.name]).map(|cell| cell.chars().count()).max().unwrap_or_default()
}

/// Gap before a column; the spread stands close to its figure.
fn gap(column: &Column) -> &'static str {
    if column.name == SPREAD { " " } else { "  " }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// `text` in lines of [`WIDTH`]; `first` begins the first line and `next` each other line.
pub(super) fn wrapped(text: &str, first: &str, next: &str) -> String {
    let mut lines = String::from(first);
    let mut length = first.chars().count();
    for (place, word) in text.split_whitespace().enumerate() {
        let letters = word.chars().count();
        if place > 0 && length + 1 + letters > WIDTH {
            lines = lines + "\n" + next;
            length = next.chars().count();
        } else if place > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += letters;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_before_a_line_is_too_wide() {
        let columns = [("", "n".repeat(120)), ("rate/s", "88,000".into()), (SPREAD, "1-2".into())]
            .map(|(name, cell)| Column { name: name.into(), cells: vec![cell] });
        let text = laid_out(&columns);
        assert_eq!(text.lines().map(|line| line.chars().count()).collect::<Vec<_>>(), [WIDTH, WIDTH]);
        assert!(text.contains("n…  88,000    1-2"), "{text}");
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        let text = wrapped(&"word ".repeat(30), "  note: ", "        ");
        assert_eq!(text.lines().map(str::len).collect::<Vec<_>>(), [107, 57]);
        assert!(text.starts_with("  note: word word") && text.contains("word\n        word"), "{text}");
        let half = "w".repeat(WIDTH / 2);
        assert_eq!(wrapped(&format!("{half} {half}"), "", ""), format!("{half}\n{half}"));
        let long = "w".repeat(WIDTH + 1);
        assert_eq!(wrapped(&format!("a  {long}"), "", "  "), format!("a\n  {long}"));
    }
}
