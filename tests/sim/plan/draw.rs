//! Owns how a plan is drawn from its seed: faults, regions, writes, reads.
//!
//! Before it: a seed and [`Wishes`]. After it: a [`Plan`]. Invariant: draws come in one order, so
//! that a seed stays the same plan.

use std::time::Duration;

use fastrand::Rng;

use super::super::faults::Fault;
use super::{Plan, Proof, REGIONS, RegionPlan, SPAN, Style, Window, Wishes, between, is_apart, loses, strays};

mod changes;
mod reads;

pub(crate) use changes::DROPPED;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Draws a plan.
pub(crate) fn draw(seed: u64, wishes: &Wishes) -> Plan {
    let rng = &mut Rng::with_seed(seed ^ 0x6e65_6172_7369_6465);
    let keys = 20 + rng.usize(0..5);
    let style = [Style::Versions, Style::Versions, Style::Etags, Style::Bare][rng.usize(0..4)];
    let style = wishes.style.unwrap_or(style);
    let proof = [Proof::Watermark, Proof::Watermark, Proof::Watermark, Proof::Path, Proof::Weak][rng.usize(0..5)];
    let proof = wishes.proof.unwrap_or(proof);
    let states = match style {
        Style::Versions => rng.f64() < 0.85,
        _ => rng.f64() < 0.4,
    };
    let topics = wishes.topics.unwrap_or(if rng.f64() < 0.2 { 1 + rng.usize(0..2) } else { REGIONS });
    let ttl = wishes.ttl.unwrap_or(secs(90 + rng.u64(0..240)));
    let mut windows = windows(rng, wishes, style, proof, keys, topics);
    windows.extend(stray(seed, wishes, keys, topics));
    windows.extend(besides(seed, 0x6c65_7474_6572, Fault::LetterCase, wishes, keys, topics));
    windows.extend(elsewhere(seed, wishes, style, &windows));
    windows.extend(same_version(seed, wishes, style));
    windows.extend(besides(seed, 0x0072_6573_6574, Fault::LateReset, wishes, keys, topics));
    windows.extend(lost_answer(seed, wishes, &windows));
    meet(&mut windows, topics);
    windows.sort_by_key(|window| window.from);
    // What is lost without a trace is made good by the TTL alone, and that is waited for.
    let silent_losses =
        windows.iter().any(|window| strays(window.fault) || proof != Proof::Watermark && loses(window.fault));
    let ttl = if silent_losses && wishes.ttl.is_none() { ttl.min(secs(120)) } else { ttl };
    // Only announced versions tell that the announcer's own nodes lag (docs/architecture.md,
    // promise 5).
    let fleet = windows.iter().any(|window| window.fault == Fault::FleetLags);
    let announces_versions = wishes.announces_versions.unwrap_or(states || fleet);
    let regions = regions(rng, style, &windows);
    let writes = changes::writes(rng, keys, &windows);
    let truth = changes::truth(rng, keys, &regions, &windows, writes);
    let puts = changes::puts(rng, &truth, style, &windows);
    let reads = reads::reads(rng, keys, &truth, &windows, &puts);
    let unheard = windows.iter().find(|window| window.fault == Fault::FirstLost);
    // Of those numbers that nobody hears some are of records that nobody reads.
    let unheard = unheard.map(|window| window.lot() % 200);
    let last = windows.iter().map(|window| window.until).max().unwrap_or(SPAN).max(SPAN);
    Plan {
        seed,
        style,
        proof,
        announces_versions,
        tombstones: wishes.tombstones.unwrap_or(rng.f64() < 0.7),
        tags_too: rng.f64() < 0.4,
        bare_304: rng.bool(),
        topics,
        strict: rng.f64() < 0.15,
        ttl,
        audit: wishes.audit.or((rng.f64() < 0.3).then(|| secs(60 + rng.u64(0..120)))),
        regions,
        windows,
        truth,
        reads,
        puts,
        unheard,
        calm: last + if silent_losses { ttl + secs(140) } else { secs(130) },
    }
}

fn regions(rng: &mut Rng, style: Style, windows: &[Window]) -> Vec<RegionPlan> {
    let fleet = windows.iter().any(|window| window.fault == Fault::FleetLags);
    let lags = fleet && style == Style::Versions;
    let quick = windows.iter().filter(|w| matches!(w.fault, Fault::LateWinner | Fault::AbsentThenLagging));
    (0..REGIONS).map(|region| region_plan(rng, quick.clone().any(|w| w.region == region), lags)).collect()
}

