//! `nearside check --announcement`: what one message of a topic would do.

use std::io::Write;
use std::path::Path;

use crate::cli::error::CommandError;
use crate::config::Config;
use crate::config::error::{nearest, quoted};
use crate::protocol::announcement::message::{Announcement, AnnouncementKind, PATH_PUBLISHER};
use crate::protocol::announcement::{FIELD_NAMES, decode, unknown_names};
use crate::routing::router::Router;

/// Prints what the message would do.
///
/// # Errors
/// If it is not an announcement, or does nothing.
pub(super) fn explain(config: &Config, file: &Path, path: Option<&str>) -> Result<(), CommandError> {
    let text =
        std::fs::read_to_string(file).map_err(|error| CommandError::Usage(format!("{}: {error}", file.display())))?;
    let unknown = unknown(&text);
    let announcement = decode(&text).map_err(|why| {
        CommandError::Usage(printable(&format!(
            "{}: no announcement: {why}; {}docs/publishing.md has messages to copy. Such a message is taken for one that \
             nobody can read: what is stored on this region's word is asked for again",
            file.display(),
            unknown.iter().map(|line| format!("{line}; ")).collect::<String>()
        )))
    })?;
    let Said { mut lines, in_vain } = said(config, &announcement, path);
    lines.extend(unknown.into_iter().map(|line| format!("  {line}")));
    let mut out = std::io::stdout().lock();
    let print = lines.iter().try_for_each(|line| writeln!(out, "{}", printable(line)));
    print.map_err(|error| CommandError::Failed(error.to_string()))?;
    match in_vain {
        Some(why) => Err(CommandError::Usage(printable(&why))),
        None => Ok(()),
    }
}

/// A terminal obeys control characters, and strangers wrote these names.
fn printable(text: &str) -> String {
    text.replace(|char: char| char.is_control(), "\u{fffd}")
}

/// A line for each field name that is unknown.
fn unknown(text: &str) -> Vec<String> {
    unknown_names(text)
        .into_iter()
        .map(|name| match nearest(&name, FIELD_NAMES) {
            Some(meant) => format!("{} is no field of an announcement: did you mean `{meant}`?", quoted(&name)),
            None => format!("{} is no field of an announcement, and says nothing", quoted(&name)),
        })
        .collect()
}

/// Contents and effects of a message, or why it has none.
#[derive(Debug, Default)]
struct Said {
    lines: Vec<String>,
    in_vain: Option<String>,
}

fn said(config: &Config, announcement: &Announcement, path: Option<&str>) -> Said {
    let Announcement { record_type, key, kind, numbered, ingested_at } = announcement;
    let mut said = Said::default();
    said.lines.push(match kind {
        AnnouncementKind::Changed { version: stated } => {
            format!("CHANGED: {record_type}:{key}{}", at_version(*stated))
        }
        AnnouncementKind::Deleted { version: stated } => {
            format!("DELETED: {record_type}:{key}{}", at_version(*stated))
        }
        AnnouncementKind::Reload => format!("RELOAD of {}: asked for again, versions go on", scope(record_type, key)),
        AnnouncementKind::Reset => {
            format!("RESET of {}: asked for again, versions are forgotten", scope(record_type, key))
        }
        AnnouncementKind::Heartbeat { signing_off: true, .. } => {
            "HEARTBEAT, the publisher's last: it is not missed from now on".to_owned()
        }
        AnnouncementKind::Heartbeat { .. } => "HEARTBEAT: the topic speaks".to_owned(),
    });
    said.lines.extend(missing(kind, numbered.is_some(), ingested_at.is_some()));
    if numbered.as_ref().is_some_and(|it| it.publisher.starts_with(PATH_PUBLISHER))
        && !matches!(kind, AnnouncementKind::Heartbeat { .. })
    {
        said.lines.push(format!(
            "its number does not count: publishers named {PATH_PUBLISHER}... send path heartbeats only"
        ));
    }
    if !record_type.is_empty() {
        said.in_vain = unrouted(config, record_type);
    }
    if let (Some(path), None, false) = (path, &said.in_vain, matches!(kind, AnnouncementKind::Heartbeat { .. })) {
        let (line, in_vain) = of_path(config, announcement, path);
        said.lines.push(line);
        said.in_vain = in_vain;
    }
    said
}

fn at_version(version: Option<u64>) -> String {
    version.map_or(String::new(), |version| format!(" at version {version}"))
}

fn scope(record_type: &str, key: &str) -> String {
    match (record_type.is_empty(), key.is_empty()) {
        (true, _) => "everything".to_owned(),
        (false, true) => format!("every {record_type}"),
        (false, false) => format!("{record_type}:{key}"),
    }
}

fn missing(kind: &AnnouncementKind, numbered: bool, ingested_at: bool) -> Vec<String> {
    let mut lacks = Vec::new();
    match kind {
        AnnouncementKind::Changed { version: None } | AnnouncementKind::Deleted { version: None } => {
            lacks.push("a version: a region that lags cannot be distinguished from one that has the change");
        }
        AnnouncementKind::Heartbeat { ingested_through: None, .. } => {
            lacks.push("ingestedThrough: no answer can say how old it is (bound=none)");
        }
        _ => {}
    }
    if !numbered {
        lacks.push("publisher and sequence: one that is lost leaves no hole");
    }
    if !ingested_at && !matches!(kind, AnnouncementKind::Heartbeat { .. }) {
        lacks
            .push("ingestedAt: how long changes take to arrive is not measured (nearside_propagation_delay_seconds)");
    }
    lacks.into_iter().map(|what| format!("  without {what}")).collect()
}

