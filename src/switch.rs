//! A switch per rule of the freshness protocol ([`Rule`]) and per guard of the services ([`Guard`]),
//! so that the simulators can show that each is needed. With the feature `switches`, a simulator
//! turns one off for a thread, and the places that carry it out ask [`is_on`]. Without the feature
//! all are on, [`is_on`] is a constant, and nothing of this is left in the program.
//!
//! One that is off leaves what somebody would write who does not know it. All others stay on, so a
//! simulation shows a difference only where this one alone protects. What a guard leaves is said at
//! its variant; what a rule leaves:
//!
//! | rule | what is left out when it is off, and where |
//! | --- | --- |
//! | R1 | versions are compared with no floor: an announcement puts out what is older than it, and whatever comes after it is good (`record::matches`, `vote`, a fill's standing, `request::serve`) |
//! | R2 | a record that no entry or fill holds leaves no floor, generation or marker, and no loss (`records::shard::keep`) |
//! | R3 | fills are shared whatever was announced since; every reply is admitted, as of the generation in which it arrives (`Ask::generation`, `standing::admits`, a fill's `routed`) |
//! | R4 | no reply waits for the announcer's, and none is preferred for being the announcer's (`vote`) |
//! | R5 | what is stored is CONFIRMED, unless a slot was lost (R2) or a version is doubted (R15) (`standing::earn`) |
//! | R6 | an absence counts at once, for the full TTL, and a 200 does not beat it (`vote`, a fill's `ttl`, `request::serve`) |
//! | R7 | validators are always sent, and a 304 makes what is stored the newest version known (a fill's `known`, `vote`) |
//! | R8 | `Age` says nothing, and regions are not asked end to end (`vote`, `fill::prepare`, a refetch) |
//! | R9 | a lease never ends, and a proof dates from receipt (`region`); a pause that was not counted stays uncounted (`app::ticker`) |
//! | R10 | epochs do not move; a region is still SUSPECT until its next proof (`region::move_epoch`) |
//! | R11 | a subscription is its own first proof: LIVE as soon as it is made (`region::subscribed`) |
//! | R12 | a message is acknowledged whatever came of it (`sidecar::announcements::Disposition::may_be_deleted`) |
//! | R13 | the last announcement wins: an older one lowers the floor, a copy moves the generation (`merge::announce`) |
//! | R14 | what cannot be decoded is counted, proves the path, and moves no epoch (`region::heard`); nor does what cannot be verified, and weak proof goes on beside it (`region::unverified`) |
//! | R15 | any version raises the floor, and a floor that no region reaches stays (`merge`, `records::below_floor`) |
//! | R16 | the hard TTL is ignored: an entry lives while a lease holds (`standing::assess`) |
//! | R17 | no entry is audited |
//! | R18 | RELOAD does nothing to a record (`records::recall`) |
//! | R19 | RESET does nothing to a record (`records::recall`) |
//! | LateResets, a half of R19 | a RESET forgets whatever floors there are when it comes (`recalls`, `doubts`) |
//! | R20 | a write is passed on and forgotten (`Freshness::wrote`) |
//! | LostAnswers, a half of R20 | a write whose answer is lost is nobody's (`request::write`) |
//! | R21 | every region's watermark speaks for every record type, and every region earns it the full TTL (`wiring`) |
//! | Unwired, a half of R21 | what announcements are seen to miss is kept for the full TTL (`wiring`) |
//! | R22 | what is stored needs no permit, and versions of the grants order nothing (`permits`, `race::verdict`) |
//! | R23 | equal versions are the same, whatever they show (`audit`) |
//!
//! | rule | the property it protects | the profile and the fault in which it alone does |
//! | --- | --- | --- |
//! | R1 | promise 1: never below what was announced or served | versions; a region lags, and answers first after another's announcement |
//! | R2 | promise 1 for what was not held when it was announced | versions; an announcement of an absent key, then a miss at a lagging region |
//! | R3 | promise 3: no reply from before an announcement to a reader after it | ETags or neither; an announcement during a fetch, and a reader who comes after it |
//! | R4 | a reader after an announcement gets the announcer's reply while the announcer answers | ETags or neither; a lagging region answers before the announcer |
//! | R5 | a full TTL only for what cannot be behind; agreement within promise 3 | ETags or neither, or versions at start-up; one region LIVE, the change announced before that; another lags and answers first, its own topic is not received |
//! | R6 | a record that was created or re-created is not called absent | versions, absences without one; a lagging region answers 404 first, or the announcer's own fleet lags |
//! | R7 | promise 1 through revalidation | versions in 200s and announcements, none in 304s; an entry with an ETag, an announcement, a lagging region answers 304 |
//! | R8 | promise 3 behind an intermediary | ETags or neither; the announcer answers from an intermediary's copy, with `Age`, from before the change |
//! | R9 | nothing is fresh whose path has been silent for longer than a lease (15 s, weak 75 s) | any; all topics go silent without an error, their delivery falls behind, or the process (its machine) is paused; and a change meanwhile |
//! | R10 | promises 2 and 4: a loss that shows is asked about | numbered publishers, one region LIVE (or all lose it); an announcement is lost, or the first ones of a publisher, and heartbeats go on |
//! | R11 | what was requested before messages can arrive is not vouched for | any, at start-up; a subscription that takes effect seconds after it is made, and a change in between |
//! | R12 | an announcement that was received is applied | no numbers, one region LIVE (or all fail); the certificate cannot be fetched when the message is first received |
//! | R13 | promise 1 under reordering | versions; 6 announced, then 5 late; a miss that a region still at 5 answers first |
//! | R14 | a change that cannot be read is asked about | no numbers, one region LIVE (or all garble it); a change whose body cannot be decoded; weak proof: one that cannot be verified, over a queue |
//! | R15 | one impossible version does not label, or freeze, a record for good | versions; 2^62 or more in a message or a reply; a restore from a backup below the floor. Seen by the cap on labels |
//! | R16 | nothing is served beyond its TTL | path proof, no numbers; every copy of an announcement lost without a trace |
//! | R17 | no stale entry stays unsampled beyond the audit period | the same, by the audit's own metric |
//! | R18 | what an operator reloads is requested anew | any; the regions' data replaced without announcements, then RELOAD |
//! | R20 | a caller that writes through a sidecar reads what it wrote | any; a write, then a read that a lagging region answers first, or that joins a fill from before |
//! | LostAnswers | the same where nobody learned what became of the write | replies and announcements without versions; the answer to a write is lost, and a region lags |
//! | R21 | promise 2 where announcements miss what is read, and the soft TTL there | numbered publishers whose record type or keys are not the routes' |
//! | Unwired | the soft TTL where announcements are seen to miss what is read | one topic, whose publisher writes keys in another letter case |
//! | R22 | a withdrawn grant ends what sidecars have stored | the simulation of grants (`tests/sim/grants.rs`): a withdrawal that two regions announce |
//! | R23 | no stale entry stays unsampled although its version is the newest | versions; a change under the same version, which nobody announces |
//! | R19 | a restore ends with a RESET, not with a minute of labels per record | versions; every region restored from a backup, then RESET. Seen by the cap on labels |
//! | LateResets | promise 1 whenever a RESET comes | versions; a RESET that is minutes late, and a region that lags |

