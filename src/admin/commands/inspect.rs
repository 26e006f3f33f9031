//! `inspect`: what is known about a record or a path, and why each entry counts as it does. It
//! shows no content and no credentials.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::journal::Journal;
use super::purge::walk;
use super::refused::CommandRefused;
use super::target::{Target, shown_by};
use crate::admin::limits;
use crate::cache::entry::{Entry, Validity};
use crate::cache::key::Key;
use crate::model::ids::{RecordId, RegionId, RegionSet, RouteId, Version};
use crate::model::time::Moment;
use crate::protocol::event::{Scope, SubscriptionState};
use crate::protocol::record::Snapshot;
use crate::protocol::region_views::RegionViews;
use crate::protocol::standing;
use crate::request::lookup::route_of;
use crate::request::settings::Settings;

mod why;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inspected {
    /// The records that were asked about, or that the path shows.
    pub records: Vec<RecordSeen>,
    /// Number of entries; only the first of them are in `entries`.
    pub entries_in_all: u64,
    /// At most `INSPECTED` of them.
    pub entries: Vec<EntrySeen>,
    /// Every region, and whether its announcements count.
    pub regions: Vec<RegionSeen>,
    /// Meaning of it all, in sentences.
    pub says: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordSeen {
    #[serde(rename = "type")]
    pub record_type: String,
    /// Its key, hashed as logs and `/status` show it.
    pub key_hash: String,
    /// The highest version announced or served; nothing below it is served as fresh.
    pub floor: Option<u64>,
    /// Moves with every change that we hear of.
    pub generation: u64,
    /// The regions that announced the newest change.
    pub announced_by: Vec<String>,
    /// Milliseconds since then, or since somebody ordered to ask again.
    pub announced_ms_ago: Option<u64>,
    /// The newest announcement is a deletion.
    pub deleted: bool,
    /// A version jumped or the floor was dropped: answers are labelled until regions agree.
    pub escaped: bool,
    /// The last commands of operators on it, newest first.
    pub commands: Vec<String>,
    /// Meaning of that, in sentences.
    pub says: Vec<String>,
}

/// One stored reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EntrySeen {
    /// Without the query.
    pub path: String,
    /// True if the path has a query.
    pub query: bool,
    /// The HTTP status of the region's reply.
    pub status: u16,
    /// `confirmed`, `provisional`, `unverified`; `unrouted` where RFC 9111 decides.
    pub standing: String,
    /// Present use: `fresh`, `unproven`, `unwired`, `provisional`, `doubted`, `unverified`,
    /// `expired`, `below`, `unrouted`.
    pub now: String,
    /// The version that it states for each record.
    pub versions: Vec<Option<u64>>,
    /// Each record's generation when it was asked for.
    pub generations: Vec<u64>,
    /// The region that answered.
    pub answered_by: String,
    /// Milliseconds since its request was sent.
    pub asked_ms_ago: u64,
    /// The regions that it depends on: it holds while one of them is LIVE and has lost nothing
    /// since.
    pub witnesses: Vec<String>,
    /// Seconds for which it still holds as things are; negative once its time is over.
    pub holds_s: Option<i64>,
    /// The memory that it takes.
    pub bytes: u64,
    /// Why it counts as it does.
    pub says: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RegionSeen {
    pub name: String,
    pub subscription: String,
    /// Moves when messages may have been lost.
    pub epoch: u32,
    /// An operator took it out.
    pub drained: bool,
    /// Meaning of that, as a sentence.
    pub says: String,
}

pub(super) struct Look<'a> {
    pub(super) sidecar: &'a Arc<Settings>,
    pub(super) region_views: &'a RegionViews,
    pub(super) now: Moment,
}

/// For a type or for everything the list would be endless.
pub(super) fn only_one(target: Target) -> Result<Target, CommandRefused> {
    match target {
        Target::Of(Scope::Record(_)) | Target::Paths(_) => Ok(target),
        Target::Of(_) => {
            Err(CommandRefused::Malformed("inspect shows one thing: write one of record, path".to_owned()))
        }
    }
}

