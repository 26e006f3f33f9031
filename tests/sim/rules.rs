//! Owns the test of the tester: each rule of the protocol, and each guard of forms, fields and
//! batches, switched off, must be caught.
//!
//! Before it: [`super::main`]. After it: a table, rule -> property -> first seed -> faults. A
//! rule's profile is what it alone protects (the table in `src/switch.rs`). Invariant: a
//! catch counts only if the same seed is clean with the rule on.

use std::fmt;
use std::time::Duration;

use nearside::switch::{self, Guard, Rule};

use super::designs::Design;
use super::faults::Fault;
use super::plan::{Proof, Style, Wishes};
use super::property::Property;
use super::simulate;

/// Rule or guard that can be switched off.
#[derive(Clone, Copy)]
pub(crate) enum Switch {
    /// A rule of the protocol.
    Rule(Rule),
    /// A guard of forms, fields and batches.
    Guard(Guard),
}

impl Switch {
    /// Switches it off on this thread for as long as the value lives.
    fn off(self) -> switch::Off {
        match self {
            Self::Rule(rule) => switch::off(rule),
            Self::Guard(guard) => switch::off(guard),
        }
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => rule.fmt(f),
            Self::Guard(guard) => guard.fmt(f),
        }
    }
}

/// A rule, what it protects, and where it alone does.
struct Profile {
    rule: Switch,
    property: Property,
    wishes: Wishes,
}

/// A rule that was switched off, and caught.
pub(crate) struct Caught {
    /// Which.
    pub(crate) rule: Switch,
    /// Property that failed without it.
    pub(crate) property: Property,
    /// The first seed that showed it, of how many; none when no seed did.
    pub(crate) seed: Option<u64>,
    /// Faults of that seed.
    pub(crate) faults: Vec<Fault>,
    /// Explanation in words.
    pub(crate) text: String,
}

fn of(rule: Rule, property: Property, faults: &[Fault], change: fn(&mut Wishes)) -> Profile {
    let mut wishes = Wishes { faults: Some(faults.to_vec()), ..Wishes::default() };
    change(&mut wishes);
    Profile { rule: Switch::Rule(rule), property, wishes }
}

/// Profile that only readers of forms, of fields and of several keys notice.
fn of_shape(guard: Guard) -> Profile {
    use Fault::*;
    let (property, faults): (_, &[Fault]) = match guard {
        Guard::ShapeOfItsIdentity => (Property::Own, &[LateWinner]),
        Guard::BoundOfItsPart => (Property::Bounded, &[Lost, AgedIntermediary]),
        _ => (Property::Monotone, &[LateWinner, ManyUrls]),
    };
    let mut wishes = Wishes { faults: Some(faults.to_vec()), ..Wishes::default() };
    match property {
        Property::Monotone => wishes.style = Some(Style::Versions),
        Property::Bounded => one_topic(&mut wishes),
        _ => {}
    }
    Profile { rule: Switch::Guard(guard), property, wishes }
}

/// The other halves of rules that have a profile among [`profiles`].
fn halves() -> Vec<Profile> {
    use Fault::*;
    vec![
        of(Rule::R4, Property::Announced, &[Part, LateWinner], announced_only),
        of(Rule::R5, Property::Bounded, &[AgedIntermediary], watermark),
        of(Rule::R8, Property::Fenced, &[AgedIntermediary, Part], bare),
        of(Rule::R10, Property::Bounded, &[FirstLost], watermark),
        of(Rule::R14, Property::Leased, &[Unverifiable], |wishes| wishes.proof = Some(Proof::Weak)),
        of(Rule::R18, Property::Fenced, &[ReloadAll], bare),
        of(Rule::R21, Property::Bounded, &[Astray], watermark),
        of(Rule::R21, Property::Bounded, &[LetterCase], watermark),
        of(Rule::Unwired, Property::Leased, &[LetterCase], |wishes| wishes.topics = Some(1)),
        of(Rule::LateResets, Property::Monotone, &[LateReset, LateWinner], versions),
        of(Rule::LostAnswers, Property::ReadYourWrites, &[LostAnswer, WriteThrough], bare),
    ]
}