/// The rules of the protocol, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "docs/freshness.md says what each is, the table in protocol.rs where")]
pub enum Rule {
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    R16,
    R17,
    R18,
    R19,
    R20,
    R21,
    R22,
    R23,
    LateResets,
    LostAnswers,
    Unwired,
}

/// Guards of the services' promises, one by one; and what keeps those of a sidecar about forms,
/// fields and batches, whose simulation is that of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// Off: the catalogue puts a record whatever is there by now.
    VersionInCondition,
    /// Off: a version is the last one plus 1, and knows nothing of the calendar and the history.
    VersionFromCalendar,
    /// Off: the history is written after the record, in a transaction of its own.
    HistoryWithRecord,
    /// Off: an idempotency key is remembered after the request took place.
    RememberedWithRecord,
    /// Off: references are written after the inputs were read, and after the view.
    ReferencesFirst,
    /// Off: a view is written whatever was written since its note was read.
    NoteInCondition,
    /// Off: an older definition may replace what a newer one made.
    DefinitionFirst,
    /// Off: a version of a view is the last one plus 1, and knows nothing of the calendar.
    ViewVersionFromCalendar,
    /// Off: positions are written down before what was read is applied.
    CheckpointAfterApply,
    /// Off: positions are written down by any process that believes to hold the lease.
    CheckpointFenced,
    /// Off: the time through which a feed was applied counts when it is read.
    ThroughAfterApply,
    /// Off: a feed was applied through the time of the shard that got farthest.
    ThroughIsLeast,
    /// Off: what follows a shard counts as read through the time at which the shard's end was read.
    ChildrenHoldTime,
    /// Off: a region puts whatever the feed brings.
    PutIfNewer,
    /// Off: a region announces, then puts.
    PutBeforeAnnounce,
    /// Off: what the table refused as not newer is not announced.
    AnnounceRefused,
    /// Off: announcements are left to a task of their own.
    AnnounceBeforeCheckpoint,
    /// Off: what was removed is announced and put as a deletion.
    RemovalIsNoDeletion,
    /// Off: the position from which the feed is read is taken after the scan.
    PositionBeforeScan,
    /// Off: a region that lost its place in the feed scans and says nothing.
    ReloadAfterScan,
    /// Off: a feed that was trimmed is read from its oldest change on.
    ScanAfterTrim,
    /// Off: the grants are passed on when they change, and never confirmed.
    GrantsConfirmed,
    /// Off: nobody compares views with records.
    ViewSweep,
    /// Off: nobody compares a region's copies with the views.
    RegionSweep,
    /// Off: a node answers from its store whatever floor is stated.
    FloorBeforeStore,
    /// Off: who joins a read gets what it brings, whatever floor they state.
    FollowersCompare,
    /// Off: who insists joins a read that began before.
    InsistingReadsAnew,
    /// Off: when the table fails, what is stored is given to a caller that insists or states a
    /// floor.
    StoredIsNoAnswer,
    /// Off: a node answers from a table that is not complete.
    CompleteFirst,
    /// Off: what was made of an entry's body moves on to whatever replaces it.
    DerivedOfItsBytes,
    /// Off: who wants something made of a region's bytes shares that with callers of any identity.
    ShapeOfItsIdentity,
    /// Off: a part of a batch states the bound of those before it.
    BoundOfItsPart,
}

