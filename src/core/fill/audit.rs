//! Compares what is stored with all regions, one entry after the other (R17).
//! [`crate::protocol::audit`] judges and measures; metrics and `/status` report. If an audit finds
//! something better, it is kept as after any fill.
//!
//! Every routed entry that is stored throughout a `freshness.audit_period` comes due once in it,
//! and is then asked about or counted as skipped. What is due waits for the budget at most as long
//! as the backlog takes: 26 s at the smallest budget. Audits send nothing beyond their share of the
//! background legs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::routed;
use super::{Ask, Of, Routing, background};
use crate::cache::entry::Entry;
use crate::cache::key::Key;
use crate::core::race::Tally;
use crate::core::race::region::Purpose;
use crate::core::{Core, limits};
use crate::model::ids::{Generation, RegionId, Version};
use crate::model::time::Moment;
use crate::protocol::audit::{AuditEnding, AuditVerdict, Audits, Observation, Settled, Suspicion, Timeline, Walk};
use crate::protocol::event::Action;
use crate::protocol::holding::{Routed, ShownRecord};
use crate::protocol::limits::AUDIT_WINDOWS;
use crate::protocol::record::Snapshot;
use crate::protocol::standing::Use;
use crate::protocol::switch::{self, Rule};

/// What audits have found, and how many may be under way.
#[derive(Debug)]
pub struct Auditor {
    audits: Mutex<Audits<Key>>,
    room: Arc<Semaphore>,
    /// Set while a walk is running.
    runs: AtomicBool,
}

impl Default for Auditor {
    fn default() -> Self {
        Self {
            audits: Mutex::default(),
            room: Arc::new(Semaphore::new(limits::AUDITS)),
            runs: AtomicBool::new(false),
        }
    }
}

impl Auditor {
    /// How many entries wait for an announcement of what an audit saw.
    pub fn open(&self) -> usize {
        self.audits().open_count()
    }

    /// The violations that are remembered, oldest first.
    pub fn violations(&self, now: Moment) -> Vec<Timeline> {
        self.audits().violations(now)
    }

    /// Follows a suspicion while a walk is running; false if none is, or there is no room.
    fn follow(&self, suspicion: Suspicion<Key>) -> bool {
        // Read under the lock that the end of a walk takes, so that nothing is opened after it.
        let mut audits = self.audits();
        self.runs.load(Ordering::Relaxed) && audits.open(suspicion)
    }

    /// The walk ends, and with it all that it would have looked at again.
    fn stop(&self) -> Vec<AuditEnding> {
        let mut audits = self.audits();
        self.runs.store(false, Ordering::Relaxed);
        audits.abandon()
    }

