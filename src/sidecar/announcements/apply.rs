//! The last step of an announcement: a verified message becomes a freshness event and is applied.
//! Then the transport acknowledges it (R12), and the actions that freshness asks for are carried
//! out. Record keys end here: only keyed hashes go on.
//!
//! [`Applier::apply`] returns only after freshness took the event, so a transport that acknowledges
//! then loses nothing.

use std::sync::Arc;

use super::key_spelling::{self};
use crate::access::record::GRANTS;
use crate::aws::remembered::Remembered;
use crate::aws::verify::Verified;
use crate::model::ids::{RecordId, RegionId, TypeId, Version};
use crate::model::time::{Clock, Moment, Wall};
use crate::protocol::announcement::decode;
use crate::protocol::announcement::message::{Announcement, AnnouncementKind, PATH_PUBLISHER};
use crate::protocol::event::{Action, Event, Says, Scope};
use crate::protocol::wiring::KeySpelling;
use crate::routing::keyed_hashes::KeyedHashes;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::announcements::AnnouncementOutcome;
use crate::telemetry::observed::Observed;
use crate::telemetry::rate_limiter::RateLimiter;

/// [`Freshness::step`](crate::protocol), as `app` wires it.
pub type Step = Box<dyn Fn(Moment, Wall, Event) -> Vec<Action> + Send + Sync>;

/// Carries out what freshness asks for; called after the event was applied, and only if there are
/// actions.
pub type ActionSink = Box<dyn Fn(Vec<Action>) + Send + Sync>;

/// The outcome of a message that may now be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// A change, a deletion or a reload of something that a route names.
    Announced,
    /// A publisher's or a path's heartbeat.
    Heartbeat,
    /// The grants changed; the node's gate knows.
    Grants,
    /// A record type that no route names: counted, and a proof of the path (R14).
    Unrouted,
    /// Verified, but not an announcement: the region's epoch moves (R14).
    Undecodable,
    /// An operator has paused the region's announcements: nothing changed.
    Paused,
    /// A second copy: nothing changed.
    Copy,
    /// A confirmation, which is for [`super::subscription`]: nothing changed here.
    Lifecycle,
}

impl Applied {
    /// The outcome of the announcement, in metrics.
    pub const fn outcome(self) -> AnnouncementOutcome {
        match self {
            Self::Announced => AnnouncementOutcome::Applied,
            Self::Heartbeat => AnnouncementOutcome::Heartbeat,
            Self::Grants => AnnouncementOutcome::Grants,
            Self::Unrouted => AnnouncementOutcome::Unrouted,
            Self::Undecodable => AnnouncementOutcome::Undecodable,
            Self::Paused => AnnouncementOutcome::Paused,
            Self::Copy => AnnouncementOutcome::Duplicate,
            Self::Lifecycle => AnnouncementOutcome::Lifecycle,
        }
    }
}

/// True if somebody here reads a record ([`crate::protocol::Freshness::is_read`]).
pub type IsRead = Box<dyn Fn(RecordId) -> bool + Send + Sync>;

/// Notes that a region announced a key that nobody reads, and the read record that it probably means
/// ([`crate::protocol::Freshness::unread_key`]).
pub type OnUnread = Box<dyn Fn(TypeId, RegionId, Option<(RecordId, KeySpelling)>, Moment) + Send + Sync>;

/// Notes that a region announced the grants.
pub type OnGrants = Box<dyn Fn() + Send + Sync>;

/// Applies verified messages of all regions.
pub struct Applier {
    step: Step,
    keyed_hashes: Arc<KeyedHashes>,
    remembered: Arc<Remembered>,
    clock: Clock,
    metrics: Arc<Metrics>,
    observed: Arc<Observed>,
    sink: ActionSink,
    undecodable: RateLimiter,
    is_read: Option<IsRead>,
    on_unread: Option<OnUnread>,
    on_grants: Option<OnGrants>,
    /// The regions' names, for the log.
    names: Vec<String>,
}

impl Applier {
    /// `remembered` is the verifier's ([`crate::aws::verify::Verifier::remembered`]).
    pub fn new(
        step: Step,
        keyed_hashes: Arc<KeyedHashes>,
        remembered: Arc<Remembered>,
        clock: Clock,
        metrics: Arc<Metrics>,
        observed: Arc<Observed>,
        sink: ActionSink,
    ) -> Self {
        Self {
            step,
            keyed_hashes,
            remembered,
            clock,
            metrics,
            observed,
            sink,
            undecodable: RateLimiter::new(),
            is_read: None,
            on_unread: None,
            on_grants: None,
            names: Vec::new(),
        }
    }

