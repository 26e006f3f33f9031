//! `nearside doctor`: asks the regions, listens to their topics, and prints a line for everything
//! that was checked.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use clap::builder::styling::{AnsiColor, Style};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::args::{ConfigArgs, header, path};
use super::error::CommandError;
use super::load::{reported, sdk_settings, variables, with_schemas};
use crate::admin::findings::Check;
use crate::admin::findings::report::{LineState, ReportLine};
use crate::app::doctor::{self, CANDIDATE, DoctorOrder};
use crate::app::{Overrides, process};
use crate::config::{Config, RegionConfig, Route, read};
use crate::routing::router::Router;
use crate::telemetry::log;

/// `nearside doctor`
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub settings: ConfigArgs,
    /// Ask every region for this path while it listens; may be given several times
    #[arg(long, value_name = "PATH", value_parser = path)]
    pub path: Vec<String>,
    /// Send this header with it, as your callers do; may be given several times
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    pub header: Vec<(HeaderName, HeaderValue)>,
    /// Time to listen
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    pub listen: Duration,
    /// Print everything as JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// Show what was not checked, too
    #[arg(long, short)]
    pub verbose: bool,
}

/// Examines, prints, and fails if something is wrong.
pub(super) fn doctor(args: DoctorArgs) -> Result<(), CommandError> {
    let (config, origins) = reported(with_schemas(read::load(args.settings.config.as_deref(), variables())))?;
    log::init(&log::for_commands()).map_err(|error| CommandError::Failed(error.to_string()))?;
    origins.warnings.iter().for_each(|warning| say(&warning.to_string()));
    let sdk = sdk_settings(&config);
    sdk.fatal.iter().for_each(|wrong| say(&format!("the AWS SDK cannot use this, so AWS is not called: {wrong}")));
    sdk.ignored.iter().for_each(|wrong| say(&format!("the AWS SDK's setting is skipped: {wrong}")));
    let listen = args.listen;
    if doctor::is_posted_to(&config) {
        say(
            "with the http transport only a running sidecar receives announcements: its /status says what it found, here the regions are asked",
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
    let unmatched_paths: Vec<_> = args.path.iter().filter_map(|path| unrouted(&config, path)).collect();
    unmatched_paths.iter().for_each(|it| say(&format!("{}: {}; {}", it.subject, it.saw, it.advice)));
    let router = Router::new(&config.service);
    // A GET of a batch path is no read of its route.
    let asked = args.path.iter().filter(|path| batch_of(&router, path).is_none());
    let order = DoctorOrder { paths: asked.cloned().collect(), headers, listen };
    let examined = config.clone();
    let looked = process::block_on(async move { doctor::examine(examined, order, Overrides::default()).await });
    let looked = looked.map_err(|error| CommandError::Failed(error.to_string()))?;
    let mut lines = looked.map_err(|error| CommandError::Failed(error.to_string()))?;
    name_paths(&mut lines, &config, &args.path);
    lines.extend(unmatched_paths);
    let written = if args.json { as_json(&lines) } else { write(&lines, args.verbose) };
    written.map_err(|error| CommandError::Failed(error.to_string()))?;
    match lines.iter().filter(|line| line.state == LineState::Wrong).count() {
        0 => Ok(()),
        _ => Err(CommandError::Failed(String::new())),
    }
}

/// Replaces a route's template as what was asked, where a line shows it, by a path of the order.
fn name_paths(lines: &mut [ReportLine], config: &Config, paths: &[String]) {
    let router = Router::new(&config.service);
    for path in paths {
        let Some(matched) = router.find(bare(path)) else { continue };
        let template = &matched.route.path.text;
        for line in
            lines.iter_mut().filter(|line| line.check == Check::Absent.into_str() && line.subject == *template)
        {
            line.saw = line.saw.replacen(template.as_str(), path, 1);
        }
    }
}

/// The route of which this is the batch path and no path.
fn batch_of<'r>(router: &'r Router, path: &str) -> Option<&'r Route> {
    if router.find(bare(path)).is_some() {
        return None;
    }
    router.routes().nth(router.batch(bare(path))?.0)
}

