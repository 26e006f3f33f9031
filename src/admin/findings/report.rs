//! Report of `nearside doctor`: a line for everything that was checked, also where all is well and
//! where nothing was seen.

use serde::Serialize;

use super::unrouted::{self, UnroutedStatus};
use super::{Check, Evidence, Finding, findings, list};
use crate::model::ids::RegionId;
use crate::protocol::wiring::TypeWiring;
use crate::sidecar::announcements::subscription::Stage;
use crate::telemetry::observed::{Recent, RegionNotes, RouteNotes};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LineState {
    Well,
    Wrong,
    /// Nothing came that would show it.
    Unchecked,
    /// Not wrong as such, and worth a look.
    Note,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportLine {
    pub state: LineState,
    /// The region, route or record type.
    pub subject: String,
    /// Word of its [`Check`].
    pub check: &'static str,
    /// Check as a sentence that is true when all is well.
    pub title: &'static str,
    pub saw: String,
    /// Empty when all is well.
    pub advice: String,
}

pub fn report(evidence: &Evidence<'_>) -> Vec<ReportLine> {
    let found = findings(evidence);
    let mut lines = Lines { all: found.iter().map(wrong).collect(), found: &found };
    for (id, notes) in (0u8..).map(RegionId).zip(&evidence.notes.regions) {
        let name = evidence.name(id).to_owned();
        of_region(notes, &name, &mut lines);
        if evidence.config.service.routes.iter().any(|route| route.compression.is_some()) {
            let plain = (!notes.undecoded.is_empty()).then(|| format!("all of the last {}", notes.undecoded.len()));
            lines.look(Check::Coding, &name, plain, WITH_A_PATH);
        }
        if evidence.topics().contains(id) {
            of_topic(evidence, id, notes, &name, &mut lines);
        }
    }
    for (name, wired) in evidence.types {
        of_type(evidence, name, *wired, &mut lines);
    }
    for route in &evidence.config.service.routes {
        of_route(evidence.notes.routes.get(&route.path.text), &route.path.text, &mut lines);
    }
    let unrouted = unrouted::types(evidence).into_iter().filter(|it| {
        !found.iter().any(|finding| finding.check == Check::TypeUnrouted && finding.subject == it.record_type)
    });
    lines.all.extend(unrouted.map(noted));
    lines.all
}

/// The report so far, which begins with what is wrong.
struct Lines<'f> {
    found: &'f [Finding],
    all: Vec<ReportLine>,
}

impl Lines<'_> {
    /// Adds a line for what no finding is about: well if something was `seen` of it; otherwise `how`
    /// says how to see it.
    fn look(&mut self, check: Check, subject: &str, seen: Option<String>, how: &str) {
        if self.found.iter().any(|finding| finding.check == check && finding.subject == subject) {
            return;
        }
        let (state, saw, advice) = match seen {
            Some(saw) => (LineState::Well, saw, String::new()),
            None => (LineState::Unchecked, "nothing was seen of it".to_owned(), how.to_owned()),
        };
        self.all.push(ReportLine {
            state,
            subject: subject.to_owned(),
            check: check.into_str(),
            title: check.title(),
            saw,
            advice,
        });
    }
}

fn wrong(finding: &Finding) -> ReportLine {
    let Finding { check, subject, saw, advice } = finding.clone();
    ReportLine { state: LineState::Wrong, subject, check: check.into_str(), title: check.title(), saw, advice }
}