    /// Tells of announced grants.
    pub fn noting_grants(self, on_grants: Option<OnGrants>) -> Self {
        Self { on_grants, ..self }
    }

    /// Calls the regions by these names in the log.
    pub fn naming(self, names: Vec<String>) -> Self {
        Self { names, ..self }
    }

    /// For announced keys that nobody reads, looks for a key inside them that somebody does.
    pub fn comparing_keys(self, is_read: IsRead, on_unread: OnUnread) -> Self {
        Self { is_read: Some(is_read), on_unread: Some(on_unread), ..self }
    }

    /// Applies what `region`'s topic delivered. `queued` is the SQS `SentTimestamp` if it came
    /// through a queue. Counts the outcome; rejections are counted by the caller.
    pub fn apply(&self, region: RegionId, verified: Verified, queued: Option<Wall>) -> Applied {
        let applied = match verified {
            Verified::Notification { message, published, message_id } => {
                let applied = self.notification(region, &message, &message_id, published, queued);
                self.remembered.note(region, &message_id);
                applied
            }
            Verified::Copy => Applied::Copy,
            Verified::Confirmation { .. } | Verified::Unsubscribed { .. } => Applied::Lifecycle,
        };
        self.metrics.announcements.announcement(Some(region), applied.outcome());
        applied
    }

    fn notification(
        &self,
        region: RegionId,
        message: &str,
        message_id: &str,
        published: Wall,
        queued: Option<Wall>,
    ) -> Applied {
        let read = match decode(message) {
            Ok(announcement) => {
                let read = self.read(&announcement);
                self.observe(region, &announcement, &read);
                read
            }
            Err(why) => {
                self.observed.region(region, |notes| {
                    notes.topic.undecodable.push(true);
                    notes.topic.undecodable_why = why.to_string();
                });
                if let Some(suppressed) = self.undecodable.admit(self.clock.now()) {
                    let region = self.names.get(region.index()).map_or("?", String::as_str);
                    tracing::warn!(region, message_id, reason = %why, suppressed, "a verified message is no announcement");
                }
                Read { says: Says::Undecodable, numbered: None, ingested_at: None }
            }
        };
        let applied = match read.says {
            Says::Changed(..) | Says::Deleted(..) | Says::Reload(_) | Says::Reset(_) => Applied::Announced,
            Says::Heartbeat { .. } => Applied::Heartbeat,
            Says::Grants(_) => Applied::Grants,
            Says::Unrouted => Applied::Unrouted,
            Says::Undecodable => Applied::Undecodable,
        };
        let is_of_grants = matches!(read.says, Says::Grants(_));
        let event = Event::Message { region, published, queued, numbered: read.numbered, says: read.says };
        let wall = self.clock.wall();
        let actions = (self.step)(self.clock.now(), wall, event);
        if is_of_grants {
            self.on_grants.iter().for_each(|note| note());
        }
        let paused = actions.contains(&Action::Passed(region));
        if !actions.is_empty() {
            (self.sink)(actions);
        }
        if paused {
            return Applied::Paused;
        }
        if let (Applied::Announced, Some(ingested_at)) = (applied, read.ingested_at) {
            self.metrics.announcements.propagation(region, wall.since(ingested_at));
        }
        applied
    }

    /// Notes what an announcement states besides its change, and a type or a key that nobody reads.
    fn observe(&self, region: RegionId, announcement: &Announcement, read: &Read) {
        if read.says == Says::Unrouted {
            // Perhaps another service's: it says nothing about ours.
            return self.observed.unrouted_type(region, &announcement.record_type, self.clock.now());
        }
        if let Says::Changed(record, _) | Says::Deleted(record, _) = read.says {
            self.compare_key(region, record, announcement);
        }
        let path = matches!(read.says, Says::Heartbeat { path: true, .. });
        let now = self.clock.now();
        self.observed.region(region, |notes| {
            notes.topic.undecodable.push(false);
            match announcement.kind {
                AnnouncementKind::Changed { version } => {
                    notes.topic.versioned.push(version.is_some());
                    notes.topic.numbered.push(announcement.numbered.is_some());
                }
                AnnouncementKind::Deleted { .. } => notes.topic.numbered.push(announcement.numbered.is_some()),
                AnnouncementKind::Heartbeat { ingested_through, signing_off } => {
                    notes.topic.heartbeats += 1;
                    notes.topic.heartbeat_at = Some(now);
                    if !path && !signing_off {
                        notes.topic.through.push(ingested_through.is_some());
                    }
                }
                AnnouncementKind::Reload | AnnouncementKind::Reset => {}
            }
        });
    }