/// Fault of a path that no route names: its result proves nothing about routes.
fn unrouted(config: &Config, path: &str) -> Option<ReportLine> {
    let router = Router::new(&config.service);
    if router.find(bare(path)).is_some() {
        return None;
    }
    if let Some(route) = batch_of(&router, path) {
        let saw = "it is a batch path: callers POST many keys to it, and nothing is asked for at it here";
        let advice = format!("give a path of one key instead: {}", single_key_path(route, bare(path)));
        return Some(unmatched(path, saw.to_owned(), advice));
    }
    let twice = config.service.regions.iter().find(|region| starts_with(path, base_of(region)));
    let asked = twice.or(config.service.regions.first())?;
    let near = "but it is nearly a route's: the letter case, a slash, an escape or its length differs";
    let meant: Vec<_> = router.resembled(bare(path)).collect();
    let advice = match twice {
        Some(region) => {
            let base = base_of(region);
            format!("leave {base} out of --path: service.region's url ends with it, so that it stands there twice")
        }
        None if router.is_near(bare(path)) => format!("{near} from what the route says; nearside explain {path}"),
        None if !meant.is_empty() => format!("perhaps {} is meant; nearside explain {path}", meant.join(" or ")),
        None => format!("give a path of a route; nearside explain {path} lists the routes"),
    };
    let saw = format!("no route names this path: nothing keeps it fresh; it is asked for as {}{path}", url_of(asked));
    Some(unmatched(path, saw, advice))
}

fn unmatched(path: &str, saw: String, advice: String) -> ReportLine {
    ReportLine {
        state: LineState::Wrong,
        subject: path.to_owned(),
        check: Check::RouteUnmatched.into_str(),
        title: Check::RouteUnmatched.title(),
        saw,
        advice,
    }
}

/// For `/v1/batch/limits`: `/v1/contexts/{key}/limits`, with the missing segment as a placeholder.
fn single_key_path(route: &Route, batch_path: &str) -> String {
    let captures = route.batch.as_ref().and_then(|template| template.captures(batch_path));
    // Owned here, because `filled` borrows what it writes.
    let placeholders: Vec<_> = route.path.names().map(|name| (name, format!("{{{name}}}"))).collect();
    route.path.filled(|name| {
        let written = captures.as_ref().and_then(|captures| captures.written(name));
        written
            .or_else(|| {
                placeholders.iter().find(|(known, _)| *known == name).map(|(_, placeholder)| placeholder.as_str())
            })
            .unwrap_or_default()
    })
}

/// The path without its query.
fn bare(path: &str) -> &str {
    path.split('?').next().unwrap_or(path)
}

fn url_of(region: &RegionConfig) -> &str {
    region.url.as_str().trim_end_matches('/')
}

/// The path that a region's URL has, which goes before every path; empty when it has none.
fn base_of(region: &RegionConfig) -> &str {
    region.url.path().trim_end_matches('/')
}

/// True if `base` stands before the rest of `path`.
fn starts_with(path: &str, base: &str) -> bool {
    !base.is_empty() && path.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'))
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
    let mut out = stdout.lock();
    let mut subjects: Vec<&str> = Vec::new();
    for line in lines {
        if !subjects.contains(&line.subject.as_str()) {
            subjects.push(&line.subject);
        }
    }
    for subject in subjects {
        let of_it = lines.iter().filter(|line| line.subject == subject);
        let shown: Vec<_> = of_it.filter(|line| verbose || is_shown(line)).collect();
        if shown.is_empty() {
            continue;
        }
        writeln!(out, "{subject}")?;
        for line in shown {
            let (mark, colour) = match line.state {
                LineState::Well => ("ok   ", AnsiColor::Green),
                LineState::Wrong => ("WRONG", AnsiColor::Red),
                LineState::Unchecked => ("?    ", AnsiColor::Yellow),
                LineState::Note => ("note ", AnsiColor::Yellow),
            };
            let style = if coloured { colour.on_default().bold() } else { Style::new() };
            let what = if line.state == LineState::Well { line.title } else { line.check };
            writeln!(out, "  {style}{mark}{style:#} {what}: {}", line.saw)?;
            if !line.advice.is_empty() {
                writeln!(out, "        -> {}", line.advice)?;
            }
        }
    }
    let [well, wrong, unchecked] = [LineState::Well, LineState::Wrong, LineState::Unchecked]
        .map(|state| lines.iter().filter(|line| line.state == state).count());
    writeln!(out, "{}", summary(well, wrong, unchecked, verbose))
}