/// Draws a region; a quick one answers before all others and ingests after them.
fn region_plan(rng: &mut Rng, is_quick: bool, lags: bool) -> RegionPlan {
    let lag = match rng.u8(0..4) {
        _ if is_quick => ms(1_000 + rng.u64(0..5_000)),
        0 => ms(1 + rng.u64(0..50)),
        1 => ms(50 + rng.u64(0..400)),
        2 => ms(400 + rng.u64(0..2_000)),
        _ => ms(20 + rng.u64(0..200)),
    };
    RegionPlan {
        latency: if is_quick { ms(1) } else { ms(2 + rng.u64(0..80)) },
        lag,
        cache_lag: if lags { ms(200 + rng.u64(0..4_000)) } else { Duration::ZERO },
        cache_share: 0.4,
        publishers: 1 + rng.usize(0..2),
    }
}

/// Faults that make a region useless while they last: never two regions at once.
const ILLNESSES: &[Fault] =
    &[Fault::Down, Fault::Refused, Fault::Truncated, Fault::Dripping, Fault::AnnouncerDies, Fault::MassWhileDying];

/// Faults that last from the start to the end.
const LASTING: &[Fault] = &[
    Fault::LateWinner,
    Fault::AbsentThenLagging,
    Fault::FleetLags,
    Fault::RegionEtags,
    Fault::ManyUrls,
    Fault::PublisherSkew,
    Fault::AbsentAgainstPresent,
    Fault::AgedIntermediary,
    Fault::WriteThrough,
    Fault::OwnWrite,
    Fault::Part,
    Fault::TooLarge,
    Fault::Directives,
    Fault::LostAnswer,
];

fn suits(fault: Fault, style: Style, proof: Proof) -> bool {
    match fault {
        Fault::Backup | Fault::MaxInReply | Fault::MaxInMessage | Fault::FleetLags => style == Style::Versions,
        Fault::Restored | Fault::Recreated | Fault::SameVersion | Fault::Elsewhere => style == Style::Versions,
        Fault::OldNotModified => style == Style::Etags,
        Fault::RegionEtags => style != Style::Bare,
        Fault::FirstLost => proof == Proof::Watermark,
        _ => true,
    }
}

/// Wishes for what a fault needs to take effect.
pub(crate) fn suit(fault: Fault, wishes: &mut Wishes) {
    let styles = [Style::Versions, Style::Etags, Style::Bare];
    let proofs = [Proof::Watermark, Proof::Path, Proof::Weak];
    if !styles.iter().all(|style| suits(fault, *style, Proof::Watermark)) {
        wishes.style = styles.into_iter().find(|style| suits(fault, *style, Proof::Watermark));
    }
    if !proofs.iter().all(|proof| suits(fault, Style::Versions, *proof)) {
        wishes.proof = proofs.into_iter().find(|proof| suits(fault, Style::Versions, *proof));
    }
}

