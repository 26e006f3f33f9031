//! `nearside changes`: how many records of a type were changed since a time, by whom and why.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;

use super::caller::OperatorReach;
use super::ending::{block_on, print};
use super::error::CommandError;
use super::history::{printable, since};
use super::operator_client::OperatorClient;
use crate::app::services::ChangesArguments;
use crate::repair::changes::{ChangeGroup, ChangeReport, VersionCounts};

/// `nearside changes`
#[derive(Clone, Debug, Args)]
pub struct ChangesArgs {
    /// Type of the records
    #[arg(value_name = "TYPE")]
    pub record_type: String,
    /// Time from which changes count: a duration until now, or a time with its zone
    #[arg(long, value_name = "TIME", value_parser = |text: &str| since(text, SystemTime::now()))]
    pub since: SystemTime,
    /// Count the changes of one writer only, such as consumer/jira
    #[arg(long, value_name = "WRITER")]
    pub writer: Option<String>,
    #[command(flatten)]
    pub reach: OperatorReach,
}

pub(super) fn run(args: ChangesArgs) -> Result<(), CommandError> {
    let since = args.since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let asked = ChangesArguments {
        record_type: args.record_type,
        since: u64::try_from(since).unwrap_or(u64::MAX),
        writer: args.writer,
    };
    let client = OperatorClient::of(&args.reach)?;
    let report: ChangeReport = block_on(client.command("changes", &asked))?;
    lines(&report).iter().try_for_each(|line| print(line))
}

/// Lines that people read: the counts by minute, the latest first, and what they add up to.
fn lines(report: &ChangeReport) -> Vec<String> {
    let mut groups: Vec<_> = report.groups.iter().collect();
    groups.sort_by(|a, b| (b.minute, &a.by, &a.reason).cmp(&(a.minute, &b.by, &b.reason)));
    let mut lines: Vec<_> = groups.into_iter().map(of_group).collect();
    if report.more.sum() > 0 {
        lines.push(format!("{} in further groups: ask for one writer, or a shorter time", counted(report.more)));
    }
    let since = time(report.since);
    lines.push(format!(
        "{} of {} records of {} changed since {since}",
        report.changed,
        report.records,
        printable(&report.record_type)
    ));
    if report.cut > 0 {
        lines.push(format!("{} of them have more versions than were counted", report.cut));
    }
    if !report.examples.is_empty() {
        lines.push(format!("digests of some keys: {}", report.examples.join(" ")));
    }
    lines
}

fn of_group(group: &ChangeGroup) -> String {
    let mut line = format!("{}  {}  {}", time(group.minute), printable(&group.by), counted(group.counts));
    line.extend(group.reason.iter().map(|reason| format!("  because {}", printable(reason))));
    line
}

fn counted(counts: VersionCounts) -> String {
    let VersionCounts { written, deleted, unreadable } = counts;
    let kinds = [(written, "written"), (deleted, "deleted"), (unreadable, "unreadable")];
    let kinds: Vec<_> =
        kinds.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    kinds.join(", ")
}

fn time(millis: u64) -> String {
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH);
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_latest_first_and_printable() {
        let group = |by: &str, reason: Option<&str>, minute, written| ChangeGroup {
            by: by.to_owned(),
            reason: reason.map(str::to_owned),
            minute,
            counts: VersionCounts { written, deleted: 1, unreadable: 0 },
        };
        let report = ChangeReport {
            record_type: "tenant".to_owned(),
            since: 0,
            writer: None,
            records: 9,
            changed: 5,
            cut: 1,
            groups: vec![group("consumer/a", None, 0, 2), group("admin", Some("a\u{1b}[2J"), 60_000, 3)],
            more: VersionCounts { written: 0, deleted: 7, unreadable: 1 },
            examples: vec!["0badcafe".to_owned()],
        };
        let said = lines(&report);
        assert_eq!(
            said[0],
            format!("1970-01-01T00:01:00Z  admin  3 written, 1 deleted  because {}", printable("a\u{1b}[2J"))
        );
        assert!(!said[0].contains('\u{1b}'));
        assert_eq!(said[1], "1970-01-01T00:00:00Z  consumer/a  2 written, 1 deleted");
        assert_eq!(said[2], "7 deleted, 1 unreadable in further groups: ask for one writer, or a shorter time");
        assert_eq!(said[3], "5 of 9 records of tenant changed since 1970-01-01T00:00:00Z");
        assert_eq!(said[4..], ["1 of them have more versions than were counted", "digests of some keys: 0badcafe"]);
    }
}