impl Guard {
    /// Those of forms, fields and batches.
    pub const OF_SHAPES: [Self; 3] = [Self::DerivedOfItsBytes, Self::ShapeOfItsIdentity, Self::BoundOfItsPart];

    /// Those of the services.
    pub const ALL: [Self; 29] = [
        Self::VersionInCondition,
        Self::VersionFromCalendar,
        Self::HistoryWithRecord,
        Self::RememberedWithRecord,
        Self::ReferencesFirst,
        Self::NoteInCondition,
        Self::DefinitionFirst,
        Self::ViewVersionFromCalendar,
        Self::CheckpointAfterApply,
        Self::CheckpointFenced,
        Self::ThroughAfterApply,
        Self::ThroughIsLeast,
        Self::ChildrenHoldTime,
        Self::PutIfNewer,
        Self::PutBeforeAnnounce,
        Self::AnnounceRefused,
        Self::AnnounceBeforeCheckpoint,
        Self::RemovalIsNoDeletion,
        Self::PositionBeforeScan,
        Self::ReloadAfterScan,
        Self::ScanAfterTrim,
        Self::GrantsConfirmed,
        Self::ViewSweep,
        Self::RegionSweep,
        Self::FloorBeforeStore,
        Self::FollowersCompare,
        Self::InsistingReadsAnew,
        Self::StoredIsNoAnswer,
        Self::CompleteFirst,
    ];
}

/// A rule or a guard.
pub trait Switch: Copy {
    /// Its position among all.
    fn bit(self) -> u128;
}

impl Switch for Rule {
    fn bit(self) -> u128 {
        1 << self as u64
    }
}

impl Switch for Guard {
    fn bit(self) -> u128 {
        1 << (RULES + self as u64)
    }
}

/// Positions that rules take.
const RULES: u64 = Rule::Unwired as u64 + 1;

const _: () = assert!(RULES as usize + Guard::ALL.len() + Guard::OF_SHAPES.len() <= u128::BITS as usize);

/// Returns whether `switch` is carried out on this thread.
#[cfg(not(feature = "switches"))]
#[inline(always)]
pub const fn is_on<S: Switch>(_switch: S) -> bool {
    true
}

#[cfg(feature = "switches")]
pub use switched::{Off, is_on, off};

#[cfg(feature = "switches")]
mod switched {
    use std::cell::Cell;

    use super::Switch;

    thread_local! {
        static OFF: Cell<u128> = const { Cell::new(0) };
    }

    /// Returns whether `switch` is carried out on this thread.
    pub fn is_on<S: Switch>(switch: S) -> bool {
        OFF.get() & switch.bit() == 0
    }

    /// Turns `switch` off on this thread for as long as the value lives.
    #[must_use]
    pub fn off<S: Switch>(switch: S) -> Off {
        OFF.set(OFF.get() | switch.bit());
        Off(switch.bit())
    }

    #[derive(Debug)]
    pub struct Off(u128);

    impl Drop for Off {
        fn drop(&mut self) {
            OFF.set(OFF.get() & !self.0);
        }
    }
}

#[cfg(all(test, feature = "switches"))]
mod tests;
