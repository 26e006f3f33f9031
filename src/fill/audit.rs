//! Compares what is stored with all regions, one entry after the other (R17).
//! [`crate::protocol::audit`] judges and measures; metrics and `/status` report. If an audit finds
//! something better, it is kept as after any fill.
//!
//! Every routed entry that is stored throughout a `freshness.audit_period` comes due once in it,
//! and is then asked about or counted as skipped. What is due waits for the budget at most as long
//! as the backlog takes: 26 s at the smallest budget. Audits send nothing beyond their share of the
//! background attempts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::ask::{Ask, Routing};
use super::effects::apply_actions;
use super::lending::with_lent;
use super::limits;
use super::routed;
use super::settings::{Later, Settings};
use super::stored::{good_for, routing_of};
use crate::cache::entry::Entry;
use crate::cache::key::Key;
use crate::model::ids::{Generation, RegionId, Version};
use crate::protocol::audit::{AuditEnding, AuditVerdict, Observation, Settled, Suspicion, Timeline, Walk};
use crate::protocol::event::Action;
use crate::protocol::event::Alarm;
use crate::protocol::holding::Routed;
use crate::protocol::limits::AUDIT_WINDOWS;
use crate::protocol::standing::Use;
use crate::race::Tally;
use crate::race::question::Purpose;
use crate::switch::{Rule, is_on};
use crate::telemetry::metrics::audits::AuditResult;

/// Audits until the process stops; does nothing if `freshness.audit_period` is zero.
pub fn start(settings: &Arc<Settings>) {
    if settings.config.freshness.audit_period.is_zero() || settings.shared.auditor.runs.swap(true, Ordering::Relaxed)
    {
        return;
    }
    let (own, stopping) = (settings.clone(), settings.shared.tasks.stopping());
    settings.shared.tasks.spawn_service("audit", move || {
        let (own, stopping) = (own.clone(), stopping.clone());
        async move { stopping.run_until_cancelled(run(&own)).await }
    });
}

/// Runs until a reload switches it off.
async fn run(first: &Arc<Settings>) {
    let (steps, shortest, longest) = limits::AUDIT_STEP;
    let mut period = first.config.freshness.audit_period;
    let mut walk = Walk::new(period, first.shared.clock.now());
    let mut backlog = VecDeque::new();
    loop {
        tokio::time::sleep((period / steps).clamp(shortest, longest)).await;
        let settings = &first.newest();
        let wanted = settings.config.freshness.audit_period;
        if wanted.is_zero() {
            settings.shared.auditor.stop().into_iter().for_each(|ending| count(settings, ending));
            // Nobody would find out when it has stopped.
            settings.shared.freshness.violated(&[]);
            return;
        }
        if wanted != period {
            period = wanted;
            walk = Walk::new(period, settings.shared.clock.now());
        }
        if !is_on(Rule::R17) {
            continue;
        }
        // Asks for nothing and lets go of records, so that short memory is no reason against it.
        look(settings, &mut backlog);
        if !settings.shared.memory.is_short() {
            gather(settings, &mut walk, &mut backlog);
            send(settings, &mut backlog);
        }
    }
}

/// Ends the audits that announcements, or the time, have ended. Second looks go to the front of the
/// backlog.
fn look(settings: &Settings, backlog: &mut VecDeque<Key>) {
    let now = settings.shared.clock.now();
    let (look, violated) = {
        let mut audits = settings.shared.auditor.audits();
        let worst_lag = settings.config.freshness.worst_lag;
        audits.hear(&settings.shared.freshness.region_views(), now, worst_lag);
        (audits.look(now, worst_lag), audits.violated(now))
    };
    settings.shared.freshness.violated(&violated);
    look.ended.into_iter().for_each(|ending| count(settings, ending));
    look.again.into_iter().for_each(|key| backlog.push_front(key));
}

/// Adds what has come due. If there is more than room, chance decides what is skipped, so that no
/// entry is skipped again and again because of where it is stored.
fn gather(settings: &Settings, walk: &mut Walk, backlog: &mut VecDeque<Key>) {
    let mut due = settings.shared.store.due(walk.step(settings.shared.clock.now()));
    let room = limits::AUDIT_BACKLOG.saturating_sub(backlog.len());
    if due.len() > room {
        fastrand::shuffle(&mut due);
        due.drain(room..).for_each(|_| settings.shared.metrics.audits.audited(AuditResult::Skipped));
    }
    backlog.extend(due);
}

