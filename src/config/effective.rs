//! The output of `nearside check`: every setting in effect, as TOML, with where it came from. The
//! text is itself a configuration: reading it again gives the same settings.

use std::io::{self, Write};

use super::scope::{Effective, Origins};
use super::settings::{PresetValue, Section};

/// The column of the comment, if the setting leaves room.
const COLUMN: usize = 52;

/// Styles of the parts of a line: plain, or in a terminal's colours.
#[derive(Clone, Copy, Debug, Default)]
pub struct TomlStyles {
    pub heading: clap::builder::styling::Style,
    /// The place of a setting that is written.
    pub written: clap::builder::styling::Style,
    /// The place of a default.
    pub default: clap::builder::styling::Style,
}

/// Writes every setting under its section.
///
/// # Errors
/// If writing to `out` fails.
pub fn print(out: &mut dyn Write, origins: &Origins, styles: TomlStyles) -> io::Result<()> {
    let mut first = true;
    let mut sections: Vec<Section> = origins.settings.iter().map(Effective::home).collect();
    sections.sort();
    sections.dedup();
    for section in sections {
        let settings: Vec<&Effective> = origins.settings.iter().filter(|known| known.home() == section).collect();
        let mut items: Vec<Option<usize>> = settings.iter().map(|known| known.item).collect();
        items.dedup();
        for item in items {
            let heading = section.heading();
            let gap = if first { "" } else { "\n" };
            first = false;
            writeln!(out, "{gap}{}{heading}{:#}", styles.heading, styles.heading)?;
            for known in settings.iter().filter(|known| known.item == item) {
                line(out, known, styles)?;
            }
        }
    }
    Ok(())
}

fn line(out: &mut dyn Write, known: &Effective, styles: TomlStyles) -> io::Result<()> {
    let setting = known.setting;
    let inner = setting.section.inner_key().map_or(String::new(), |key| format!("{key}."));
    let text = format!("{inner}{} = {}", setting.key, known.toml);
    let place = match (known.is_default(), setting.preset) {
        (true, PresetValue::Like(other)) => format!("default: {}", other.path()),
        _ => known.place.to_string(),
    };
    let style = if known.is_default() { styles.default } else { styles.written };
    writeln!(out, "{text:<COLUMN$} {style}# {place}{style:#}")
}
