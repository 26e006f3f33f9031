//! Prints replies: in sentences for people, or as JSON.

use std::fmt::Write as _;
use std::io::Write as _;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admin::commands::announcements::Believing;
use crate::admin::commands::compare::{ComparedPath, ContentSeen};
use crate::admin::commands::inspect::{EntrySeen, Inspected, RecordSeen};
use crate::admin::commands::jobs::{JobSeen, JobsSeen};
use crate::admin::commands::log::Logging;
use crate::admin::commands::purge::Purged;
use crate::admin::commands::refresh::Refreshing;
use crate::admin::commands::region::Asking;
use crate::admin::commands::reset::Reset;
use crate::app::reload::Reloaded;
use crate::cli::error::CommandError;

/// Prints the reply to the command of this name on standard output.
pub(super) fn reply(name: &str, reply: &Value, json: bool) -> Result<(), CommandError> {
    let text = if json { format!("{reply:#}\n") } else { reported(name, reply)? };
    let mut out = std::io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    printed.map_err(|error| CommandError::Failed(format!("the reply could not be printed: {error}")))
}

pub(super) fn reported(name: &str, reply: &Value) -> Result<String, CommandError> {
    Ok(match name {
        "purge" => purged(&read(reply)?),
        "refresh" => refreshing(&read(reply)?),
        "reset" => reset(&read(reply)?),
        "inspect" => inspected(&read(reply)?),
        "compare" => compared(&read(reply)?),
        "drain" | "restore" => asking(&read(reply)?),
        "pause" | "resume" => believing(&read(reply)?),
        "log" => logging(&read(reply)?),
        "jobs" => jobs(&read(reply)?),
        "reload" => reloaded(&read(reply)?),
        _ => format!("{reply:#}\n"),
    })
}

fn read<T: DeserializeOwned>(reply: &Value) -> Result<T, CommandError> {
    serde_json::from_value(reply.clone()).map_err(|error| {
        CommandError::Failed(format!("the reply is not of this version ({error}); see all of it with --json"))
    })
}

/// `12345` as `12,345`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).expect("digits are ASCII"))
        .collect();
    groups.join(",")
}

fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

fn entries(number: u64) -> String {
    count(number, "entry", "entries")
}

fn purged(purged: &Purged) -> String {
    format!(
        "{} purged, {} left; the next read of each asks the regions\n",
        entries(purged.purged),
        grouped(purged.left)
    )
}

fn refreshing(refreshing: &Refreshing) -> String {
    let mut text = match &refreshing.job {
        Some(job) => format!(
            "{} to refresh, as job {}: see how far it is with `nearside ctl jobs`\n",
            entries(refreshing.entries),
            job.job
        ),
        None => "nothing to refresh: no entry of a route is stored for it\n".to_owned(),
    };
    if refreshing.unrouted > 0 {
        let of = entries(refreshing.unrouted);
        let _ = writeln!(
            text,
            "{of} of no route left as they are: only their callers can ask for them; purge them instead"
        );
    }
    text
}

fn reset(reset: &Reset) -> String {
    let of = count(reset.records, "record", "records");
    format!("floors forgotten ({}): {of} with entries among them; what is stored is asked for again\n", reset.target)
}

fn asking(asking: &Asking) -> String {
    let now = match (asking.asked, asking.changed) {
        (false, true) => "is drained: nobody asks it",
        (false, false) => "was drained already",
        (true, true) => "is asked again",
        (true, false) => "was not drained",
    };
    let left = if asking.left.is_empty() { "nobody".to_owned() } else { asking.left.join(", ") };
    format!("{} {now}; asked now: {left}\n", asking.region)
}

fn believing(believing: &Believing) -> String {
    let now = match (believing.believed, believing.changed) {
        (false, true) => "announcements are paused: acknowledged and counted, not applied, and no proof",
        (false, false) => "announcements were paused already",
        (true, true) => "announcements count again, from the next proof on",
        (true, false) => "announcements were not paused",
    };
    let live = if believing.live.is_empty() { "none".to_owned() } else { believing.live.join(", ") };
    format!("{}: {now}; live now: {live}\n", believing.region)
}

fn logging(logging: &Logging) -> String {
    match &logging.before {
        Some(before) => format!("{} (before: {before}), until the next restart or reload\n", logging.filter),
        None => format!("{}\n", logging.filter),
    }
}

fn reloaded(reloaded: &Reloaded) -> String {
    let Reloaded { changed, needs_restart, warnings } = reloaded;
    let mut text = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect::<String>();
    changed.iter().for_each(|change| text += &format!("{change}\n"));
    for setting in needs_restart {
        text += &format!("{setting}: cannot change while the process runs; restart to apply it\n");
    }
    match (changed.is_empty(), needs_restart.is_empty()) {
        (true, true) => text + "read again; nothing differs\n",
        _ => text + &format!("reloaded: {}\n", count(changed.len() as u64, "change", "changes")),
    }
}

