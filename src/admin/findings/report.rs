//! What `nearside doctor` prints: a line for everything that was checked, also where all is well
//! and where nothing was seen.

use serde::Serialize;

use super::unrouted::{self, UnroutedStatus};
use super::{Check, Evidence, Finding, findings, list};
use crate::model::ids::RegionId;
use crate::protocol::wiring::Wired;
use crate::sidecar::announcements::subscription::Stage;
use crate::telemetry::observed::{Recent, RegionNotes, RouteNotes};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LineState {
    Well,
    Wrong,
    /// Nothing was seen that would tell.
    Unseen,
    /// Not wrong as such, and worth a look.
    Note,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportLine {
    pub state: LineState,
    /// The region, route or record type.
    pub subject: String,
    /// [`Check::word`]
    pub check: &'static str,
    /// What was checked, as a sentence that is true when all is well.
    pub title: &'static str,
    pub saw: String,
    /// Empty when all is well.
    pub advice: String,
}

pub fn report(evidence: &Evidence<'_>) -> Vec<ReportLine> {
    let found = findings(evidence);
    let mut lines: Vec<ReportLine> = found.iter().map(wrong).collect();
    let mut look = |check: Check, subject: &str, seen: Option<String>, how: &str| {
        if found.iter().any(|finding| finding.check == check && finding.subject == subject) {
            return;
        }
        let (state, saw, advice) = match seen {
            Some(saw) => (LineState::Well, saw, String::new()),
            None => (LineState::Unseen, "nothing was seen of it".to_owned(), how.to_owned()),
        };
        lines.push(ReportLine {
            state,
            subject: subject.to_owned(),
            check: check.word(),
            title: check.title(),
            saw,
            advice,
        });
    };
    for (id, notes) in (0u8..).map(RegionId).zip(&evidence.notes.regions) {
        let name = evidence.name(id).to_owned();
        of_region(notes, &name, &mut look);
        if evidence.config.service.routes.iter().any(|route| route.compression.is_some()) {
            let plain = (!notes.undecoded.is_empty()).then(|| format!("all of the last {}", notes.undecoded.len()));
            look(Check::Coding, &name, plain, WITH_A_PATH);
        }
        if evidence.topics().contains(id) {
            of_topic(evidence, id, notes, &name, &mut look);
        }
    }
    for (name, wired) in evidence.types {
        of_type(evidence, name, *wired, &mut look);
    }
    for route in &evidence.config.service.routes {
        of_route(evidence.notes.routes.get(&route.path.text), &route.path.text, &mut look);
    }
    let is_found =
        |name: &str| found.iter().any(|finding| finding.check == Check::TypeUnrouted && finding.subject == name);
    let unrouted = unrouted::types(evidence).into_iter().filter(|it| !is_found(&it.record_type));
    lines.extend(unrouted.map(noted));
    lines
}

fn wrong(finding: &Finding) -> ReportLine {
    let Finding { check, subject, saw, advice } = finding.clone();
    ReportLine { state: LineState::Wrong, subject, check: check.word(), title: check.title(), saw, advice }
}

fn noted(unrouted: UnroutedStatus) -> ReportLine {
    let UnroutedStatus { record_type, announced, regions, last_s: _, advice } = unrouted;
    ReportLine {
        state: LineState::Note,
        subject: record_type,
        check: Check::TypeUnrouted.word(),
        title: Check::TypeUnrouted.title(),
        saw: format!(
            "{} announced it {announced} times, and no route names it: its changes reach nothing that is stored",
            list(regions.iter().map(String::as_str))
        ),
        advice,
    }
}

const WITH_A_PATH: &str = "give a path that a route names and the service answers: --path /v1/...";
const WITH_A_CHANGE: &str = "change a record while it listens, or let it listen for longer: --listen 60s";

/// How many answers were no, if there were any.
fn counted(recent: Recent) -> Option<u32> {
    (!recent.is_empty()).then(|| recent.len() - recent.yes())
}

fn of_region(notes: &RegionNotes, name: &str, look: &mut impl FnMut(Check, &str, Option<String>, &str)) {
    let answered = counted(notes.failed).map(|well| format!("it answered {well} of {} requests", notes.failed.len()));
    look(Check::RegionFails, name, answered, WITH_A_PATH);
    let alike = counted(notes.odd).map(|well| format!("{well} of {} times", notes.odd.len()));
    look(Check::RegionOdd, name, alike, WITH_A_PATH);
    let compared = (!notes.odd.is_empty()).then(|| "no reply says otherwise".to_owned());
    look(Check::RegionAhead, name, compared, WITH_A_PATH);
    let clock = notes.skews_ms.iter().min_by_key(|skew| skew.abs());
    let clock = clock.map(|skew| format!("its Date is off by {:.1} s at most", skew.unsigned_abs() as f64 / 1e3));
    look(Check::Clock, name, clock, WITH_A_PATH);
}

fn of_topic(
    evidence: &Evidence<'_>,
    id: RegionId,
    notes: &RegionNotes,
    name: &str,
    look: &mut impl FnMut(Check, &str, Option<String>, &str),
) {
    let subscription = evidence.subscriptions.iter().find(|status| status.region == id);
    let made = subscription.filter(|status| status.stage == Stage::Subscribed);
    let made = made.map(|status| match &status.queue {
        Some(queue) => format!("subscribed to {} through {queue}", status.topic),
        None => format!("subscribed to {}", status.topic),
    });
    look(
        Check::Access,
        name,
        made,
        "look at the way to SNS and SQS, or let it listen for longer, if it only takes its time: --listen 60s",
    );
    let beats = (notes.heartbeats > 0).then(|| format!("{} came", notes.heartbeats));
    look(Check::HeartbeatsMissing, name, beats, "let it listen for longer, since they come every 5 s: --listen 15s");
    let through = (notes.through.yes() > 0).then(|| "they do".to_owned());
    look(
        Check::ThroughMissing,
        name,
        through,
        "let a publisher of the region send heartbeats of its own (docs/publishing.md): those of `nearside heartbeat` \
         cannot say it",
    );
    let read = (!notes.undecodable.is_empty()).then(|| format!("all of the last {}", notes.undecodable.len()));
    look(Check::Undecodable, name, read, WITH_A_CHANGE);
    let numbered = (notes.numbered.yes() > 0).then(|| "they are".to_owned());
    look(Check::NumbersMissing, name, numbered, WITH_A_CHANGE);
    let versioned = (notes.versioned.yes() > 0).then(|| "they do".to_owned());
    look(Check::VersionsUnannounced, name, versioned, WITH_A_CHANGE);
    // Where all regions announce the same, a swapped topic shows only when one of them lags.
    let shown = counted(notes.unshown).map(|shown| {
        let of = notes.unshown.len();
        format!("nothing contradicts it: {shown} of {of} replies after an announcement showed what was announced")
    });
    look(Check::TopicSwapped, name, shown, "change the record of --path while it listens");
}

fn of_type(
    evidence: &Evidence<'_>,
    name: &str,
    wired: Wired,
    look: &mut impl FnMut(Check, &str, Option<String>, &str),
) {
    let heard = (!wired.heard.is_empty()).then(|| format!("announced by {}", evidence.names(wired.heard.iter())));
    look(Check::TypeUnrouted, name, heard, WITH_A_CHANGE);
    let met = (!wired.met.is_empty())
        .then(|| format!("{} announced a record that was read", evidence.names(wired.met.iter())));
    look(Check::KeysUnmatched, name, met, "change the record of --path while it listens");
}

fn of_route(notes: Option<&RouteNotes>, path: &str, look: &mut impl FnMut(Check, &str, Option<String>, &str)) {
    let asked = notes.filter(|notes| notes.asked > 0);
    look(Check::RouteUnmatched, path, asked.map(|notes| format!("{} requests did", notes.asked)), WITH_A_PATH);
    let good = asked.filter(|notes| !notes.no_store.is_empty());
    look(Check::Absent, path, good.map(|_| "they do".to_owned()), WITH_A_PATH);
    look(Check::Refused, path, good.map(|_| "they do".to_owned()), WITH_A_PATH);
    look(
        Check::VersionsMissing,
        path,
        good.filter(|it| it.versioned.yes() > 0).map(|_| "they do".to_owned()),
        WITH_A_PATH,
    );
    look(
        Check::VersionsBack,
        path,
        good.filter(|it| it.versioned.yes() > 0).map(|_| "none went back".to_owned()),
        WITH_A_PATH,
    );
    look(
        Check::SameVersionDiffers,
        path,
        good.filter(|it| it.versioned.yes() > 0).map(|_| "nothing contradicts it".to_owned()),
        WITH_A_PATH,
    );
    look(Check::NoStore, path, good.map(|_| "they may".to_owned()), WITH_A_PATH);
    let vary = good.map(|notes| match notes.vary.is_empty() {
        true => "it is, as far as these requests tell".to_owned(),
        false => list(notes.vary.keys().map(String::as_str)),
    });
    look(Check::Vary, path, vary, WITH_A_PATH);
}
