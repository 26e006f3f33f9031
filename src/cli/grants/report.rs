//! `nearside grants report`: what services refused, or would refuse once they enforce, and whose keys
//! are old; from their `/status`.

use std::time::Duration;

use serde::Deserialize;
use url::Url;

use super::super::error::CommandError;
use crate::http::client::outgoing;

/// Age of an issuer's keys from which they are named; the alert's.
const OLD: f64 = 3_600.0;
/// Size of a status that is read, in bytes.
const STATUS_BYTES: usize = 4 << 20;

/// `access` of a service's part of `/status`, as far as it is reported.
#[derive(Debug, Deserialize)]
struct AccessStatus {
    enforces: bool,
    grants: Option<u64>,
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

/// Lines about the service at this admin address.
pub(super) async fn of(
    admin: &Url,
    authorities: Option<&[reqwest::Certificate]>,
    within: Duration,
) -> Result<Vec<String>, CommandError> {
    let url = admin.join("/status").map_err(|error| CommandError::Usage(format!("{admin}: {error}")))?;
    let builder = outgoing::builder().timeout(within);
    let builder = match authorities {
        Some(authorities) => builder.tls_certs_only(authorities.iter().cloned()),
        None => builder,
    };
    let client = builder.build().map_err(CommandError::failed)?;
    let mut answer = client.get(url).send().await.map_err(CommandError::failed)?;
    let status = answer.status();
    if status != reqwest::StatusCode::OK {
        return Err(CommandError::Failed(format!("{admin}: /status answered {status}")));
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(CommandError::failed)? {
        body.extend_from_slice(&chunk);
        if body.len() > STATUS_BYTES {
            return Err(CommandError::Failed(format!("{admin}: /status has more than {STATUS_BYTES} bytes")));
        }
    }
    let read: serde_json::Value = serde_json::from_slice(&body).map_err(CommandError::failed)?;
    let service = read.get("service").and_then(serde_json::Value::as_str).unwrap_or("a service").to_owned();
    let parts = read.as_object().into_iter().flat_map(|members| members.values());
    let access = parts.filter_map(|part| part.get("access")).find(|access| !access.is_null());
    let Some(access) = access else {
        return Ok(vec![format!("{service}: callers are not checked (access.mode = \"off\")")]);
    };
    let access = AccessStatus::deserialize(access).map_err(CommandError::failed)?;
    Ok(lines(&service, &access))
}

fn lines(service: &str, access: &AccessStatus) -> Vec<String> {
    let mode = if access.enforces { "enforces" } else { "observes" };
    let version = access.grants.map_or_else(|| "no grants yet".to_owned(), |version| format!("version {version}"));
    let mut lines = vec![format!("{service}: {mode} {version}")];
    let refused = if access.enforces { "refused" } else { "would refuse" };
    for counted in &access.refused {
        let Refused { consumer, view, outcome, requests } = counted;
        lines.push(format!("  {refused} {requests} requests of {consumer} for {view}: {outcome}"));
    }
    for issuer in &access.issuers {
        let is_old = issuer.keys_age_s.is_some_and(|age| age > OLD);
        if is_old || !issuer.known {
            let age = issuer.keys_age_s.map_or_else(
                || "never came".to_owned(),
                |age| format!("are {} old", humantime::format_duration(Duration::from_secs(age as u64))),
            );
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
            "enforces": false, "grants": 7,
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
            "catalogue: observes version 7",
            "  would refuse 3 requests of jira for limits: not-granted",
            "  the keys of https://old are 1h 1s old: down",
            "  the keys of https://none never came: nothing failed lately",
            "  access.deny_file has 2 entries",
        ];
        assert_eq!(lines, expected);
    }
}
