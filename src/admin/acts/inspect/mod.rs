//! `inspect`: what is known about a record or a path, and why each entry counts as it does. It
//! shows no content and no credentials.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::purge::walk;
use super::target::{Target, shown_by};
use super::{ActRefused, Acts};
use crate::admin::limits;
use crate::cache::entry::{Entry, Hold};
use crate::cache::key::Key;
use crate::core::{Core, way};
use crate::model::ids::{RecordId, RegionId, RegionSet, Version};
use crate::model::time::Moment;
use crate::protocol::event::{Scope, SubscriptionState};
use crate::protocol::horizon::Horizon;
use crate::protocol::record::Snapshot;
use crate::protocol::standing;

mod why;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inspected {
    /// The records that were asked about, or that the path shows.
    pub records: Vec<RecordSeen>,
    /// How many entries there are; only the first of them are in `entries`.
    pub entries_in_all: u64,
    /// At most `INSPECTED` of them.
    pub entries: Vec<EntrySeen>,
    /// Every region, and whether its announcements count.
    pub regions: Vec<RegionSeen>,
    /// What that means, in sentences.
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
    /// How long ago that was, or how long ago somebody ordered to ask again, milliseconds.
    pub announced_ms_ago: Option<u64>,
    /// The newest announcement is a deletion.
    pub deleted: bool,
    /// A version jumped or the floor was dropped: answers are labelled until regions agree.
    pub escaped: bool,
    /// The last acts of operators on it, newest first.
    pub acts: Vec<String>,
    /// What that means, in sentences.
    pub says: Vec<String>,
}

/// One stored reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EntrySeen {
    /// Without the query.
    pub path: String,
    /// Whether the path has a query.
    pub query: bool,
    /// The HTTP status of the region's reply.
    pub status: u16,
    /// `confirmed`, `provisional`, `unverified`; `unrouted` where RFC 9111 decides.
    pub standing: String,
    /// What it is good for now: `fresh`, `unproven`, `unwired`, `provisional`, `doubted`, `unverified`,
    /// `expired`, `below`, `unrouted`.
    pub now: String,
    /// The version that it states for each record.
    pub versions: Vec<Option<u64>>,
    /// Each record's generation when it was asked for.
    pub generations: Vec<u64>,
    /// The region that answered.
    pub answered_by: String,
    /// How long ago its request was sent, milliseconds.
    pub asked_ms_ago: u64,
    /// The regions that it depends on: it holds while one of them is LIVE and has lost nothing
    /// since.
    pub witnesses: Vec<String>,
    /// How many more seconds it holds as things are; negative once its time is over.
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
    /// What that means, as a sentence.
    pub says: String,
}

pub(super) struct Look<'a> {
    pub(super) sidecar: &'a Arc<Core>,
    pub(super) horizon: &'a Horizon,
    pub(super) now: Moment,
}

/// For a type or for everything the list would be endless.
pub(super) fn only_one(target: Target) -> Result<Target, ActRefused> {
    match target {
        Target::Of(Scope::Record(_)) | Target::Paths(_) => Ok(target),
        Target::Of(_) => Err(ActRefused::Malformed("inspect shows one thing: write one of record, path".to_owned())),
    }
}

pub(super) async fn inspect(acts: &Acts, target: &Target) -> Inspected {
    let sidecar = &acts.sidecar();
    let (mut records, mut entries) = (Vec::new(), Vec::new());
    let mut in_all = 0;
    match target {
        Target::Of(Scope::Record(id)) => {
            records.push(*id);
            entries = sidecar.store.entries_of(*id);
            in_all = entries.len() as u64;
        }
        Target::Of(_) => {}
        Target::Paths(pattern) => {
            records.extend(pattern.exact().iter().flat_map(|path| shown_by(sidecar, path)));
            let mut note = |entry: Option<Arc<Entry>>, key: &Key| {
                let Some(entry) = entry else { return };
                in_all += 1;
                if entries.len() < limits::INSPECTED {
                    entries.push((key.clone(), entry));
                }
            };
            walk(sidecar, |at, _| pattern.matches(at), &mut note).await;
            records.extend(entries.iter().flat_map(|(_, entry)| entry.shows()).map(|shown| shown.id()));
        }
    }
    entries.truncate(limits::INSPECTED);
    records.sort_unstable();
    records.dedup();
    records.truncate(limits::INSPECTED);
    let horizon = sidecar.freshness.horizon();
    let look = Look { sidecar, horizon: &horizon, now: sidecar.clock.now() };
    let says = match in_all {
        0 => vec!["nothing is stored: the next read asks the regions".to_owned()],
        _ => Vec::new(),
    };
    Inspected {
        records: records.into_iter().map(|id| look.record(acts, id)).collect(),
        entries_in_all: in_all,
        entries: entries.iter().map(|(key, entry)| look.entry(key, entry)).collect(),
        regions: (0..).map(RegionId).zip(&sidecar.names).map(|(id, _)| look.region(id)).collect(),
        says,
    }
}