fn jobs(seen: &JobsSeen) -> String {
    if seen.jobs.is_empty() {
        return "no jobs\n".to_owned();
    }
    seen.jobs.iter().map(job).collect()
}

fn job(job: &JobSeen) -> String {
    let done = job.done + job.failed + job.skipped;
    let mut text = format!(
        "job {} ({} of {}, by {}): {}, {} of {} in {} s",
        job.job,
        job.command,
        job.about,
        job.by,
        job.state,
        grouped(done),
        entries(job.entries),
        job.seconds
    );
    for (number, what) in [(job.failed, "kept as they were: no region gave better"), (job.skipped, "skipped")] {
        if number > 0 {
            let _ = write!(text, "; {} {what}", grouped(number));
        }
    }
    text + "\n"
}

fn inspected(seen: &Inspected) -> String {
    let mut text = String::new();
    for record in &seen.records {
        text += &self::record(record);
    }
    for line in &seen.says {
        let _ = writeln!(text, "{line}");
    }
    for entry in &seen.entries {
        text += &self::entry(entry);
    }
    let shown = seen.entries.len() as u64;
    if shown < seen.entries_in_all {
        let _ = writeln!(text, "... and {} more", entries(seen.entries_in_all - shown));
    }
    for region in &seen.regions {
        let _ = writeln!(text, "region {}: {}", region.name, region.says);
    }
    text
}

fn compared(seen: &ComparedPath) -> String {
    let mut text = String::new();
    match &seen.stored {
        None if seen.passed_for.is_empty() => text += "stored: nothing\n",
        None => text += &format!("stored: nothing for this caller: passed on for {}\n", seen.passed_for.join(", ")),
        Some(stored) => {
            let bound = stored.bound_s.map_or("none".to_owned(), |bound| format!("{bound} s"));
            let _ = writeln!(
                text,
                "stored: {}, by {}, age {} s, bound {bound}, now {}{}",
                content(&stored.content),
                stored.answered_by,
                stored.age_s,
                stored.now,
                stored.holds_s.map(|left| format!(", holds {left} s")).unwrap_or_default()
            );
            stored.says.iter().for_each(|line| text += &format!("  {line}\n"));
        }
    }
    for region in &seen.regions {
        match &region.content {
            None => text += &format!("region {}: {}\n", region.region, region.says),
            Some(says) => {
                let age = region.age.as_ref().map(|age| format!(", Age {age}")).unwrap_or_default();
                text += &format!("region {}: {}{age}\n  {}\n", region.region, content(says), region.says);
            }
        }
        if !region.differs_at.is_empty() {
            text += &format!("  differs at {}\n", region.differs_at.join(", "));
        }
    }
    seen.says.iter().for_each(|line| text += &format!("{line}\n"));
    text
}

fn content(content: &ContentSeen) -> String {
    let versions = content.versions.iter();
    let versions: Vec<String> =
        versions.map(|version| if *version == 0 { "none".to_owned() } else { version.to_string() }).collect();
    let version =
        if versions.is_empty() { "no version".to_owned() } else { format!("version {}", versions.join(" and ")) };
    let etag = content.etag.as_ref().map(|etag| format!(", ETag {etag}")).unwrap_or_default();
    format!(
        "{}, {version}, {} bytes, digest {}{etag}",
        content.status,
        grouped(content.bytes),
        &content.digest[..12.min(content.digest.len())]
    )
}

fn record(record: &RecordSeen) -> String {
    let mut text =
        format!("record {}:{} (hashed), generation {}\n", record.record_type, record.key_hash, record.generation);
    for line in record.says.iter().chain(&record.commands) {
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn entry(entry: &EntrySeen) -> String {
    let query = if entry.query { "?.." } else { "" };
    let versions: Vec<String> = entry
        .versions
        .iter()
        .map(|version| version.map_or("none".to_owned(), |version| version.to_string()))
        .collect();
    let mut text = format!("entry {}{query}: {}, {}", entry.path, entry.status, entry.standing);
    if entry.now != entry.standing {
        let _ = write!(text, ", now {}", entry.now);
    }
    if !versions.is_empty() {
        let _ = write!(text, ", version {}", versions.join(" and "));
    }
    let _ = write!(text, ", by {}, asked for {:.1} s ago", entry.answered_by, entry.asked_ms_ago as f64 / 1e3);
    if let Some(left) = entry.holds_s {
        let _ = write!(text, ", holds {left} s");
    }
    text += "\n";
    for line in &entry.says {
        let _ = writeln!(text, "  {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_for_reading() {
        for (number, shown) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), shown);
        }
        let reported = purged(&Purged { purged: 12_345, left: 1 });
        assert!(reported.starts_with("12,345 entries purged, 1 left"), "{reported}");
        assert!(purged(&Purged { purged: 1, left: 0 }).starts_with("1 entry purged"));
    }
}