fn noted(unrouted: UnroutedStatus) -> ReportLine {
    let UnroutedStatus { record_type, announced, regions, last_s: _, advice } = unrouted;
    ReportLine {
        state: LineState::Note,
        subject: record_type,
        check: Check::TypeUnrouted.into_str(),
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

/// Number of answers that were no, if there were any.
fn counted(recent: Recent) -> Option<u32> {
    (!recent.is_empty()).then(|| recent.len() - recent.yes_count())
}

fn of_region(notes: &RegionNotes, name: &str, lines: &mut Lines<'_>) {
    let answered = counted(notes.failed).map(|well| format!("it answered {well} of {} requests", notes.failed.len()));
    lines.look(Check::RegionFails, name, answered, WITH_A_PATH);
    let alike = counted(notes.odd).map(|well| format!("{well} of {} times", notes.odd.len()));
    lines.look(Check::RegionOdd, name, alike, WITH_A_PATH);
    let compared = (!notes.odd.is_empty()).then(|| "no reply says otherwise".to_owned());
    lines.look(Check::RegionAhead, name, compared, WITH_A_PATH);
    let clock = notes.skews_ms.iter().min_by_key(|skew| skew.abs());
    let clock = clock.map(|skew| format!("its Date is off by {:.1} s at most", skew.unsigned_abs() as f64 / 1e3));
    lines.look(Check::Clock, name, clock, WITH_A_PATH);
}

fn of_topic(evidence: &Evidence<'_>, id: RegionId, notes: &RegionNotes, name: &str, lines: &mut Lines<'_>) {
    let subscription = evidence.subscriptions.iter().find(|status| status.region == id);
    let made = subscription.filter(|status| status.stage == Stage::Subscribed);
    let made = made.map(|status| match &status.queue {
        Some(queue) => format!("subscribed to {} through {queue}", status.topic),
        None => format!("subscribed to {}", status.topic),
    });
    lines.look(
        Check::Access,
        name,
        made,
        "look at the way to SNS and SQS, or let it listen for longer, if it only takes its time: --listen 60s",
    );
    let beats = (notes.topic.heartbeats > 0).then(|| format!("{} came", notes.topic.heartbeats));
    lines.look(
        Check::HeartbeatsMissing,
        name,
        beats,
        "let it listen for longer, since they come every 5 s: --listen 15s",
    );
    let through = (notes.topic.through.yes_count() > 0).then(|| "they do".to_owned());
    lines.look(
        Check::ThroughMissing,
        name,
        through,
        "let a publisher of the region send heartbeats of its own (docs/publishing.md): those of `nearside heartbeat` \
         cannot say it",
    );
    let read =
        (!notes.topic.undecodable.is_empty()).then(|| format!("all of the last {}", notes.topic.undecodable.len()));
    lines.look(Check::Undecodable, name, read, WITH_A_CHANGE);
    let numbered = (notes.topic.numbered.yes_count() > 0).then(|| "they are".to_owned());
    lines.look(Check::NumbersMissing, name, numbered, WITH_A_CHANGE);
    let versioned = (notes.topic.versioned.yes_count() > 0).then(|| "they do".to_owned());
    lines.look(Check::VersionsUnannounced, name, versioned, WITH_A_CHANGE);
    // Where all regions announce the same, a swapped topic shows only when one of them lags.
    let shown = counted(notes.unshown).map(|shown| {
        let of = notes.unshown.len();
        format!("nothing contradicts it: {shown} of {of} replies after an announcement showed what was announced")
    });
    lines.look(Check::TopicSwapped, name, shown, "change the record of --path while it listens");
}

fn of_type(evidence: &Evidence<'_>, name: &str, wired: TypeWiring, lines: &mut Lines<'_>) {
    let announcers =
        (!wired.announcers.is_empty()).then(|| format!("announced by {}", evidence.names(wired.announcers.iter())));
    lines.look(Check::TypeUnrouted, name, announcers, WITH_A_CHANGE);
    let met = (!wired.met.is_empty())
        .then(|| format!("{} announced a record that was read", evidence.names(wired.met.iter())));
    lines.look(Check::KeysUnmatched, name, met, "change the record of --path while it listens");
}

fn of_route(notes: Option<&RouteNotes>, path: &str, lines: &mut Lines<'_>) {
    let asked = notes.filter(|notes| notes.asked > 0);
    lines.look(Check::RouteUnmatched, path, asked.map(|notes| format!("{} requests did", notes.asked)), WITH_A_PATH);
    let good = asked.filter(|notes| !notes.no_store.is_empty());
    lines.look(Check::Absent, path, good.map(|_| "they do".to_owned()), WITH_A_PATH);
    lines.look(Check::Refused, path, good.map(|_| "they do".to_owned()), WITH_A_PATH);
    lines.look(
        Check::VersionsMissing,
        path,
        good.filter(|it| it.versioned.yes_count() > 0).map(|_| "they do".to_owned()),
        WITH_A_PATH,
    );
    lines.look(
        Check::VersionsBack,
        path,
        good.filter(|it| it.versioned.yes_count() > 0).map(|_| "none went back".to_owned()),
        WITH_A_PATH,
    );
    lines.look(
        Check::SameVersionDiffers,
        path,
        good.filter(|it| it.versioned.yes_count() > 0).map(|_| "nothing contradicts it".to_owned()),
        WITH_A_PATH,
    );
    lines.look(Check::NoStore, path, good.map(|_| "they may".to_owned()), WITH_A_PATH);
    let stated = good.filter(|notes| !notes.unstated.is_empty()).map(|_| "they do".to_owned());
    if stated.is_some() {
        lines.look(Check::GrantsUnstated, path, stated, WITH_A_PATH);
    }
    let vary = good.map(|notes| {
        if notes.vary.is_empty() {
            "it is, as far as these requests tell".to_owned()
        } else {
            list(notes.vary.keys().map(String::as_str))
        }
    });
    lines.look(Check::Vary, path, vary, WITH_A_PATH);
}