fn send(settings: &Arc<Settings>, backlog: &mut VecDeque<Key>) {
    for _ in 0..settings.regions.left_for_audits() {
        let Ok(place) = settings.shared.auditor.room.clone().try_acquire_owned() else { return };
        let Some(key) = backlog.pop_front() else { return };
        let (own, stopping) = (settings.clone(), settings.shared.tasks.stopping());
        settings.shared.tasks.spawn("audit-entry", async move {
            let _place = place;
            stopping.run_until_cancelled(audit(&own, key)).await;
        });
    }
}

/// Audits what is stored under `key`, if it would be served without asking; otherwise its next
/// reader asks anyway.
async fn audit(settings: &Arc<Settings>, key: Key) {
    let held = settings.shared.store.get(key.as_ref()).filter(|entry| is_held(settings, entry));
    let routing = held.as_ref().and_then(|entry| routing_of(settings, entry));
    let (Some(entry), Some(routing)) = (held, routing) else {
        settle(settings, &key, &[]);
        return;
    };
    let Some(routed) = entry.validity.routed() else { return };
    let request = entry.request(key.as_ref().target());
    let Some(ask) = with_lent(settings, Ask::again(key.clone(), request, routing.clone())) else {
        settle(settings, &key, &[]);
        return settings.shared.metrics.audits.audited(AuditResult::Skipped);
    };
    let before: Vec<Generation> = routing.snapshots().iter().map(|record| record.generation).collect();
    let asked = routed::ask_all(settings, &ask, &routing).await.filter(|asked| !asked.tally.attempts.is_empty());
    let Some(asked) = asked else {
        settle(settings, &ask.key, &[]);
        return settings.shared.metrics.audits.audited(AuditResult::Skipped);
    };
    let seen = observed::seen(&asked.tally, routing.records().len(), &entry).await;
    let settled = settle(settings, &ask.key, &seen);
    // Whatever replaced it meanwhile was asked for later than this audit's own replies.
    let stands = settings.shared.store.get(ask.key.as_ref()).is_some_and(|stored| Arc::ptr_eq(&stored, &entry));
    let overtaken = routing.snapshots().iter().zip(&before).any(|(now, before)| now.generation > *before);
    let caught_up = observed::caught_up(settings, &asked.tally, &entry);
    let verdict =
        if stands && !overtaken { Some(observed::judge(&entry, routed, &seen, caught_up).await) } else { None };
    match &verdict {
        None if stands => count(settings, AuditEnding::Announced(Duration::ZERO)),
        None => {}
        Some((_, AuditVerdict::Fresh)) => count(settings, AuditEnding::Fresh),
        Some((_, AuditVerdict::Undecided)) => count(settings, AuditEnding::Undecided),
        Some((_, AuditVerdict::Regressed(region))) => {
            count(settings, AuditEnding::Regressed);
            apply_actions(settings, vec![Action::Alarm(*region, Alarm::Regressed)]);
        }
        Some((held, found @ (AuditVerdict::Newer(..) | AuditVerdict::Other(_) | AuditVerdict::OtherContent(_)))) => {
            let audited = Audited { entry: &entry, routed, held: held.clone(), found: *found, seen: &seen };
            let suspicion = suspicion(settings, &ask.key, audited, &routing, &before);
            // What its second look has ended is followed no further, unless something is newer still.
            let is_new = settled.is_none() || suspicion.has_newer_version;
            if is_new && !settings.shared.auditor.follow(suspicion) {
                settings.shared.metrics.audits.audited(AuditResult::Unfollowed);
            }
        }
    }
    // Without versions, a single region that differs may be the one that lags. So only what all
    // agree on replaces what is stored, or what all that answer still show when none can lag any
    // more.
    let is_stale = settled.is_some_and(|settled| settled.ending == AuditEnding::Stale);
    if settled.is_some_and(|settled| settled.is_other_content)
        && let Some(route) = settings.router.route(routing.route)
    {
        settings
            .shared
            .observed
            .route(&route.path.text, |notes| notes.other_content = Some(settings.shared.clock.now()));
    }
    let better = match verdict {
        Some((_, AuditVerdict::Newer(..))) => true,
        Some((_, AuditVerdict::Other(_))) => asked.tally.votes.unanimous || is_stale,
        Some((_, AuditVerdict::OtherContent(agreed))) => {
            asked.tally.best.as_ref().is_some_and(|best| agreed.contains(best.reply.region))
        }
        _ => false,
    };
    routed::learn(settings, &ask, &routing, &asked, better);
    if better {
        (settings.follow_up)(settings, Later::Recheck(&Ask { purpose: Purpose::Foreground, ..ask }));
    }
}

fn is_held(settings: &Settings, entry: &Entry) -> bool {
    matches!(good_for(settings, entry), Some(Use::Fresh | Use::Unwired | Use::Provisional | Use::Doubted))
}