pub(super) async fn inspect(sidecar: &Arc<Settings>, journal: &Journal, target: &Target) -> Inspected {
    let (mut records, mut entries) = (Vec::new(), Vec::new());
    let mut in_all = 0;
    match target {
        Target::Of(Scope::Record(id)) => {
            records.push(*id);
            entries = sidecar.fill.shared.store.entries_of(*id);
            in_all = entries.len() as u64;
        }
        Target::Of(_) => {}
        Target::Paths(pattern) => {
            records.extend(pattern.exact().iter().flat_map(|path| shown_by(sidecar, path)));
            walk(
                sidecar,
                |at, _| pattern.matches(at),
                |entry, key| {
                    let Some(entry) = entry else { return };
                    in_all += 1;
                    if entries.len() < limits::INSPECTED {
                        entries.push((key.clone(), entry));
                    }
                },
            )
            .await;
            records.extend(entries.iter().flat_map(|(_, entry)| entry.shows()).map(|shown| shown.id()));
        }
    }
    entries.truncate(limits::INSPECTED);
    records.sort_unstable();
    records.dedup();
    records.truncate(limits::INSPECTED);
    let region_views = sidecar.fill.shared.freshness.region_views();
    let look = Look { sidecar, region_views: &region_views, now: sidecar.fill.shared.clock.now() };
    let says = match in_all {
        0 => vec!["nothing is stored: the next read asks the regions".to_owned()],
        _ => Vec::new(),
    };
    Inspected {
        records: records.into_iter().map(|id| look.record(journal, id)).collect(),
        entries_in_all: in_all,
        entries: entries.iter().map(|(key, entry)| look.entry(key, entry)).collect(),
        regions: (0..).map(RegionId).zip(&sidecar.fill.shared.names).map(|(id, _)| look.region(id)).collect(),
        says,
    }
}