fn windows(rng: &mut Rng, wishes: &Wishes, style: Style, proof: Proof, keys: usize, topics: usize) -> Vec<Window> {
    let faults: Vec<Fault> = match &wishes.faults {
        Some(faults) => faults.clone(),
        None => {
            let mut pool: Vec<Fault> =
                Fault::ALL.iter().copied().filter(|fault| suits(*fault, style, proof) && !is_apart(*fault)).collect();
            rng.shuffle(&mut pool);
            pool.truncate(9 + rng.usize(0..5));
            // What was announced before a restore, and comes again after it, nobody can tell from
            // what is announced after it.
            let one_region = pool.contains(&Fault::Backup) && rng.bool();
            pool.retain(|fault| !(one_region && matches!(fault, Fault::Restored | Fault::Recreated)));
            let restored = pool.iter().any(|fault| matches!(fault, Fault::Restored | Fault::Recreated));
            pool.retain(|fault| !(restored && matches!(fault, Fault::HourLate | Fault::Replayed | Fault::Backup)));
            // Versions go back for one reason at a time.
            let restored = pool.contains(&Fault::Restored);
            pool.retain(|fault| !(restored && *fault == Fault::Recreated));
            pool
        }
    };
    let mut windows: Vec<Window> = Vec::new();
    for fault in faults {
        let mut window = Window {
            fault,
            from: between(rng, secs(90), secs(410)),
            until: Duration::ZERO,
            region: rng.usize(0..if on_topic(fault) { topics } else { REGIONS }),
            everywhere: matches!(fault, Fault::FirstLost | Fault::ReloadAll),
            key: rng.usize(0..keys),
            strength: rng.f64(),
        };
        window.until = window.from + secs(10 + rng.u64(0..35));
        if LASTING.contains(&fault) {
            (window.from, window.until) = (Duration::ZERO, SPAN);
        }
        if fault == Fault::OneLiveOneBehind {
            // Nothing is promised of a region that is further behind than `worst_lag`.
            (window.from, window.until) = (Duration::ZERO, secs(40 + rng.u64(0..18)));
        }
        shape(&mut window, proof, rng);
        let mut ill = windows.iter().filter(|other| ILLNESSES.contains(&other.fault));
        let clash = ill.find(|other| other.region != window.region).map(|other| other.region);
        if let (true, Some(region)) = (ILLNESSES.contains(&fault), clash) {
            window.region = region;
        }
        windows.push(window);
    }
    windows.retain(|window| !wishes.without.contains(&window.fault));
    windows.sort_by_key(|window| window.from);
    windows
}

/// Draws a publisher that is set up wrongly, in one seed of four. Uses dice of its own, so that
/// everything else of a seed stays the same plan.
fn stray(seed: u64, wishes: &Wishes, keys: usize, topics: usize) -> Option<Window> {
    let rng = &mut Rng::with_seed(seed ^ 0x7374_7261_7973);
    let fault = [Fault::Mistyped, Fault::Astray][rng.usize(0..2)];
    let is_drawn = rng.usize(0..4) == 0 && wishes.faults.is_none() && !wishes.without.contains(&fault);
    let mut window = Window {
        fault,
        from: Duration::ZERO,
        until: Duration::ZERO,
        region: rng.usize(0..topics),
        everywhere: false,
        key: rng.usize(0..keys),
        strength: rng.f64(),
    };
    shape(&mut window, Proof::Watermark, rng);
    is_drawn.then_some(window)
}

/// Draws a fault of a topic in one seed of five, by dice of its own (`salt`), as [`stray`].
fn besides(seed: u64, salt: u64, fault: Fault, wishes: &Wishes, keys: usize, topics: usize) -> Option<Window> {
    let rng = &mut Rng::with_seed(seed ^ salt);
    let is_drawn = rng.usize(0..5) == 0 && wishes.faults.is_none() && !wishes.without.contains(&fault);
    let region = rng.usize(0..topics);
    let (from, until, everywhere) = (Duration::ZERO, Duration::ZERO, false);
    let (key, strength) = (rng.usize(0..keys), rng.f64());
    let mut window = Window { fault, from, until, region, everywhere, key, strength };
    shape(&mut window, Proof::Watermark, rng);
    is_drawn.then_some(window)
}

/// Draws a region that belongs to another environment for a while, in one seed of three with
/// versions that never go back, by dice of its own, as [`stray`].
fn elsewhere(seed: u64, wishes: &Wishes, style: Style, windows: &[Window]) -> Option<Window> {
    let rng = &mut Rng::with_seed(seed ^ 0x6561_6874_7373);
    let fault = Fault::Elsewhere;
    let is_drawn = rng.usize(0..3) == 0 && wishes.faults.is_none() && !wishes.without.contains(&fault);
    let mut window = Window {
        fault,
        from: between(rng, secs(90), secs(290)),
        until: Duration::ZERO,
        region: rng.usize(0..REGIONS),
        everywhere: false,
        key: 0,
        strength: rng.f64(),
    };
    shape(&mut window, Proof::Watermark, rng);
    (is_drawn
        && suits(fault, style, Proof::Watermark)
        && !windows.iter().any(|window| matches!(window.fault, Fault::Restored | Fault::Recreated | Fault::Backup)))
    .then_some(window)
}

