//! Config errors, warnings and settings on a terminal; anywhere else they look plain. Escape
//! sequences go only to a terminal whose owner has not set `NO_COLOR`.

use std::io::{self, IsTerminal, Write};

use clap::builder::styling::{AnsiColor, Style};

use crate::config::effective;
use crate::config::error::{ConfigError, Place, Warning};

/// The styles of one stream; all plain unless it is a terminal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Styles {
    place: Style,
    wrong: Style,
    warning: Style,
    pub(super) settings: effective::TomlStyles,
}

impl Styles {
    pub(super) fn of(stream: &impl IsTerminal) -> Self {
        let plain = !stream.is_terminal() || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if plain { Self::default() } else { Self::colours() }
    }

    fn colours() -> Self {
        Self {
            place: Style::new().bold(),
            wrong: AnsiColor::Red.on_default().bold(),
            warning: AnsiColor::Yellow.on_default().bold(),
            settings: effective::TomlStyles {
                heading: Style::new().bold(),
                written: AnsiColor::Green.on_default(),
                default: Style::new().dimmed(),
            },
        }
    }
}

/// Every config error on a line of its own, then how many there are.
pub(super) fn errors(out: &mut dyn Write, errors: &[ConfigError], styles: Styles) -> io::Result<()> {
    let Styles { place, wrong, .. } = styles;
    for error in errors {
        let setting = if error.setting.is_empty() { String::new() } else { format!("{}: ", error.setting) };
        writeln!(
            out,
            "{place}{}{place:#}: {wrong}error{wrong:#}: {setting}{}; {}",
            error.place, error.wrong, error.suggestion
        )?;
    }
    match errors.len() {
        1 => writeln!(out, "1 error"),
        count => writeln!(out, "{count} errors"),
    }
}

/// Every warning on a line of its own.
pub(super) fn warnings(out: &mut dyn Write, warnings: &[Warning], styles: Styles) -> io::Result<()> {
    let Styles { place, warning: style, .. } = styles;
    warnings.iter().try_for_each(|warning| match &warning.place {
        Place::Default => writeln!(out, "{style}warning{style:#}: {}", warning.text),
        at => writeln!(out, "{place}{at}{place:#}: {style}warning{style:#}: {}", warning.text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::error::ConfigProblem;

    #[test]
    fn only_terminals_get_escape_sequences() {
        assert_eq!(shown(Styles::default()), "NEARSIDE__X: error: wrong; right\n1 error\n");
        assert!(shown(Styles::colours()).contains("\u{1b}["));
        let file = tempfile::tempfile().unwrap();
        assert!(!shown(Styles::of(&file)).contains('\u{1b}'));
    }

    fn shown(styles: Styles) -> String {
        let error = ConfigError::new(Place::Variable("NEARSIDE__X".into()), "", ConfigProblem::new("wrong", "right"));
        let mut out = Vec::new();
        errors(&mut out, std::slice::from_ref(&error), styles).unwrap();
        String::from_utf8(out).unwrap()
    }
}