    fn audits(&self) -> MutexGuard<'_, Audits<Key>> {
        // A suspicion is added or taken whole: a panic elsewhere cannot leave half of one.
        self.audits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Audits until the process stops; does nothing if `freshness.audit_period` is zero.
pub fn start(core: &Arc<Core>) {
    if core.config.freshness.audit_period.is_zero() || core.audits.runs.swap(true, Ordering::Relaxed) {
        return;
    }
    let (own, stopping) = (core.clone(), core.tasks.stopping());
    core.tasks.spawn_service("audit", move || {
        let (own, stopping) = (own.clone(), stopping.clone());
        async move { stopping.run_until_cancelled(run(&own)).await }
    });
}

/// Runs until a reload switches it off.
async fn run(first: &Arc<Core>) {
    let (steps, shortest, longest) = limits::AUDIT_STEP;
    let mut period = first.config.freshness.audit_period;
    let mut walk = Walk::new(period, first.clock.now());
    let mut backlog = VecDeque::new();
    loop {
        tokio::time::sleep((period / steps).clamp(shortest, longest)).await;
        let core = &first.newest();
        let wanted = core.config.freshness.audit_period;
        if wanted.is_zero() {
            core.audits.stop().into_iter().for_each(|ending| count(core, ending));
            // Nobody would find out when it has stopped.
            core.freshness.violated(&[]);
            return;
        }
        if wanted != period {
            period = wanted;
            walk = Walk::new(period, core.clock.now());
        }
        if !switch::is_on(Rule::R17) {
            continue;
        }
        // Asks for nothing and lets go of records, so that short memory is no reason against it.
        look(core, &mut backlog);
        if !core.sheds.load(Ordering::Relaxed) {
            gather(core, &mut walk, &mut backlog);
            send(core, &mut backlog);
        }
    }
}

/// Ends the audits that announcements, or the time, have ended. Second looks go to the front of the
/// backlog.
fn look(core: &Core, backlog: &mut VecDeque<Key>) {
    let now = core.clock.now();
    let (look, violated) = {
        let mut audits = core.audits.audits();
        let worst_lag = core.config.freshness.worst_lag;
        audits.hear(&core.freshness.horizon(), now, worst_lag);
        (audits.look(now, worst_lag), audits.violated(now))
    };
    core.freshness.violated(&violated);
    look.ended.into_iter().for_each(|ending| count(core, ending));
    look.again.into_iter().for_each(|key| backlog.push_front(key));
}

/// Adds what has come due. If there is more than room, chance decides what is skipped, so that no
/// entry is skipped again and again because of where it is stored.
fn gather(core: &Core, walk: &mut Walk, backlog: &mut VecDeque<Key>) {
    let mut due = core.store.due(walk.step(core.clock.now()));
    let room = limits::AUDIT_BACKLOG.saturating_sub(backlog.len());
    if due.len() > room {
        fastrand::shuffle(&mut due);
        due.drain(room..).for_each(|_| core.metrics.audited("skipped"));
    }
    backlog.extend(due);
}

fn send(core: &Arc<Core>, backlog: &mut VecDeque<Key>) {
    for _ in 0..core.regions.left_for_audits() {
        let Ok(place) = core.audits.room.clone().try_acquire_owned() else { return };
        let Some(key) = backlog.pop_front() else { return };
        let (own, stopping) = (core.clone(), core.tasks.stopping());
        core.tasks.spawn("audit-entry", async move {
            let _place = place;
            stopping.run_until_cancelled(audit(&own, key)).await;
        });
    }
}

/// Audits what is stored under `key`, if it would be served without asking; otherwise its next
/// reader asks anyway.
async fn audit(core: &Arc<Core>, key: Key) {
    let held = core.store.get(key.as_ref()).filter(|entry| is_held(core, entry));
    let routing = held.as_ref().and_then(|entry| core.routing_of(entry));
    let (Some(entry), Some(routing)) = (held, routing) else {
        settle(core, &key, &[]);
        return;
    };
    let Some(routed) = entry.hold.routed() else { return };
    let ask = Ask {
        request: entry.request(key.as_ref().target()),
        key,
        of: Of::Route(routing.clone()),
        previous: None,
        purpose: Purpose::Background,
        no_cache: true,
        floor: None,
        alone: false,
        dropped: Arc::default(),
        through: None,
    };
    let before: Vec<Generation> = routing.snapshots().iter().map(|record| record.generation).collect();
    let asked = routed::ask_all(core, &ask, &routing).await.filter(|asked| !asked.tally.legs.is_empty());
    let Some(asked) = asked else {
        settle(core, &ask.key, &[]);
        return core.metrics.audited("skipped");
    };
    let seen = observed::seen(&asked.tally, routing.records().len(), &entry).await;
    let settled = settle(core, &ask.key, &seen);
    // Whatever replaced it meanwhile was asked for later than this audit's own replies.
    let stands = core.store.get(ask.key.as_ref()).is_some_and(|stored| Arc::ptr_eq(&stored, &entry));
    let overtaken = routing.snapshots().iter().zip(&before).any(|(now, before)| now.generation > *before);
    let caught_up = observed::caught_up(core, &asked.tally, &entry);
    let verdict =
        if stands && !overtaken { Some(observed::judge(&entry, routed, &seen, caught_up).await) } else { None };
    match &verdict {
        None if stands => count(core, AuditEnding::Announced(Duration::ZERO)),
        None => {}
        Some((_, AuditVerdict::Fresh)) => count(core, AuditEnding::Fresh),
        Some((_, AuditVerdict::Undecided)) => count(core, AuditEnding::Undecided),
        Some((_, AuditVerdict::Regressed(region))) => {
            count(core, AuditEnding::Regressed);
            core.carry_out(vec![Action::Alarm(*region, "regressed")]);
        }
        Some((held, found @ (AuditVerdict::Newer(..) | AuditVerdict::Other(_) | AuditVerdict::OtherContent(_)))) => {
            let suspicion =
                suspicion(core, &ask.key, (&entry, routed), (held.clone(), *found), (&routing, &before), &seen);
            // What its second look has ended is followed no further, unless something is newer still.
            let is_new = settled.is_none() || suspicion.certain;
            if is_new && !core.audits.follow(suspicion) {
                core.metrics.audited("unfollowed");
            }
        }
    }
    // Without versions, a single region that differs may be the one that lags. So only what all
    // agree on replaces what is stored, or what all that answer still show when none can lag any
    // more.
    let is_stale = settled.is_some_and(|settled| settled.ending == AuditEnding::Stale);
    if settled.is_some_and(|settled| settled.is_other_content)
        && let Some(route) = core.router.route(routing.route)
    {
        core.observed.route(&route.path.text, |notes| notes.other_content = Some(core.clock.now()));
    }
    let better = match verdict {
        Some((_, AuditVerdict::Newer(..))) => true,
        Some((_, AuditVerdict::Other(_))) => asked.tally.votes.unanimous || is_stale,
        Some((_, AuditVerdict::OtherContent(agreed))) => {
            asked.tally.best.as_ref().is_some_and(|best| agreed.contains(best.reply.region))
        }
        _ => false,
    };
    routed::learn(core, &ask, &routing, &asked, better);
    if better {
        background::recheck(core, &Ask { purpose: Purpose::Foreground, ..ask });
    }
}

fn is_held(core: &Core, entry: &Entry) -> bool {
    matches!(core.good_for(entry), Some(Use::Fresh | Use::Unwired | Use::Provisional | Use::Doubted))
}

/// If this is a second look at the entry, ends its audit.
fn settle(core: &Core, key: &Key, seen: &[(RegionId, Observation)]) -> Option<Settled> {
    let settled = core.audits.audits().settle(key, seen, core.clock.now())?;
    count(core, settled.ending);
    Some(settled)
}

/// R23 outside of audits: says whether a race may have brought other content under the version of
/// what was stored until then, where nothing was said of it since.
pub(super) fn is_disputed(core: &Core, ask: &Ask, routing: &Routing, tally: &Tally) -> bool {
    let Some((previous, routed)) = ask.previous.as_ref().and_then(|it| Some((it, it.hold.routed()?))) else {
        return false;
    };
    let now = routing.snapshots();
    let stands =
        |(shown, now): (&ShownRecord, &Snapshot)| now.upholds(shown.version, shown.generation) && !now.escaped;
    let stood = routed.shows.len() == now.len() && routed.shows.iter().zip(&now).all(stands);
    // Only audits look a second time.
    stood && core.audits.runs.load(Ordering::Relaxed) && observed::may_differ(previous, tally)
}

/// Compares the contents of such a race, and opens a suspicion if they differ.
pub(super) async fn follow(core: &Core, ask: &Ask, routing: &Routing, tally: &Tally) {
    let Some((previous, routed)) = ask.previous.as_ref().and_then(|it| Some((it, it.hold.routed()?))) else { return };
    let before: Vec<Generation> = routing.snapshots().iter().map(|record| record.generation).collect();
    let seen = observed::seen(tally, routing.records().len(), previous).await;
    let caught_up = observed::caught_up(core, tally, previous);
    let (held, found) = observed::judge(previous, routed, &seen, caught_up).await;
    if matches!(found, AuditVerdict::OtherContent(_)) {
        let suspicion = suspicion(core, &ask.key, (previous, routed), (held, found), (routing, &before), &seen);
        core.audits.follow(suspicion);
    }
}

fn suspicion(
    core: &Core,
    key: &Key,
    (entry, routed): (&Entry, &Routed),
    (held, found): (Observation, AuditVerdict),
    (routing, before): (&Routing, &[Generation]),
    seen: &[(RegionId, Observation)],
) -> Suspicion<Key> {
    let of = |region: RegionId| seen.iter().find(|(id, _)| *id == region).map(|(_, shows)| shows.clone());
    let (region, version, other_content) = match found {
        AuditVerdict::Newer(region, version) => (region, version, None),
        AuditVerdict::Other(region) => (region, Version::NONE, None),
        AuditVerdict::OtherContent(_) => {
            (entry.region, held.versions.first().copied().unwrap_or_default(), of(entry.region))
        }
        AuditVerdict::Fresh | AuditVerdict::Regressed(_) | AuditVerdict::Undecided => {
            (entry.region, Version::NONE, None)
        }
    };
    let (now, horizon) = (core.clock.now(), core.freshness.horizon());
    let timeline = Timeline {
        record: routing.records()[0].0,
        answered: entry.region,
        standing: routed.standing,
        held: held.versions.first().copied().unwrap_or_default(),
        requested: entry.sent,
        confirmed: routed.confirmed,
        region,
        version,
        seen: now,
        live: horizon.live(now),
        announced: None,
    };
    let records = routing.records().iter().zip(before).map(|((_, record), before)| (record.clone(), *before));
    let certain = matches!(found, AuditVerdict::Newer(..));
    let (records, epochs) = (records.collect(), horizon.epochs());
    Suspicion { key: key.clone(), held, timeline, certain, other_content, records, epochs, heard: false }
}

/// Counts an audit's end, and for each window whether the entry was fresh.
fn count(core: &Core, ending: AuditEnding) {
    core.metrics.audited(ending.word());
    for (place, window) in AUDIT_WINDOWS.iter().enumerate() {
        if let Some(fresh) = ending.within(*window) {
            core.metrics.audited_within(place, fresh);
        }
    }
    if ending == AuditEnding::Stale
        && let Some(left_out) = core.lines.stale_audits.take(core.clock.now())
    {
        tracing::warn!(left_out, "an audit saw a change that was never announced: /status lists it");
    }
}

mod observed;
#[cfg(test)]
mod tests;