/// Draws a content that changes under its version, in one seed of four with versions.
fn same_version(seed: u64, wishes: &Wishes, style: Style) -> Option<Window> {
    let rng = &mut Rng::with_seed(seed ^ 0x7665_7273_696f);
    let fault = Fault::SameVersion;
    let is_drawn = rng.usize(0..4) == 0 && wishes.faults.is_none() && !wishes.without.contains(&fault);
    let from = between(rng, secs(90), secs(390));
    let (until, strength) = (from + secs(60), rng.f64());
    let window = Window { fault, from, until, region: 0, everywhere: true, key: 0, strength };
    (is_drawn && suits(fault, style, Proof::Watermark)).then_some(window)
}

/// Draws lost answers to writes through the sidecar, in two seeds of three.
fn lost_answer(seed: u64, wishes: &Wishes, windows: &[Window]) -> Option<Window> {
    let fault = Fault::LostAnswer;
    let writes = windows.iter().find(|window| window.fault == Fault::WriteThrough);
    let is_drawn = !seed.is_multiple_of(3) && wishes.faults.is_none() && !wishes.without.contains(&fault);
    writes.filter(|_| is_drawn).map(|window| Window { fault, ..*window })
}

/// Moves a late RESET to a region that lags, where it matters.
fn meet(windows: &mut [Window], topics: usize) {
    let lagging = windows.iter().find(|window| window.fault == Fault::LateWinner).map(|window| window.region);
    let late = windows.iter_mut().find(|window| window.fault == Fault::LateReset);
    if let (Some(region), Some(late)) = (lagging.filter(|region| *region < topics), late) {
        late.region = region;
    }
}

/// Adapts a window to its fault, where its time and place are not as for most.
fn shape(window: &mut Window, proof: Proof, rng: &mut Rng) {
    match window.fault {
        Fault::Backup => window.until = window.from + secs(20),
        // Before some regions or before all.
        Fault::AgedIntermediary => window.everywhere = window.strength < 0.7,
        // All that a new process says at first, which may be soon after we subscribed.
        Fault::FirstLost => {
            if window.strength < 0.3 {
                window.from = secs(3 + rng.u64(0..5));
            }
            window.until = window.from + secs(4 + rng.u64(0..8));
        }
        // Longer than a weak lease holds.
        Fault::Unverifiable | Fault::PolicyRevoked if proof == Proof::Weak => {
            window.everywhere = window.strength < 0.8;
            window.from = between(rng, secs(90), secs(250));
            window.until = window.from + secs(120 + rng.u64(0..100));
        }
        Fault::Unverifiable => window.everywhere = window.strength < 0.8,
        // From the start, until somebody mends the publisher.
        Fault::Mistyped | Fault::Astray | Fault::LetterCase => {
            window.everywhere = window.strength < 0.5;
            (window.from, window.until) = (Duration::ZERO, between(rng, secs(120), secs(400)));
        }
        // Long enough that somebody could see it.
        Fault::Elsewhere => {
            window.from = window.from.min(secs(290));
            window.until = window.from + secs(170);
        }
        // Long enough before the end that what they did has passed.
        Fault::MaxInMessage | Fault::MaxInReply => {
            window.from = between(rng, secs(90), secs(300));
            window.until = window.from + secs(10 + rng.u64(0..35));
        }
        // Published at its beginning, and there at its end.
        Fault::LateReset => {
            window.from = between(rng, secs(90), secs(240));
            window.until = window.from + secs(90 + rng.u64(0..130));
        }
        Fault::Restored | Fault::Recreated => {
            window.from = between(rng, secs(120), secs(300));
            window.until = window.from + secs(10 + rng.u64(0..120));
        }
        _ => {}
    }
}

/// Faults of a region's topic rather than of the region.
const fn on_topic(fault: Fault) -> bool {
    use Fault::*;
    matches!(
        fault,
        OlderAfterNewer
            | Duplicate
            | HourLate
            | Replayed
            | Lost
            | SubscriptionDeleted
            | SilentlyDead
            | IngestStalled
            | ResubscribeWithHole
            | DeletedAfterRecreation
            | MaxInMessage
            | ApplyFails
            | Undecodable
            | Unrouted
            | PolicyRevoked
            | QueueDeleted
            | OneQueueLost
            | Balancer
            | Reload
            | ReloadAll
            | AnnouncerDies
            | FirstLost
            | Unverifiable
            | Mistyped
            | Astray
            | LetterCase
            | LateReset
    )
}
