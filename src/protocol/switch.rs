//! A switch per rule, so that the simulator can show that each rule is needed. With the feature
//! `switches`, the simulator turns one rule off for a thread, and the places that carry the rule
//! out ask [`is_on`]. Without the feature every rule is on, [`is_on`] is a constant, and nothing of
//! this is left in the program.
//!
//! A rule that is off leaves what somebody would write who does not know the rule. Every other rule
//! stays on, so a simulation shows a difference only where this rule alone protects:
//!
//! | rule | what is left out when it is off, and where |
//! | --- | --- |
//! | R1 | versions are compared with no floor: an announcement puts out what is older than it, and whatever comes after it is good (`record::upholds`, `vote`, a fill's standing, `core::serve`) |
//! | R2 | a record that no entry or fill holds leaves no floor, generation or marker, and no loss (`records::shard::keep`) |
//! | R3 | fills are shared whatever was announced since; every reply is admitted, as of the generation in which it arrives (`Ask::generation`, `standing::admits`, a fill's `routed`) |
//! | R4 | no reply waits for the announcer's, and none is preferred for being the announcer's (`vote`) |
//! | R5 | what is stored is CONFIRMED, unless a slot was lost (R2) or a version is doubted (R15) (`standing::earn`) |
//! | R6 | an absence counts at once, for the full TTL, and a 200 does not beat it (`vote`, a fill's `ttl`, `core::serve`) |
//! | R7 | validators are always sent, and a 304 makes what is stored the newest version heard of (a fill's `known`, `vote`) |
//! | R8 | `Age` says nothing, and regions are not asked end to end (`vote`, a fill's `dressed`, a refetch) |
//! | R9 | a lease never ends, and a proof dates from receipt (`region`); a pause that was not counted stays uncounted (`app::ticker`) |
//! | R10 | epochs do not move; a region is still SUSPECT until its next proof (`region::move_epoch`) |
//! | R11 | a subscription is its own first proof: LIVE as soon as it is made (`region::subscribed`) |
//! | R12 | a message is acknowledged whatever came of it (`sidecar::announcements::Receipt::may_be_deleted`) |
//! | R13 | the last announcement wins: an older one lowers the floor, a copy moves the generation (`merge::announce`) |
//! | R14 | what cannot be decoded is counted, proves the path, and moves no epoch (`region::heard`); nor does what cannot be verified, and weak proof goes on beside it (`region::unverified`) |
//! | R15 | any version raises the floor, and a floor that no region reaches stays (`merge`, `records::below_floor`) |
//! | R16 | the hard TTL is ignored: an entry lives while a lease holds (`standing::assess`) |
//! | R17 | no entry is audited |
//! | R18 | RELOAD does nothing to a record (`records::recall`) |
//! | R19 | RESET does nothing to a record (`records::recall`) |
//! | LateResets, a half of R19 | a RESET forgets whatever floors there are when it comes (`recalls`, `doubts`) |
//! | R20 | a write is passed on and forgotten (`Freshness::wrote`) |
//! | LostAnswers, a half of R20 | a write whose answer is lost is nobody's (`core::write`) |
//! | R21 | every region's watermark speaks for every record type, and every region earns it the full TTL (`wiring`) |
//! | Unwired, a half of R21 | what announcements are seen to miss is kept for the full TTL (`wiring`) |
//! | R23 | equal versions are the same, whatever they show (`audit`) |
//!
//! | rule | the property it protects | the profile and the fault in which it alone does |
//! | --- | --- | --- |
//! | R1 | promise 1: never below what was told or served | versions; a region lags, and answers first after another's announcement |
//! | R2 | promise 1 for what was not held when it was announced | versions; an announcement of an absent key, then a miss at a lagging region |
//! | R3 | promise 3: no reply from before an announcement to a reader after it | ETags or neither; an announcement during a fetch, and a reader who comes after it |
//! | R4 | a reader after an announcement gets the announcer's reply while the announcer answers | ETags or neither; a lagging region answers before the announcer |
//! | R5 | a full TTL only for what cannot be behind; agreement within promise 3 | ETags or neither, or versions at start-up; one region LIVE, the change announced before that; another lags and answers first, its own topic is not heard |
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
//! | R20 | whoever writes through a sidecar reads what they wrote | any; a write, then a read that a lagging region answers first, or that joins a fill from before |
//! | LostAnswers | the same where nobody learned what became of the write | replies and announcements without versions; the answer to a write is lost, and a region lags |
//! | R21 | promise 2 where announcements miss what is read, and the soft TTL there | numbered publishers whose record type or keys are not the routes' |
//! | Unwired | the soft TTL where announcements are seen to miss what is read | one topic, whose publisher writes keys in another letter case |
//! | R23 | no stale entry stays unsampled although its version is the newest | versions; a change under the same version, which nobody announces |
//! | R19 | a restore ends with a RESET, not with a minute of labels per record | versions; every region restored from a backup, then RESET. Seen by the cap on labels |
//! | LateResets | promise 1 whenever a RESET comes | versions; a RESET that is minutes late, and a region that lags |

/// The rules of the protocol, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "docs/freshness.md says what each is, the table in protocol/mod.rs where")]
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
    R23,
    LateResets,
    LostAnswers,
    Unwired,
}

/// Whether `rule` is carried out on this thread.
#[cfg(not(feature = "switches"))]
#[inline(always)]
pub const fn is_on(_rule: Rule) -> bool {
    true
}

#[cfg(feature = "switches")]
pub use switched::{Off, is_on, off};

#[cfg(feature = "switches")]
mod switched {
    use std::cell::Cell;

    use super::Rule;

    thread_local! {
        static OFF: Cell<u32> = const { Cell::new(0) };
    }

    /// Whether `rule` is carried out on this thread.
    pub fn is_on(rule: Rule) -> bool {
        OFF.get() & bit(rule) == 0
    }

    /// Turns `rule` off on this thread for as long as the guard lives.
    #[must_use]
    pub fn off(rule: Rule) -> Off {
        OFF.set(OFF.get() | bit(rule));
        Off(rule)
    }

    #[derive(Debug)]
    pub struct Off(Rule);

    impl Drop for Off {
        fn drop(&mut self) {
            OFF.set(OFF.get() & !bit(self.0));
        }
    }

    const fn bit(rule: Rule) -> u32 {
        1 << rule as u32
    }
}

#[cfg(all(test, feature = "switches"))]
mod tests;