/// Why it changes nothing, if no route names its type.
fn unrouted(config: &Config, record_type: &str) -> Option<String> {
    let known: Vec<_> = config
        .service
        .routes
        .iter()
        .flat_map(|route| &route.records)
        .map(|record| record.record_type.as_str())
        .collect();
    if known.contains(&record_type) {
        return None;
    }
    let meant = match nearest(record_type, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("they name {}", known.join(", ")),
    };
    Some(format!("it changes nothing: no route names the record type `{record_type}`; {meant}"))
}

/// Effect on what is stored for this path.
fn of_path(config: &Config, announcement: &Announcement, path: &str) -> (String, Option<String>) {
    let router = Router::new(&config.service);
    let Some(matched) = router.find(path.split('?').next().unwrap_or(path)) else {
        let why =
            format!("no route names {path}: no announcement keeps it fresh; `nearside explain {path}` says why");
        return (String::new(), Some(why));
    };
    let records: Vec<_> =
        matched.records().map(|(record_type, key)| (record_type.to_owned(), key.into_owned())).collect();
    let shown =
        records.iter().map(|(record_type, key)| format!("{record_type}:{key}")).collect::<Vec<_>>().join(", ");
    let Announcement { record_type, key, .. } = announcement;
    let is_met = records
        .iter()
        .any(|(of, named)| (record_type.is_empty() || of == record_type) && (key.is_empty() || named == key));
    if is_met {
        return (format!("{path} shows {shown}: what is stored for it is asked for again"), None);
    }
    let of_its_type = records.iter().any(|(of, _)| of == record_type);
    let meant = records.iter().filter(|(of, _)| !of_its_type || of == record_type);
    let meant = meant.map(|(of, key)| format!("recordType {} and key {}", quoted(of), quoted(key)));
    let why = format!(
        "it does not touch {path}, which shows {shown}: announce the key as the route makes it of the path ({}), or change the \
         route's records ({})",
        meant.collect::<Vec<_>>().join(", or "),
        matched.route.path.text
    );
    (format!("{path} shows {shown}"), Some(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read::from_toml;

    fn config() -> Config {
        let text = "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n[[service.route]]\n\
                    path = \"/v1/contexts/{key}/{view}\"\nrecords = [\"context:{key}\"]\n";
        from_toml(text).unwrap()
    }

    fn reported(message: &str, path: Option<&str>) -> (String, String) {
        let said = said(&config(), &decode(message).unwrap(), path);
        (said.lines.join("\n"), said.in_vain.unwrap_or_default())
    }

    #[test]
    fn matching_message_states_its_effect() {
        let whole = r#"{"recordType":"context","key":"acme","version":"7","publisher":"p","sequence":"3","ingestedAt":"2026-01-01T00:00:00Z"}"#;
        let (lines, in_vain) = reported(whole, Some("/v1/contexts/acme/limits"));
        assert_eq!(in_vain, "");
        assert_eq!(
            lines,
            "CHANGED: context:acme at version 7\n/v1/contexts/acme/limits shows context:acme: what is stored for it is asked \
             for again"
        );
    }

    #[test]
    fn misformed_messages_have_no_effect() {
        let (_, in_vain) =
            reported(r#"{"recordType":"context","key":"context:acme"}"#, Some("/v1/contexts/acme/limits"));
        assert!(in_vain.contains("shows context:acme: announce the key as the route makes it"), "{in_vain}");
        assert!(in_vain.contains("(recordType `context` and key `acme`), or change"), "{in_vain}");
        let (lines, in_vain) = reported(r#"{"recordType":"contxt","key":"acme"}"#, Some("/v1/contexts/acme/limits"));
        assert!(in_vain.contains("did you mean `context`?"), "{in_vain}");
        assert!(lines.contains("without a version") && lines.contains("without publisher and sequence"), "{lines}");
        let (_, in_vain) = reported(r#"{"recordType":"context","key":"acme"}"#, Some("/v2/acme"));
        assert!(in_vain.contains("no route names /v2/acme"), "{in_vain}");
    }

    #[test]
    fn mistyped_field_suggests_nearest() {
        let lines = unknown(r#"{"recordtype":"context","key":"acme","tenant":"t"}"#);
        let wanted = [
            "`recordtype` is no field of an announcement: did you mean `recordType`?",
            "`tenant` is no field of an announcement, and says nothing",
        ];
        assert_eq!(lines, wanted);
        assert!(unknown("CgV0aGlz").is_empty() && unknown(r#"{"record_type":"a"}"#).is_empty());
    }

    #[test]
    fn type_reload_matches_all_its_paths() {
        let (lines, in_vain) =
            reported(r#"{"recordType":"context","kind":"RELOAD"}"#, Some("/v1/contexts/acme/limits"));
        assert!(in_vain.is_empty() && lines.contains("RELOAD of every context"), "{lines} {in_vain}");
    }
}
