//! Single flight: who shares a fill. A fill is a task of the process, not of the caller who began
//! it: a caller who hangs up cancels nothing.
//!
//! For a key, a generation and a reading of the configuration, at most two shared fills are under
//! way, one of them end to end. A reader who arrives after an announcement never joins an older
//! fill (R3), and a reader who said `no-cache` never joins one that began before it came; at a
//! region's node it may, if it states the versions it knows and those come.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::ask::Ask;
use super::flights::{FillKey, FillResult, InFlight, ResultCell};
use super::leader::Leader;
use super::outcome::{Filled, Role};
use super::run::run;
use super::settings::Settings;
use crate::cache::limits::FILLS;
use crate::race::question::Purpose;
use crate::switch::{Guard, Rule, is_on};

/// After this many deadlines a fill is overdue: one to wait for its turn and one for its race. If
/// it takes longer, the whole process stood still.
const OVERDUE: u32 = 2;

/// Outcome of a reader's attempt to join a fill.
enum Join {
    Follow(ResultCell, Role),
    /// One is under way that began before the reader came, but the reader asked for a later one: it
    /// waits for this one and then comes again. All who wait so share the next.
    Next(ResultCell),
    /// The bound on fills is reached.
    Full,
}

fn key_of(settings: &Settings, ask: &Ask) -> FillKey {
    // All reads of a table are alike.
    let authoritative = settings.config.service.authoritative;
    let end_to_end = authoritative || if is_on(Rule::R3) { ask.is_end_to_end() } else { ask.no_cache };
    FillKey { key: ask.key.clone(), generation: ask.generation(), end_to_end, reading: settings.reading }
}

/// Joins the fill that `ask` wants, or begins it. Resolves when there is something to serve, or
/// when nothing can be.
///
/// A failure of the last seconds is answered from memory, so that a storm of misses does not
/// become a storm of races.
pub async fn fill(settings: &Arc<Settings>, ask: &Ask) -> (Filled, Role) {
    let fills = &settings.shared.fills;
    if let Some(failed) = remembered(settings, ask) {
        ask.withdraw();
        return (failed, Role::Remembered);
    }
    let mut ask = Cow::Borrowed(ask);
    let arrived = fills.arrivals.fetch_add(1, Ordering::Relaxed);
    loop {
        let (cell, share) = match join(settings, &ask, arrived) {
            Join::Follow(cell, share) => (cell, share),
            Join::Next(before) => {
                ask.withdraw();
                before.wait().await;
                continue;
            }
            Join::Full => {
                ask.withdraw();
                return (Filled::Busy, Role::Leader);
            }
        };
        if share == Role::Follower {
            ask.withdraw();
        }
        let FillResult { filled, purpose } = cell.wait().await.clone();
        let follows_floor = share == Role::Follower && ask.floor.is_some();
        let floor = follows_floor.then(|| ask.to_mut().floor.take()).flatten();
        if floor.is_some_and(|floor| !filled.meets(&floor)) && is_on(Guard::FollowersCompare) {
            // It may have asked before the version that the reader knows was there.
            ask.to_mut().no_cache = true;
            continue;
        }
        // A background fill may have asked fewer regions than a reader is entitled to.
        let settled = matches!(&filled, Filled::Got(got) if got.label.is_none());
        let kept_short = purpose == Purpose::Background && ask.purpose == Purpose::Foreground;
        if settled || share == Role::Leader || !kept_short {
            return (filled, share);
        }
    }
}

/// A fill for one reader, shared with nobody: the shared one brought a reply that belongs to
/// another.
pub async fn fill_alone(settings: &Arc<Settings>, ask: &Ask) -> (Filled, Role) {
    if let Some(failed) = remembered(settings, ask) {
        return (failed, Role::Remembered);
    }
    let Some((leader, cell)) = lead(settings, ask, None) else {
        return (Filled::Busy, Role::Leader);
    };
    // A task like any other fill: the reader gets its reply as soon as there is one, not when
    // the slowest attempt has ended.
    settings.shared.tasks.spawn("fill", run(leader, ask.clone()).boxed());
    (cell.wait().await.filled.clone(), Role::Leader)
}

/// Begins the fill that `ask` wants, unless it is under way, without waiting.
pub fn begin(settings: &Arc<Settings>, ask: &Ask) {
    let fills = &settings.shared.fills;
    if remembered(settings, ask).is_none() {
        join(settings, ask, fills.arrivals.load(Ordering::Relaxed));
    }
}

/// A failure of the last seconds, for all readers or for this one.
fn remembered(settings: &Settings, ask: &Ask) -> Option<Filled> {
    let (errors, generation, now) = (&settings.shared.fills.errors, ask.generation(), settings.shared.clock.now());
    errors.of(&ask.key, generation, now).or_else(|| errors.of(&ask.own_key()?, generation, now))
}

/// Joins or begins a fill for a reader who came at `arrived`, without waiting.
fn join(settings: &Arc<Settings>, ask: &Ask, arrived: u64) -> Join {
    let fills = &settings.shared.fills;
    let fill_key = key_of(settings, ask);
    let mut shard = fills.shard(&fill_key);
    // An end-to-end reply also serves those who did not ask for one.
    let better = FillKey { end_to_end: true, ..fill_key.clone() };
    if let Some(current) = shard.get(&fill_key).or_else(|| shard.get(&better)) {
        if let (Purpose::Foreground, Some(wanted)) = (ask.purpose, &current.wanted) {
            wanted.cancel();
        }
        let overdue = settings.shared.clock.now() > current.until;
        let insists = ask.insists() && ask.floor.is_none() && is_on(Guard::InsistingReadsAnew);
        return if insists && current.began < arrived || overdue {
            Join::Next(current.cell.clone())
        } else {
            Join::Follow(current.cell.clone(), Role::Follower)
        };
    }
    let wanted = (ask.purpose == Purpose::Background).then(CancellationToken::new);
    let Some((leader, cell)) = lead(settings, ask, Some(wanted.clone())) else {
        return Join::Full;
    };
    let began = fills.arrivals.fetch_add(1, Ordering::Relaxed);
    let until = settings.shared.clock.now() + OVERDUE * settings.regions.deadline();
    shard.insert(fill_key, InFlight { cell: cell.clone(), began, until, wanted });
    drop(shard);
    // Boxed before it is handed around, because it is large.
    settings.shared.tasks.spawn("fill", run(leader, ask.clone()).boxed());
    Join::Follow(cell, Role::Leader)
}

/// `shared` is `None` for a fill that nobody else joins.
fn lead(
    settings: &Arc<Settings>,
    ask: &Ask,
    shared: Option<Option<CancellationToken>>,
) -> Option<(Leader, ResultCell)> {
    let fills = &settings.shared.fills;
    if fills.under_way.fetch_add(1, Ordering::Relaxed) >= FILLS {
        fills.under_way.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    let cell = ResultCell::default();
    let leader = Leader {
        settings: settings.clone(),
        fill_key: key_of(settings, ask),
        own_key: ask.own_key(),
        cell: cell.clone(),
        purpose: ask.purpose,
        shared: shared.is_some(),
        wanted: shared.flatten(),
        counted: true,
        turn: None,
    };
    Some((leader, cell))
}