fn profiles() -> Vec<Profile> {
    use Fault::*;
    vec![
        of(Rule::R1, Property::Monotone, &[LateWinner, ManyUrls], versions),
        of(Rule::R2, Property::Monotone, &[AbsentThenLagging, EvictedMidFill, LateWinner], versions),
        of(Rule::R3, Property::Fenced, &[DuringFetch, LateReader, Slow, HotKey], bare),
        of(Rule::R4, Property::Announced, &[LateWinner], announced_only),
        of(Rule::R5, Property::Bounded, &[OneLiveOneBehind, LateWinner], one_topic),
        of(Rule::R6, Property::Present, &[AbsentAgainstPresent, LateWinner], |wishes| {
            wishes.style = Some(Style::Versions);
            wishes.announces_versions = Some(true);
            wishes.tombstones = Some(false);
        }),
        of(Rule::R7, Property::Announced, &[OldNotModified, LateWinner], |wishes| {
            wishes.style = Some(Style::Etags);
            wishes.announces_versions = Some(true);
        }),
        of(Rule::R8, Property::Fenced, &[IntermediaryAge], bare),
        of(Rule::R9, Property::Leased, &[SilentlyDead, Suspended], one_path),
        of(Rule::R10, Property::Bounded, &[Lost, Balancer], one_topic),
        of(Rule::R11, Property::Converged, &[ResubscribeWithHole], lasting),
        of(Rule::R12, Property::Converged, &[ApplyFails], lasting),
        of(Rule::R13, Property::Monotone, &[OlderAfterNewer, LateWinner], versions),
        of(Rule::R14, Property::Unread, &[Undecodable], one_path),
        of(Rule::R15, Property::Converged, &[MaxInMessage, MaxInReply], versions),
        of(Rule::R16, Property::HardTtl, &[Lost], one_path),
        of(Rule::R17, Property::Audited, &[Lost], audited),
        of(Rule::R18, Property::Fenced, &[Reload], versions),
        of(Rule::R19, Property::Converged, &[Restored], versions),
        of(Rule::R20, Property::ReadYourWrites, &[WriteThrough, LateWinner], |_| {}),
        of(Rule::R21, Property::Bounded, &[Mistyped], watermark),
        of(Rule::R23, Property::Audited, &[SameVersion], audited),
    ]
}

fn watermark(wishes: &mut Wishes) {
    wishes.proof = Some(Proof::Watermark);
}

fn versions(wishes: &mut Wishes) {
    wishes.style = Some(Style::Versions);
    wishes.announces_versions = Some(true);
}

fn bare(wishes: &mut Wishes) {
    wishes.style = Some(Style::Bare);
    wishes.announces_versions = Some(false);
}

/// Versions in announcements, and none in replies.
fn announced_only(wishes: &mut Wishes) {
    wishes.style = Some(Style::Bare);
    wishes.announces_versions = Some(true);
}

fn one_topic(wishes: &mut Wishes) {
    wishes.topics = Some(1);
    wishes.proof = Some(Proof::Watermark);
}

fn one_path(wishes: &mut Wishes) {
    wishes.topics = Some(1);
    wishes.proof = Some(Proof::Path);
}

fn lasting(wishes: &mut Wishes) {
    one_path(wishes);
    wishes.ttl = Some(Duration::from_secs(3_000));
}

fn audited(wishes: &mut Wishes) {
    one_path(wishes);
    wishes.style = Some(Style::Versions);
    wishes.ttl = Some(Duration::from_secs(600));
    wishes.audit = Some(Duration::from_secs(60));
}

/// Switches each rule off, or only `rule`, and looks for the first seed of so many that notices.
pub(crate) fn catch_all(seeds: u64, rule: Option<&str>) -> Vec<Caught> {
    let profiles: Vec<Profile> = profiles()
        .into_iter()
        .chain(halves())
        .chain(Guard::OF_SHAPES.into_iter().map(of_shape))
        .filter(|profile| rule.is_none_or(|rule| format!("{:?}", profile.rule) == rule))
        .collect();
    let half = profiles.len().div_ceil(2);
    std::thread::scope(|scope| {
        let parts: Vec<_> = profiles
            .chunks(half.max(1))
            .map(|part| {
                scope.spawn(|| {
                    part.iter()
                        .map(|profile| {
                            let caught = catch(profile, seeds);
                            let seed = caught.seed.map_or("NOT CAUGHT".to_owned(), |seed| format!("seed {seed}"));
                            eprintln!("  {:?}: {seed}", caught.rule);
                            caught
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        parts.into_iter().flat_map(|part| part.join().expect("a worker does not panic")).collect()
    })
}

fn catch(profile: &Profile, seeds: u64) -> Caught {
    let mut caught = Caught {
        rule: profile.rule,
        property: profile.property,
        seed: None,
        faults: Vec::new(),
        text: String::new(),
    };
    for seed in 0..seeds {
        let outcome = {
            let _off = profile.rule.off();
            simulate(seed, &profile.wishes, Design::Nearside, false)
        };
        let Some(violation) = outcome.checker.violation.filter(|found| found.property == profile.property) else {
            continue;
        };
        if simulate(seed, &profile.wishes, Design::Nearside, false).checker.violation.is_some() {
            caught.text = format!("seed {seed} fails with the rule on");
            continue;
        }
        caught.seed = Some(seed);
        caught.text = violation.to_string();
        caught.faults = outcome.world.noticed().fired.iter().copied().collect();
        let ours = profile.wishes.faults.clone().unwrap_or_default();
        caught.faults.retain(|fault| ours.contains(fault));
        break;
    }
    caught
}