impl Look<'_> {
    fn name(&self, region: RegionId) -> String {
        self.sidecar.fill.regions.name(region).to_owned()
    }

    fn names(&self, regions: RegionSet) -> Vec<String> {
        regions.iter().map(|region| self.name(region)).collect()
    }

    fn ago(&self, at: Moment) -> Duration {
        self.now.since(at)
    }

    fn state(&self, id: RecordId) -> Snapshot {
        let freshness = &self.sidecar.fill.shared.freshness;
        let record = freshness.pin(id);
        let state = record.snapshot();
        drop(record);
        freshness.release(id);
        state
    }

    /// The highest version of it that was announced or served.
    pub(super) fn floor(&self, id: RecordId) -> Version {
        self.state(id).floor
    }

    fn record(&self, journal: &Journal, id: RecordId) -> RecordSeen {
        let state = self.state(id);
        let announced = state.marker.filter(|marker| marker.regions != RegionSet::ALL);
        RecordSeen {
            record_type: self
                .sidecar
                .fill
                .shared
                .keyed_hashes
                .type_name(id.record_type)
                .unwrap_or_default()
                .to_owned(),
            key_hash: format!("{:016x}", id.hash),
            floor: stated(state.floor),
            generation: state.generation.0,
            announced_by: announced.map(|marker| self.names(marker.regions)).unwrap_or_default(),
            announced_ms_ago: announced.map(|marker| millis(self.ago(marker.at))),
            deleted: state.marker.is_some_and(|marker| marker.deleted),
            escaped: state.escaped,
            commands: journal.of(id, self.now),
            says: self.record_says(&state),
        }
    }

    fn record_says(&self, state: &Snapshot) -> Vec<String> {
        let floor = match (stated(state.floor), state.marker.filter(|_| state.at_floor)) {
            (None, _) => "no floor: nobody has announced or served a version of it".to_owned(),
            (Some(floor), Some(_)) => format!("floor {floor}, as it was announced"),
            (Some(floor), None) => format!("floor {floor}, as it was served or asked for anew since"),
        };
        let announced = state.marker.map(|marker| {
            let (what, by) = (if marker.deleted { "deletion" } else { "change" }, list(&self.names(marker.regions)));
            // An order keeps what was announced and sets the time anew.
            let anew = state.generation == state.unversioned;
            let ordered = state.at_floor && anew;
            let when = format!("{} s ago", self.ago(marker.at).as_secs());
            match marker.regions {
                RegionSet::ALL if anew => {
                    format!("asked for anew, or no region had it any more, {when}; nothing was announced since")
                }
                RegionSet::ALL => format!("what was announced {when} is older than what was served since"),
                _ if ordered => format!("newest {what} announced by {by}; asked for anew {when}"),
                _ => format!("newest {what} announced by {by}, {when}"),
            }
        });
        let doubted = state.escaped.then(|| {
            "a version jumped or the floor was dropped: answers are labelled until regions agree (R15)".to_owned()
        });
        [Some(floor), announced, doubted].into_iter().flatten().collect()
    }

    pub(super) fn entry(&self, key: &Key, entry: &Entry) -> EntrySeen {
        let key = key.as_ref();
        let target = key.target();
        let (path, query) = target.split_once('?').map_or((target, false), |(path, _)| (path, true));
        let soft_ttl = self.sidecar.fill.config.cache.soft_ttl;
        let mut seen = EntrySeen {
            path: path.to_owned(),
            query,
            status: entry.status.as_u16(),
            standing: "unrouted".to_owned(),
            now: "unrouted".to_owned(),
            versions: Vec::new(),
            generations: Vec::new(),
            answered_by: self.name(entry.region),
            asked_ms_ago: millis(self.ago(entry.sent)),
            witnesses: Vec::new(),
            holds_s: None,
            bytes: entry.weight() as u64,
            says: vec!["no route names this path: its own headers say how long it is kept (RFC 9111)".to_owned()],
        };
        if let Validity::Routed(routed) = &entry.validity {
            let assessed = standing::assess(routed, entry.sent, self.region_views, self.now);
            let (good_for, left) = (assessed.good_for(soft_ttl), assessed.seconds_left(soft_ttl));
            seen.standing = routed.standing.into_str().to_owned();
            seen.now = good_for.into_str().to_owned();
            seen.versions = routed.shows.iter().map(|shown| stated(shown.version)).collect();
            seen.generations = routed.shows.iter().map(|shown| shown.generation.0).collect();
            seen.witnesses = self.names(routed.live);
            seen.holds_s = Some(left);
            seen.says = self.why(entry, routed, good_for);
            seen.says.extend(self.of_another_upstream(path, routed.route));
        }
        seen
    }

    /// A remark on an entry of the upstream that does not answer for its record now.
    fn of_another_upstream(&self, path: &str, route: RouteId) -> Option<String> {
        let matched = route_of(self.sidecar, path)?;
        let others = [Some(self.sidecar.fill.router.id(matched.index)), matched.candidate];
        let is_other = route != matched.id && others.contains(&Some(route));
        is_other.then(|| "the route's other upstream answers for this record now: this one serves nobody".to_owned())
    }

    fn region(&self, id: RegionId) -> RegionSeen {
        let region_view = self.region_views.regions.get(id.index()).copied().unwrap_or_default();
        let live = self.region_views.live(self.now).contains(id);
        let drained = self.sidecar.fill.regions.drained().contains(id);
        let state = if live { region_view.state } else { crate::admin::readiness::lapsed(region_view.state) };
        let topic = match state {
            SubscriptionState::Paused => "its announcements are paused by an operator: they prove nothing".to_owned(),
            SubscriptionState::Live => {
                format!("live: its announcements arrive ({} proof)", region_view.grade.into_str())
            }
            state => format!("not live ({}): nothing proves that its announcements arrive", state.into_str()),
        };
        let asked = if drained { "; drained by an operator: nobody asks it" } else { "" };
        RegionSeen {
            name: self.name(id),
            subscription: state.into_str().to_owned(),
            epoch: region_view.epoch.0,
            drained,
            says: format!("{topic}{asked}"),
        }
    }
}

fn stated(version: Version) -> Option<u64> {
    (version != Version::NONE).then_some(version.0)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// `eu-west-1 and us-east-1`; `nobody`.
fn list(names: &[String]) -> String {
    match names {
        [] => "nobody".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
