//! The end of a half: the histories are read, every view is read through every sidecar until it is
//! what its records say, and `nearside verify` compares everything.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use nearside::model::time::Clock;
use serde_json::{Value, json};

use super::Failure;
use super::asked::{Histories, Record, Version, limits_of};
use super::check::{Violation, is_current};
use super::process::Process;
use super::readers::{Sidecar, VIEWS};
use super::writers::{SHARDS, WriteLog, client};

/// Limit for everything to agree. G7 says a minute and the backlog; this catches what hangs, not a
/// busy machine, and the report says how long it took.
const AGREE: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Reads at once.
const AT_ONCE: usize = 8;
const VERIFY: Duration = Duration::from_secs(300);
/// Versions of a page, and pages of a record at most.
const PAGE: usize = 100;
const PAGES: usize = 10_000;
/// Most attempts at a read of the catalogue.
const ASKED: usize = 100;

/// The history of every record that writers may have touched, and what a read of it contradicts.
pub(crate) async fn histories(write_log: &WriteLog) -> Result<(Histories, Vec<Violation>), Failure> {
    let (client, base) = (client(Duration::from_secs(30))?, write_log.catalogue());
    let (mut histories, mut found) = (Histories::new(), Vec::new());
    for record in (0..write_log.tenants).map(Record::tenant).chain((0..SHARDS).map(Record::shard)) {
        let url = format!("http://{base}/v1/records/{}/{}", record.kind, record.key);
        let versions = history(&client, &url).await?;
        let answer = ask(&client, &url).await?;
        let version = answer.headers().get("x-record-version").and_then(|value| value.to_str().ok()?.parse().ok());
        let shown = match (answer.status().as_u16(), version) {
            (200, Some(version)) => {
                Some(Version { version, body: Some(serde_json::from_str(&answer.text().await?)?) })
            }
            (404, _) => None,
            (status, _) => return Err(format!("{record}: a read was answered {status}").into()),
        };
        found.extend(is_current(&record, shown.as_ref(), &versions));
        if !versions.is_empty() {
            histories.insert(record, versions);
        }
    }
    Ok((histories, found))
}

/// A catalogue that has just started, or whose store is slow, answers a little later.
async fn ask(client: &reqwest::Client, url: &str) -> Result<reqwest::Response, Failure> {
    let mut last = String::new();
    for _ in 0..ASKED {
        match client.get(url).send().await {
            Ok(answer) if !answer.status().is_server_error() => return Ok(answer),
            got => last = format!("{got:?}"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(format!("{url} was answered {last}").into())
}

async fn history(client: &reqwest::Client, url: &str) -> Result<Vec<Version>, Failure> {
    let (mut versions, mut after) = (Vec::new(), String::new());
    for _ in 0..PAGES {
        let answer = ask(client, &format!("{url}/history?limit={PAGE}{after}")).await?;
        match answer.status().as_u16() {
            404 => return Ok(versions),
            200 => {}
            status => return Err(format!("{url}: its history was answered {status}").into()),
        }
        let page: Value = serde_json::from_str(&answer.text().await?)?;
        for one in page["versions"].as_array().ok_or("a history lists versions")? {
            let version = one["version"].as_u64().ok_or("a version is a number")?;
            versions.push(Version { version, body: one.get("body").cloned() });
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(versions),
        }
    }
    Err(format!("{url}: its history has no end").into())
}

/// Expected content of a view.
struct Wanted {
    view: &'static str,
    record: Record,
    shows: Option<Value>,
}

fn wanted(tenants: u64, histories: &Histories) -> Vec<Wanted> {
    let mut all = Vec::new();
    for record in (0..tenants).map(Record::tenant) {
        let last = histories.get(&record).and_then(|versions| versions.last());
        let tenant = last.and_then(|last| last.body.as_ref());
        let profile = tenant.map(|tenant| json!({"name": tenant["name"], "plan": tenant["plan"]}));
        all.push(Wanted { view: VIEWS[0], record: record.clone(), shows: limits_of(tenant, histories) });
        all.push(Wanted { view: VIEWS[1], record, shows: profile });
    }
    all
}

/// Reads until every sidecar shows every view as it has to be.
pub(crate) async fn until_all_agree(
    sidecars: &[Arc<Sidecar>],
    tenants: u64,
    histories: &Histories,
) -> Result<(), Failure> {
    let (began, wanted) = (Clock::System.now(), wanted(tenants, histories));
    let mut left: Vec<_> = sidecars.iter().flat_map(|sidecar| wanted.iter().map(move |it| (sidecar, it))).collect();
    loop {
        let reads = left.into_iter().map(|(sidecar, it)| async move {
            match sidecar.get(it.view, &it.record.key).await {
                Ok(shown) if is_as_wanted(&shown.body, shown.status, it.shows.as_ref()) => None,
                got => Some(((sidecar, it), format!("{got:?}"))),
            }
        });
        let lacking: Vec<_> = stream::iter(reads).buffer_unordered(AT_ONCE).filter_map(async |it| it).collect().await;
        let took = Clock::System.now() - began;
        if lacking.is_empty() {
            return Ok(());
        }
        if took > AGREE {
            let mut reported = format!("{} views differ after {took:?}:", lacking.len());
            for ((sidecar, it), got) in lacking.iter().take(5) {
                let Wanted { view, record, shows } = it;
                let _ =
                    write!(reported, "\n  {view} of {record} through {}: wanted {shows:?}, got {got}", sidecar.name);
            }
            return Err(reported.into());
        }
        left = lacking.into_iter().map(|(it, _)| it).collect();
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn is_as_wanted(body: &str, status: u16, wanted: Option<&Value>) -> bool {
    match wanted {
        None => status == 404,
        Some(wanted) => status == 200 && serde_json::from_str::<Value>(body).is_ok_and(|body| body == *wanted),
    }
}

/// `nearside verify` with this file, which looks again after `wait`: what it said, or what differs.
pub(crate) async fn verify(half: &str, file: &str, wait: &str) -> Result<String, Failure> {
    let arguments = ["verify", "--config", file, "--show-keys", "--wait", wait, "--rate", "100000"];
    let mut verify = Process::new(half, "verify", "verify", arguments.map(str::to_owned).into());
    verify.start()?;
    let code = verify.until_ended(VERIFY).await;
    let said = verify.said();
    if code == Some(0) { Ok(said) } else { Err(format!("nearside verify ended with {code:?}:\n{said}").into()) }
}