impl Look<'_> {
    fn name(&self, region: RegionId) -> String {
        self.sidecar.regions.name(region).to_owned()
    }

    fn names(&self, regions: RegionSet) -> Vec<String> {
        regions.iter().map(|region| self.name(region)).collect()
    }

    fn ago(&self, at: Moment) -> Duration {
        self.now.since(at)
    }

    fn state(&self, id: RecordId) -> Snapshot {
        let freshness = &self.sidecar.freshness;
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

    fn record(&self, acts: &Acts, id: RecordId) -> RecordSeen {
        let state = self.state(id);
        let announced = state.marker.filter(|marker| marker.regions != RegionSet::ALL);
        RecordSeen {
            record_type: self.sidecar.keyring.type_name(id.record_type).unwrap_or_default().to_owned(),
            key_hash: format!("{:016x}", id.hash),
            floor: stated(state.floor),
            generation: state.generation.0,
            announced_by: announced.map(|marker| self.names(marker.regions)).unwrap_or_default(),
            announced_ms_ago: announced.map(|marker| millis(self.ago(marker.at))),
            deleted: state.marker.is_some_and(|marker| marker.deleted),
            escaped: state.escaped,
            acts: acts.journal.of(id, self.now),
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
        let soft_ttl = self.sidecar.config.cache.soft_ttl;
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
        if let Hold::Routed(routed) = &entry.hold {
            let assessed = standing::assess(routed, entry.sent, self.horizon, self.now);
            let (good_for, left) = (assessed.good_for(soft_ttl), assessed.seconds_left(soft_ttl));
            seen.standing = routed.standing.word().to_owned();
            seen.now = why::word(good_for).to_owned();
            seen.versions = routed.shows.iter().map(|shown| stated(shown.version)).collect();
            seen.generations = routed.shows.iter().map(|shown| shown.generation.0).collect();
            seen.witnesses = self.names(routed.live);
            seen.holds_s = Some(left);
            seen.says = self.why(entry, routed, good_for);
            seen.says.extend(self.of_another_way(path, routed.route));
        }
        seen
    }

    /// A remark on an entry of the way that does not answer for its record now.
    fn of_another_way(&self, path: &str, route: u16) -> Option<String> {
        let mut matched = self.sidecar.router.find(path)?;
        way::choose(&mut matched);
        let others = [Some(self.sidecar.router.id(matched.place)), matched.second];
        let is_other = route != matched.id && others.contains(&Some(route));
        is_other.then(|| "the route's other way answers for this record now: this one serves nobody".to_owned())
    }

    fn region(&self, id: RegionId) -> RegionSeen {
        let sight = self.horizon.regions.get(id.index()).copied().unwrap_or_default();
        let live = self.horizon.live(self.now).contains(id);
        let drained = self.sidecar.regions.drained().contains(id);
        let state = if live { sight.state } else { crate::admin::readiness::lapsed(sight.state) };
        let topic = match state {
            SubscriptionState::Paused => "its announcements are paused by an operator: they prove nothing".to_owned(),
            SubscriptionState::Live => format!("live: its announcements arrive ({} proof)", sight.grade.word()),
            state => format!("not live ({}): nothing proves that its announcements arrive", state.word()),
        };
        let asked = if drained { "; drained by an operator: nobody asks it" } else { "" };
        RegionSeen {
            name: self.name(id),
            subscription: state.word().to_owned(),
            epoch: sight.epoch.0,
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
