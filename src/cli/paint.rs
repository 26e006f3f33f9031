//! How mistakes, warnings and settings look on a terminal; anywhere else they look plain. Escape
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

/// Every mistake on a line of its own, then how many there are.
pub(super) fn mistakes(out: &mut dyn Write, mistakes: &[ConfigError], styles: Styles) -> io::Result<()> {
    let Styles { place, wrong, .. } = styles;
    for mistake in mistakes {
        let setting = if mistake.setting.is_empty() { String::new() } else { format!("{}: ", mistake.setting) };
        writeln!(
            out,
            "{place}{}{place:#}: {wrong}error{wrong:#}: {setting}{}; {}",
            mistake.place, mistake.wrong, mistake.instead
        )?;
    }
    match mistakes.len() {
        1 => writeln!(out, "1 mistake"),
        count => writeln!(out, "{count} mistakes"),
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
    fn a_pipe_gets_no_escape_sequence_and_a_terminal_does() {
        let mistake =
            ConfigError::new(Place::Variable("NEARSIDE__X".into()), "", ConfigProblem::new("wrong", "right"));
        let show = |styles| {
            let mut out = Vec::new();
            mistakes(&mut out, std::slice::from_ref(&mistake), styles).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(show(Styles::default()), "NEARSIDE__X: error: wrong; right\n1 mistake\n");
        assert!(show(Styles::colours()).contains("\u{1b}["));
        let file = tempfile::tempfile().unwrap();
        assert!(!show(Styles::of(&file)).contains('\u{1b}'));
    }
}
