//! `nearside grants report`: what services refused, or would refuse once they enforce, and whose keys
//! are old; from their `/status`.

use std::time::Duration;

use http::Method;
use serde::Deserialize;
use url::Url;

use super::super::error::CommandError;
use crate::cli::caller::{Caller, unanswered};

/// Age of an issuer's keys from which they are named; the alert's.
const OLD: f64 = 3_600.0;
/// Size of a status that is read, in bytes.
const STATUS_BYTES: usize = 4 << 20;

/// `access` of a service's part of `/status`, as far as it is reported.
#[derive(Debug, Deserialize)]
struct AccessStatus {
    enforces: bool,
    grants: Option<u64>,
    grants_age_s: Option<f64>,
    #[serde(default)]
    refused: Vec<Refused>,
    #[serde(default)]
    issuers: Vec<IssuerStatus>,
    deny_file: Option<DenyStatus>,
}

#[derive(Debug, Deserialize)]
struct Refused {
    consumer: String,
    view: String,
    outcome: String,
    requests: u64,
}

#[derive(Debug, Deserialize)]
struct IssuerStatus {
    iss: String,
    known: bool,
    keys_age_s: Option<f64>,
    failure: Option<String>,
}

#[derive(Debug, Deserialize)]
struct DenyStatus {
    entries: u64,
    failure: Option<String>,
}

/// A service's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) lines: Vec<String>,
    service: String,
    /// False for a service that only operators ask: it is compared with none.
    has_callers: bool,
    /// Its mode, and the version of the grants that it goes by.
    stand: Option<(&'static str, Option<u64>)>,
}

/// A line for each service that does not do as the first one that checks its callers.
pub(super) fn differing(reports: &[Report]) -> Vec<String> {
    let Some(first) = reports.iter().find(|report| report.stand.is_some()) else { return Vec::new() };
    let others = reports.iter().filter(|report| report.has_callers && report.stand != first.stand);
    others
        .map(|other| {
            format!("{} differs from {}: {}, not {}", other.service, first.service, stand(other), stand(first))
        })
        .collect()
}

fn stand(report: &Report) -> String {
    match report.stand {
        None => "checks nobody".to_owned(),
        Some((mode, None)) => format!("{mode} no grants yet"),
        Some((mode, Some(version))) => format!("{mode} version {version}"),
    }
}

/// Report of the service at this admin address.
pub(super) async fn of(admin: &Url, caller: &Caller) -> Result<Report, CommandError> {
    let url = admin.join("/status").map_err(|error| CommandError::Usage(format!("{admin}: {error}")))?;
    let asked = caller.request(Method::GET, url)?.send().await;
    let mut answer =
        asked.map_err(|error| CommandError::Failed(format!("{admin} does not answer: {}", unanswered(&error))))?;
    let status = answer.status();
    if status != reqwest::StatusCode::OK {
        let advice = match status.as_u16() {
            401 | 403 => {
                "; send a token for access.operate_audience with --token-file, with the grant `operate`, and name the \
                 service's admin port"
            }
            404 => "; is this the admin port? Callers' ports have no pages",
            _ => "",
        };
        return Err(CommandError::Failed(format!("{admin}: /status answered {status}{advice}")));
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(CommandError::failed)? {
        body.extend_from_slice(&chunk);
        if body.len() > STATUS_BYTES {
            return Err(CommandError::Failed(format!("{admin}: /status has more than {STATUS_BYTES} bytes")));
        }
    }
    let read = serde_json::from_slice(&body).map_err(|_| CommandError::Failed(not_admin(admin)))?;
    reported(admin, &read)
}

fn not_admin(admin: &Url) -> String {
    format!("{admin}: /status is no service's; is this the admin port?")
}

/// Report by a service's `/status`.
fn reported(admin: &Url, status: &serde_json::Value) -> Result<Report, CommandError> {
    // A sidecar names the transport of its announcements.
    if status.get("transport").is_some() {
        let text = format!("{admin}: this is a sidecar; name the admin ports of the catalogue and of the nodes");
        return Err(CommandError::Failed(text));
    }
    let service = status.get("service").and_then(serde_json::Value::as_str);
    let service = service.ok_or_else(|| CommandError::Failed(not_admin(admin)))?.to_owned();
    let part = status.as_object().into_iter().flat_map(|members| members.values()).find_map(|it| it.get("access"));
    let (lines, has_callers, stand) = match part {
        None => (vec![format!("{service}: has no callers")], false, None),
        Some(serde_json::Value::Null) => {
            (vec![format!("{service}: callers are not checked (access.mode = \"off\")")], true, None)
        }
        Some(access) => {
            let access = AccessStatus::deserialize(access).map_err(CommandError::failed)?;
            (lines(&service, &access), true, Some((mode(&access), access.grants)))
        }
    };
    Ok(Report { lines, service, has_callers, stand })
}

const fn mode(access: &AccessStatus) -> &'static str {
    if access.enforces { "enforces" } else { "observes" }
}