/// If this is a second look at the entry, ends its audit.
fn settle(settings: &Settings, key: &Key, seen: &[(RegionId, Observation)]) -> Option<Settled> {
    let settled = settings.shared.auditor.audits().decide_second_look(key, seen, settings.shared.clock.now())?;
    count(settings, settled.ending);
    Some(settled)
}

/// R23 outside of audits: says whether a race may have brought other content under the version of
/// what was stored until then, where nothing was said of it since.
pub(super) fn is_disputed(settings: &Settings, ask: &Ask, routing: &Routing, tally: &Tally) -> bool {
    let Some((previous, routed)) = ask.previous.as_ref().and_then(|it| Some((it, it.validity.routed()?))) else {
        return false;
    };
    let now = routing.snapshots();
    let stood = routed.shows.len() == now.len()
        && routed
            .shows
            .iter()
            .zip(&now)
            .all(|(shown, now)| now.matches(shown.version, shown.generation) && !now.escaped);
    // Only audits look a second time.
    stood && settings.shared.auditor.runs.load(Ordering::Relaxed) && observed::may_differ(previous, tally)
}

/// Compares the contents of such a race, and opens a suspicion if they differ.
pub(super) async fn follow(settings: &Settings, ask: &Ask, routing: &Routing, tally: &Tally) {
    let Some((previous, routed)) = ask.previous.as_ref().and_then(|it| Some((it, it.validity.routed()?))) else {
        return;
    };
    let before: Vec<Generation> = routing.snapshots().iter().map(|record| record.generation).collect();
    let seen = observed::seen(tally, routing.records().len(), previous).await;
    let caught_up = observed::caught_up(settings, tally, previous);
    let (held, found) = observed::judge(previous, routed, &seen, caught_up).await;
    if matches!(found, AuditVerdict::OtherContent(_)) {
        let audited = Audited { entry: previous, routed, held, found, seen: &seen };
        let suspicion = suspicion(settings, &ask.key, audited, routing, &before);
        settings.shared.auditor.follow(suspicion);
    }
}

/// An entry, and what it was found to be beside the replies that an audit has `seen`.
struct Audited<'a> {
    entry: &'a Entry,
    routed: &'a Routed,
    held: Observation,
    found: AuditVerdict,
    seen: &'a [(RegionId, Observation)],
}

fn suspicion(
    settings: &Settings,
    key: &Key,
    audited: Audited<'_>,
    routing: &Routing,
    before: &[Generation],
) -> Suspicion<Key> {
    let Audited { entry, routed, held, found, seen } = audited;
    let answered = seen.iter().find(|(id, _)| *id == entry.region).map(|(_, shows)| shows);
    let (region, version, other_content) = match found {
        AuditVerdict::Newer(region, version) => (region, version, None),
        AuditVerdict::Other(region) => (region, Version::NONE, None),
        AuditVerdict::OtherContent(_) => {
            (entry.region, held.versions.first().copied().unwrap_or_default(), answered.cloned())
        }
        AuditVerdict::Fresh | AuditVerdict::Regressed(_) | AuditVerdict::Undecided => {
            (entry.region, Version::NONE, None)
        }
    };
    let (now, region_views) = (settings.shared.clock.now(), settings.shared.freshness.region_views());
    let timeline = Timeline {
        record: routing.records()[0].0,
        answered: entry.region,
        standing: routed.standing,
        held: held.versions.first().copied().unwrap_or_default(),
        requested: entry.sent,
        confirmed: routed.confirmed,
        region,
        version,
        first_seen_at: now,
        live: region_views.live(now),
        announced: None,
    };
    let records = routing.records().iter().zip(before).map(|((_, record), before)| (record.clone(), *before));
    let has_newer_version = matches!(found, AuditVerdict::Newer(..));
    let (records, epochs) = (records.collect(), region_views.epochs());
    Suspicion {
        key: key.clone(),
        held,
        timeline,
        has_newer_version,
        other_content,
        records,
        epochs,
        announcement_due: false,
    }
}

/// Counts an audit's end, and for each window whether the entry was fresh.
fn count(settings: &Settings, ending: AuditEnding) {
    settings.shared.metrics.audits.audited(ending.into());
    for (place, window) in AUDIT_WINDOWS.iter().enumerate() {
        if let Some(fresh) = ending.within(*window) {
            settings.shared.metrics.audits.audited_within(place, fresh);
        }
    }
    if ending == AuditEnding::Stale
        && let Some(suppressed) = settings.shared.log_limits.stale_audits.admit(settings.shared.clock.now())
    {
        tracing::warn!(suppressed, "an audit saw a change that was never announced: /status lists it");
    }
}

mod observed;
#[cfg(test)]
mod tests;
