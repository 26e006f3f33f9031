//! `nearside doctor`: asks the regions, listens to their topics, and prints a line for everything
//! that was checked.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use clap::builder::styling::{AnsiColor, Style};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{CommandError, ConfigArgs, told, variables};
use crate::admin::findings::report::{LineState, ReportLine};
use crate::app::doctor::{self, DoctorOrder};
use crate::app::{Instead, process};
use crate::config::read;
use crate::telemetry::log;

/// `nearside doctor`
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would become the command's help")]
    pub settings: ConfigArgs,
    /// Ask every region for this path while it listens; may be given several times
    #[arg(long, value_name = "PATH", value_parser = path)]
    pub path: Vec<String>,
    /// Send this header with it, as your callers do; may be given several times
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    pub header: Vec<(HeaderName, HeaderValue)>,
    /// How long it listens
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    pub listen: Duration,
    /// Print everything as JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// Show what is not seen, too
    #[arg(long, short)]
    pub verbose: bool,
}

pub(super) fn path(text: &str) -> Result<String, String> {
    match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err("write it from its first slash, without scheme and host: /v1/contexts/acme".to_owned()),
    }
}

pub(super) fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let instead = || "write it as NAME: VALUE, such as \"Authorization: Bearer abc\"".to_owned();
    let (name, value) = text.split_once(':').ok_or_else(instead)?;
    let name = name.trim().parse().map_err(|_| instead())?;
    Ok((name, value.trim().parse().map_err(|_| instead())?))
}

/// Examines, prints, and fails if something is wrong.
pub(super) fn doctor(args: DoctorArgs) -> Result<(), CommandError> {
    let (config, origins) = told(read::load(args.settings.config.as_deref(), variables()))?;
    log::init(&log::for_commands()).map_err(|error| CommandError::Failed(error.to_string()))?;
    origins.warnings.iter().for_each(|warning| say(&warning.to_string()));
    let listen = args.listen;
    if doctor::is_posted_to(&config) {
        say(
            "with the http transport only a running sidecar hears the topics: its /status says what it found, here the regions are asked",
        );
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &args.header {
        headers.append(name.clone(), value.clone());
    }
    say(&format!("listening for {} ...", humantime::format_duration(listen)));
    if args.path.is_empty() {
        say("no --path is given, so nothing is asked of the regions: most of what can be wrong shows only then");
    } else {
        say(
            "change the record of --path now, twice if you can: only then it shows whether announcements name what is read",
        );
    }
    let order = DoctorOrder { paths: args.path, headers, listen };
    let looked = process::block_on(async move { doctor::examine(config, order, Instead::default()).await });
    let looked = looked.map_err(|error| CommandError::Failed(error.to_string()))?;
    let lines = looked.map_err(|error| CommandError::Failed(error.to_string()))?;
    let written = if args.json { as_json(&lines) } else { write(&lines, args.verbose) };
    written.map_err(|error| CommandError::Failed(error.to_string()))?;
    match lines.iter().filter(|line| line.state == LineState::Wrong).count() {
        0 => Ok(()),
        _ => Err(CommandError::Failed(String::new())),
    }
}

fn say(text: &str) {
    // If standard error is closed, nobody is left to tell.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn as_json(lines: &[ReportLine]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, lines)?;
    writeln!(out)
}

/// Groups the lines by subject, in the order in which subjects first appear.
fn write(lines: &[ReportLine], verbose: bool) -> std::io::Result<()> {
    let stdout = std::io::stdout();
    let coloured = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let style = |colour: AnsiColor| if coloured { colour.on_default().bold() } else { Style::new() };
    let mut out = stdout.lock();
    let mut subjects: Vec<&str> = Vec::new();
    for line in lines {
        if !subjects.contains(&line.subject.as_str()) {
            subjects.push(&line.subject);
        }
    }
    for subject in subjects {
        let of_it = lines.iter().filter(|line| line.subject == subject);
        let shown: Vec<_> = of_it.filter(|line| verbose || line.state != LineState::Unseen).collect();
        if shown.is_empty() {
            continue;
        }
        writeln!(out, "{subject}")?;
        for line in shown {
            let (mark, style) = match line.state {
                LineState::Well => ("ok   ", style(AnsiColor::Green)),
                LineState::Wrong => ("WRONG", style(AnsiColor::Red)),
                LineState::Unseen => ("?    ", style(AnsiColor::Yellow)),
            };
            let what = if line.state == LineState::Well { line.title } else { line.check };
            writeln!(out, "  {style}{mark}{style:#} {what}: {}", line.saw)?;
            if !line.advice.is_empty() {
                writeln!(out, "        -> {}", line.advice)?;
            }
        }
    }
    let count = |state: LineState| lines.iter().filter(|line| line.state == state).count();
    let unseen = match count(LineState::Unseen) {
        0 => String::new(),
        some if verbose => format!(", {some} not seen"),
        some => format!(", {some} not seen (--verbose says how to see them)"),
    };
    writeln!(out, "{} well, {} wrong{unseen}", count(LineState::Well), count(LineState::Wrong))
}
