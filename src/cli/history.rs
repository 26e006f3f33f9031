//! `nearside history`: the versions of a record, as the catalogue has them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;

use super::caller::{Caller, CatalogueReach};
use super::catalogue_client::CatalogueClient;
use super::ending::{block_on, print};
use super::error::CommandError;

mod difference;

use difference::differences;
pub(super) use difference::printable;

/// `nearside history`
#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// Type of the record
    #[arg(value_name = "TYPE")]
    pub record_type: String,
    /// Key of the record
    #[arg(value_name = "KEY")]
    pub record_key: String,
    /// Show what each version changed, which is content of the record
    #[arg(long)]
    pub diff: bool,
    /// Leave out what is older: a duration until now, or a time with its zone
    #[arg(long, value_name = "TIME", value_parser = |text: &str| since(text, SystemTime::now()))]
    pub since: Option<SystemTime>,
    #[command(flatten)]
    pub reach: CatalogueReach,
}

/// A page of versions, as the catalogue writes it.
#[derive(Deserialize)]
struct Page {
    versions: Vec<Version>,
    next: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: u64,
    deleted: bool,
    #[serde(default)]
    unreadable: bool,
    body: Option<Value>,
    by: Option<String>,
    request_id: Option<String>,
    reason: Option<String>,
    at: Option<u64>,
}

/// Content of a record before a version.
enum Before {
    /// It is older than what is shown, or damaged.
    NotShown,
    Absent,
    Content(Value),
}

/// Reads `2h` or `2026-11-29T10:00:00Z`.
pub(super) fn since(text: &str, now: SystemTime) -> Result<SystemTime, String> {
    if let Ok(time) = humantime::parse_rfc3339(text) {
        return Ok(time);
    }
    let ago = humantime::parse_duration(text).map_err(|_| "write 2h, or 2026-11-29T10:00:00Z".to_owned())?;
    now.checked_sub(ago).ok_or_else(|| "that is before there was a calendar".to_owned())
}

pub(super) fn run(args: HistoryArgs) -> Result<(), CommandError> {
    let names = [&args.record_type, &args.record_key];
    if let Some(name) = names.iter().find(|name| [".", ".."].contains(&name.as_str())) {
        return Err(CommandError::Usage(format!("`{name}` names nothing that has an address of HTTP")));
    }
    let [record_type, key] = names.map(|name| utf8_percent_encode(name, NON_ALPHANUMERIC));
    let path = format!("/v1/records/{record_type}/{key}/history");
    let caller = Caller::of(&args.reach)?;
    let client = CatalogueClient::new(args.reach.catalogue, caller, "a writer's");
    let since = args.since.map_or(0, |since| since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis());
    // Who asks for what is new learns of a record that never was too.
    let first = block_on(page(&client, &path, if since > 0 { "limit=1" } else { "" }))?;
    let mut before = if since > 0 { Before::NotShown } else { Before::Absent };
    // A version is never before its time, so none is left out.
    let mut page_shown = if since > 0 { block_on(page(&client, &path, &format!("after={since}")))? } else { first };
    let mut shown = 0;
    loop {
        for version in page_shown.versions {
            if u128::from(version.at()) >= since {
                print(&version.line(&before))?;
                shown += 1;
                if args.diff {
                    version.changes(&before).iter().try_for_each(|line| print(&format!("  {line}")))?;
                }
            }
            before = version.into_before();
        }
        match page_shown.next {
            Some(next) => page_shown = block_on(page(&client, &path, &format!("after={next}")))?,
            None if shown == 0 => return print("no version since then"),
            None => return Ok(()),
        }
    }
}

async fn page(client: &CatalogueClient, path: &str, query: &str) -> Result<Page, CommandError> {
    let answer = client.sent(client.request(Method::GET, path, query)?).await?;
    let body = client.accepted(answer).await?.bytes().await.map_err(CommandError::failed)?;
    serde_json::from_slice(&body).map_err(CommandError::failed)
}