/// Whole seconds, in words.
fn shown(seconds: f64) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(seconds as u64))
}

fn lines(service: &str, access: &AccessStatus) -> Vec<String> {
    let version = access.grants.map_or_else(|| "no grants yet".to_owned(), |version| format!("version {version}"));
    let age = access.grants_age_s.map_or_else(String::new, |age| format!(", confirmed {} ago", shown(age)));
    let mut lines = vec![format!("{service}: {} {version}{age}", mode(access))];
    let refused = if access.enforces { "refused" } else { "would refuse" };
    for counted in &access.refused {
        let Refused { consumer, view, outcome, requests } = counted;
        lines.push(format!("  {refused} {requests} requests of {consumer} for {view}: {outcome}"));
    }
    for issuer in &access.issuers {
        let is_old = issuer.keys_age_s.is_some_and(|age| age > OLD);
        if is_old || !issuer.known {
            let age =
                issuer.keys_age_s.map_or_else(|| "never came".to_owned(), |age| format!("are {} old", shown(age)));
            let why = issuer.failure.as_deref().unwrap_or("nothing failed lately");
            lines.push(format!("  the keys of {} {age}: {why}", issuer.iss));
        }
    }
    if let Some(DenyStatus { entries, failure }) = &access.deny_file {
        let failing =
            failure.as_deref().map_or_else(String::new, |failure| format!(", and the file is not in use: {failure}"));
        lines.push(format!("  access.deny_file has {entries} entries{failing}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_and_old_keys_are_listed() {
        let status = json!({
            "enforces": false, "grants": 7, "grants_age_s": 4.2,
            "refused": [{"consumer": "jira", "view": "limits", "outcome": "not-granted", "requests": 3}],
            "issuers": [
                {"iss": "https://young", "known": true, "fetched": true, "keys_age_s": 3_600.0, "failure": null},
                {"iss": "https://old", "known": true, "fetched": true, "keys_age_s": 3_601.0, "failure": "down"},
                {"iss": "https://none", "known": false, "fetched": true, "keys_age_s": null, "failure": null},
            ],
            "deny_file": {"entries": 2, "failure": null},
        });
        let lines = lines("catalogue", &AccessStatus::deserialize(&status).unwrap());
        let expected = [
            "catalogue: observes version 7, confirmed 4s ago",
            "  would refuse 3 requests of jira for limits: not-granted",
            "  the keys of https://old are 1h 1s old: down",
            "  the keys of https://none never came: nothing failed lately",
            "  access.deny_file has 2 entries",
        ];
        assert_eq!(lines, expected);
    }

    fn report(service: &str, stand: Option<(&'static str, Option<u64>)>) -> Report {
        Report { lines: Vec::new(), service: service.to_owned(), has_callers: true, stand }
    }

    #[test]
    fn each_port_says_what_it_is() {
        let admin = Url::parse("http://127.0.0.1:8743/").unwrap();
        let views =
            reported(&admin, &json!({"service": "views", "state": "serving", "views": {"behind_s": 1.0}})).unwrap();
        assert_eq!(views.lines, ["views: has no callers"]);
        let enforcing = report("region eu", Some(("enforces", Some(7))));
        assert_eq!(differing(&[enforcing, views]), Vec::<String>::new());
        let off = reported(&admin, &json!({"service": "catalogue", "catalogue": {"access": null}})).unwrap();
        assert_eq!(off.lines, ["catalogue: callers are not checked (access.mode = \"off\")"]);
        let sidecar = reported(&admin, &json!({"service": "context", "transport": "sqs"})).unwrap_err().to_string();
        assert!(sidecar.contains("this is a sidecar"), "{sidecar}");
        let other = reported(&admin, &json!({"types": []})).unwrap_err().to_string();
        assert!(other.contains("is this the admin port?"), "{other}");
    }

    #[test]
    fn services_that_differ_are_named() {
        let enforcing = report("region eu", Some(("enforces", Some(7))));
        let others = [report("region us", Some(("observes", Some(7)))), report("region ap", None)];
        assert_eq!(differing(&[enforcing.clone(), enforcing.clone()]), Vec::<String>::new());
        let expected = [
            "region us differs from region eu: observes version 7, not enforces version 7",
            "region ap differs from region eu: checks nobody, not enforces version 7",
        ];
        assert_eq!(differing(&[vec![enforcing], others.to_vec()].concat()), expected);
    }
}