/// True if a line appears without `--verbose`. Lines about a candidate are always shown.
fn is_shown(line: &ReportLine) -> bool {
    line.state != LineState::Unchecked || line.check == CANDIDATE
}

fn summary(well: usize, wrong: usize, unchecked: usize, verbose: bool) -> String {
    let how = if verbose { "the arrows say" } else { "--verbose says" };
    match unchecked {
        0 => format!("{well} well, {wrong} wrong"),
        _ => format!(
            "{well} well, {wrong} wrong, {unchecked} not checked, which proves nothing ({how} how to check them)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read::from_toml;

    fn config(base: &str) -> Config {
        let text = format!(
            "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1{base}\"\n[[service.route]]\n\
             path = \"/v1/contexts/{{key}}/{{view}}\"\nrecords = [\"context:{{key}}\"]\n"
        );
        from_toml(&text).unwrap()
    }

    fn reported(base: &str, path: &str) -> Option<(String, String)> {
        unrouted(&config(base), path).map(|line| (line.saw, line.advice))
    }

    #[test]
    fn unrouted_path_suggests_likely_route() {
        assert_eq!(reported("", "/v1/contexts/acme/limits?a=b"), None);
        let (saw, advice) = reported("/api", "/api/v1/contexts/acme/limits").unwrap();
        assert_eq!(
            saw,
            "no route names this path: nothing keeps it fresh; it is asked for as \
             http://127.0.0.1:1/api/api/v1/contexts/acme/limits"
        );
        assert!(advice.starts_with("leave /api out of --path"), "{advice}");
        let (_, advice) = reported("", "/v1/contexts/acme/limits/").unwrap();
        assert!(advice.contains("it is nearly a route's"), "{advice}");
        let (_, advice) = reported("", "/v1/context/acme/limits").unwrap();
        assert!(advice.contains("perhaps /v1/contexts/{key}/{view} is meant"), "{advice}");
        let (_, advice) = reported("", "/about").unwrap();
        assert!(advice.contains("nearside explain /about lists the routes"), "{advice}");
    }

    #[test]
    fn batch_path_points_to_key_path() {
        let mut config = config("");
        let batch = crate::config::PathTemplate::parse("/v1/batch/{view}").unwrap();
        config.service.routes[0].batch = Some(batch);
        let line = unrouted(&config, "/v1/batch/limits?x=1").unwrap();
        assert!(line.saw.starts_with("it is a batch path: "), "{}", line.saw);
        assert_eq!(line.advice, "give a path of one key instead: /v1/contexts/{key}/limits");
        assert!(batch_of(&Router::new(&config.service), "/v1/contexts/acme/limits").is_none());
    }

    #[test]
    fn unchecked_candidate_is_still_printed() {
        for (check, shown) in [(CANDIDATE, true), (Check::Absent.into_str(), false)] {
            let (saw, advice) = (String::new(), String::new());
            let line =
                ReportLine { state: LineState::Unchecked, subject: String::new(), check, title: "", saw, advice };
            assert_eq!(is_shown(&line), shown, "{check}");
        }
    }

    #[test]
    fn requests_are_printed_with_path() {
        let saw = "nothing: a was asked for http://127.0.0.1:1/v1/contexts/{key}/{view}".to_owned();
        let subject = "/v1/contexts/{key}/{view}".to_owned();
        let (state, advice) = (LineState::Wrong, String::new());
        let mut lines = [ReportLine { state, subject, check: Check::Absent.into_str(), title: "", saw, advice }];
        name_paths(&mut lines, &config(""), &["/about".to_owned(), "/v1/contexts/acme/limits".to_owned()]);
        assert_eq!(lines[0].saw, "nothing: a was asked for http://127.0.0.1:1/v1/contexts/acme/limits");
    }

    #[test]
    fn summary_never_counts_unchecked_as_good() {
        assert_eq!(summary(9, 0, 0, false), "9 well, 0 wrong");
        let reported = summary(9, 1, 7, false);
        assert_eq!(
            reported,
            "9 well, 1 wrong, 7 not checked, which proves nothing (--verbose says how to check them)"
        );
    }
}