impl Version {
    /// Milliseconds of the change.
    fn at(&self) -> u64 {
        self.at.unwrap_or(self.version)
    }

    fn line(&self, before: &Before) -> String {
        let at = humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(self.at()));
        let what = match (self.unreadable, self.deleted, before) {
            (true, ..) => "unreadable",
            (_, true, _) => "deleted",
            (.., Before::Absent) => "created",
            _ => "written",
        };
        let by = self.by.as_deref().unwrap_or("somebody");
        let mut line = format!("{}  {at}  {what} by {}", self.version, printable(by));
        for (word, text) in [("request", &self.request_id), ("because", &self.reason)] {
            line.extend(text.iter().map(|text| format!("  {word} {}", printable(text))));
        }
        line
    }

    fn changes(&self, before: &Before) -> Vec<String> {
        match (before, &self.body) {
            _ if self.unreadable => Vec::new(),
            (Before::NotShown, _) => vec!["what it was before is not shown here".to_owned()],
            (Before::Absent, None) => Vec::new(),
            (Before::Absent, Some(is)) => differences(&Value::Null, is),
            (Before::Content(was), None) => differences(was, &Value::Null),
            (Before::Content(was), Some(is)) => {
                let lines = differences(was, is);
                if lines.is_empty() {
                    return vec!["no value differs, up to the 64 bits of numbers".to_owned()];
                }
                lines
            }
        }
    }

    fn into_before(self) -> Before {
        match self.body {
            _ if self.unreadable => Before::NotShown,
            Some(body) => Before::Content(body),
            None => Before::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn version(of: Value) -> Version {
        serde_json::from_value(of).unwrap()
    }

    #[test]
    fn line_says_who_when_and_why() {
        let known = version(json!({
            "version": 1_800_000_000_005_u64, "at": 1_800_000_000_000_u64, "deleted": true,
            "by": "consumer/jira", "requestId": "r-1", "reason": "case 7"
        }));
        assert_eq!(
            known.line(&Before::NotShown),
            "1800000000005  2027-01-15T08:00:00.000Z  deleted by consumer/jira  request r-1  because case 7"
        );
        let older = version(json!({"version": 1_800_000_000_000_u64, "deleted": false, "body": {}}));
        assert_eq!(older.line(&Before::Absent), "1800000000000  2027-01-15T08:00:00.000Z  created by somebody");
        assert!(older.line(&Before::NotShown).ends_with("written by somebody"));
        let forged = version(json!({"version": 7, "deleted": false, "reason": "a\n8  admin\u{9b}2J"}));
        assert!(forged.line(&Before::Absent).ends_with("because a\\u{a}8  admin\\u{9b}2J"));
    }

    #[test]
    fn damaged_version_hides_who_changed_what() {
        let [first, damaged, last] = [json!({"x": 1}), Value::Null, json!({"x": 2, "y": 1})].map(|body| {
            let unreadable = body.is_null();
            version(json!({"version": 7, "deleted": false, "unreadable": unreadable, "body": body}))
        });
        let before = first.into_before();
        assert!(damaged.line(&before).ends_with("unreadable by somebody") && damaged.changes(&before).is_empty());
        let before = damaged.into_before();
        assert_eq!(last.changes(&before), ["what it was before is not shown here"]);
    }

    #[test]
    fn content_that_reads_alike_is_said() {
        let huge = version(json!({"version": 7, "deleted": false, "body": {"id": 1}}));
        assert_eq!(
            huge.changes(&Before::Content(json!({"id": 1}))),
            ["no value differs, up to the 64 bits of numbers"]
        );
    }

    #[test]
    fn since_is_a_duration_or_a_time() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        assert_eq!(since("2027-01-15T08:00:00Z", UNIX_EPOCH), Ok(now));
        assert_eq!(since("2h", now), Ok(UNIX_EPOCH + Duration::from_secs(1_799_992_800)));
        for text in ["yesterday", "2027-01-15T08:00:00", "", "2 light years"] {
            assert!(since(text, now).is_err(), "{text}");
        }
    }
}