    /// Looks for a key that is read inside one that is not: then the publisher writes it in another
    /// form.
    fn compare_key(&self, region: RegionId, record: RecordId, announcement: &Announcement) {
        let Some(is_read) = self.is_read.as_ref().filter(|is_read| !is_read(record)) else { return };
        let Announcement { record_type, key, .. } = announcement;
        self.observed.note_unread_key(record_type, key);
        let meant = key_spelling::meant(key).find_map(|meant| {
            let id = self.keyed_hashes.record(record_type, &meant.key).filter(|id| is_read(*id))?;
            self.observed.note_key_spelling(record_type, &meant.spelling());
            Some((id, meant.kind()))
        });
        self.on_unread.iter().for_each(|note| note(record.record_type, region, meant, self.clock.now()));
    }

    /// The record of both names, all of the type if there is no key, or all.
    fn scope(&self, record_type: &str, key: &str) -> Option<Scope> {
        match (record_type.is_empty(), key.is_empty()) {
            (true, _) => Some(Scope::All),
            (false, true) => self.keyed_hashes.type_id(record_type).map(Scope::Type),
            (false, false) => self.keyed_hashes.record(record_type, key).map(Scope::Record),
        }
    }

    /// Turns names into ids. An unrouted announcement keeps its number, since its publisher counted
    /// it.
    fn read(&self, announcement: &Announcement) -> Read {
        let Announcement { record_type, key, kind, numbered, ingested_at } = announcement;
        let path = numbered.as_ref().is_some_and(|numbered| numbered.publisher.starts_with(PATH_PUBLISHER));
        let says = match *kind {
            // By any kind of announcement: an older publisher reloads what it copied.
            AnnouncementKind::Changed { .. } | AnnouncementKind::Deleted { .. } | AnnouncementKind::Reload
                if record_type == GRANTS =>
            {
                let version = match *kind {
                    AnnouncementKind::Changed { version } | AnnouncementKind::Deleted { version } => version,
                    _ => None,
                };
                // A node decides by the document itself, and holds nobody to its version.
                Some(Says::Grants(version.filter(|_| self.on_grants.is_none())))
            }
            AnnouncementKind::Changed { version } => {
                let record = self.keyed_hashes.record(record_type, key);
                record.map(|record| Says::Changed(record, version.map(Version)))
            }
            AnnouncementKind::Deleted { version } => {
                let record = self.keyed_hashes.record(record_type, key);
                record.map(|record| Says::Deleted(record, version.map(Version)))
            }
            AnnouncementKind::Reload => self.scope(record_type, key).map(Says::Reload),
            AnnouncementKind::Reset => self.scope(record_type, key).map(Says::Reset),
            // A path does not know what a region has ingested, and a single copy cannot sign off
            // for the others.
            AnnouncementKind::Heartbeat { .. } if path => {
                Some(Says::Heartbeat { path, ingested_through: None, signing_off: false })
            }
            AnnouncementKind::Heartbeat { ingested_through, signing_off } => {
                Some(Says::Heartbeat { path, ingested_through, signing_off })
            }
        };
        // If something that is not a heartbeat but has a path's name were counted, it would open a
        // hole in a numbering that does not exist.
        let counted = !path || matches!(kind, AnnouncementKind::Heartbeat { .. });
        let numbered = numbered.as_ref().filter(|_| counted);
        Read {
            says: says.unwrap_or(Says::Unrouted),
            numbered: numbered.map(|numbered| (self.keyed_hashes.publisher(&numbered.publisher), numbered.sequence)),
            ingested_at: *ingested_at,
        }
    }
}

/// An announcement in the protocol's terms.
struct Read {
    says: Says,
    numbered: Option<(u64, u64)>,
    ingested_at: Option<Wall>,
}

#[cfg(test)]
mod tests;
