//! Owns how old an answer may be: by its bound, by its TTLs and leases, by what nobody could read,
//! by the audit.

use std::time::Duration;

use super::super::answer::Answer;
use super::super::faults::Fault;
use super::super::plan::{Plan, Style};
use super::super::property::Property;
use super::{Checker, near};

impl Checker {
    /// R17: what every region has surpassed is found within a period of the audit and the time to
    /// ask.
    pub(super) fn check_audit(&mut self, plan: &Plan, answer: &Answer, key: usize, position: usize) {
        use Fault::{AgedIntermediary, Backup, MaxInMessage, MaxInReply, Recreated, Restart, Restored, Suspended};
        let Some(period) = plan.audit.filter(|_| {
            plan.style == Style::Versions
                && !plan.windows.iter().any(|w| {
                    matches!(
                        w.fault,
                        Suspended
                            | Restart
                            | Backup
                            | MaxInMessage
                            | MaxInReply
                            | Restored
                            | Recreated
                            | AgedIntermediary
                    )
                })
        }) else {
            return;
        };
        let Some(surpassed) = plan.truth.last_ingest_after(key, position) else { return };
        let late = answer.ended.saturating_sub(surpassed + period + Duration::from_secs(45));
        if !late.is_zero() && answer.label().is_none() && plan.truth.is_present(key, position) {
            self.violate(Property::Audited, answer, Some(key), || {
                format!(
                    "k{key} at position {position}: all regions have had more for {:.0} s beyond",
                    late.as_secs_f64()
                )
            });
        }
    }

    /// Promise 2, for whatever states a bound, labelled or not.
    pub(super) fn check_bound(&mut self, plan: &Plan, answer: &Answer, key: usize, position: usize) {
        let Some(bound) = answer.bound() else { return };
        // A version that is nobody's is none, and then only its own freshness speaks for a node of
        // the announcer's (docs/architecture.md, promise 5).
        if self.known.is_doubtful(plan, key, answer.ended)
            && plan.regions.iter().any(|region| !region.cache_lag.is_zero())
        {
            return;
        }
        // A region that announces changes which its restored data do not show yet is another: where
        // announcements state no version, what all regions showed then stays until its TTL is over.
        let mut backups = plan.windows.iter().filter(|w| w.fault == Fault::Backup);
        if !plan.announces_versions && backups.any(|w| w.from <= answer.ended) {
            return;
        }
        if self.known.other_case.is_hidden(plan, key, answer.ended) {
            return;
        }
        self.tallies.bounds = (self.tallies.bounds.0 + bound.as_secs(), self.tallies.bounds.1 + 1);
        let since = answer.ended.saturating_sub(bound + slack(plan, answer.ended));
        let missed = (position + 1..=plan.truth.newest(key, since)).find(|position| {
            plan.truth.write_of(key, *position).is_none_or(|write| {
                self.known.is_announced(write) && !self.known.is_unheard(plan, write, answer.ended)
                    || self.known.is_reloaded(&plan.truth, write) && write.position == *position + 1
            })
        });
        if let Some(missed) = missed {
            let at = plan.truth.write_of(key, missed).map_or(Duration::ZERO, |write| write.at);
            self.violate(Property::Bounded, answer, Some(key), || {
                let (bound, age) = (bound.as_secs(), (answer.ended - at).as_secs_f64());
                format!(
                    "k{key} at position {position} with bound={bound}, but {missed} was written {age:.3} s before"
                )
            });
        }
    }

    pub(super) fn check_age(&mut self, plan: &Plan, answer: &Answer, asked: Duration) {
        let age = answer.began.saturating_sub(asked);
        if age > plan.ttl {
            self.violate(Property::HardTtl, answer, None, || format!("it is {:.1} s old", age.as_secs_f64()));
        }
        let stepped = plan.windows.iter().any(|w| w.fault == Fault::ClockStep && near(w, answer.ended));
        let soft = Duration::from_secs(30);
        if age > soft && !stepped && !self.known.leases(answer.began) {
            self.violate(Property::Leased, answer, None, || {
                format!("nothing proves that messages arrive, and it is {:.1} s old", age.as_secs_f64())
            });
        }
        if age > soft && self.known.other_case.is_all_plain(plan, answer.began) {
            self.violate(Property::Leased, answer, None, || {
                format!("announcements are seen to miss it, and it is {:.1} s old", age.as_secs_f64())
            });
        }
        let short = age <= soft && answer.line.contains("detail=provisional");
        // As long as one topic says nothing of the kind, it vouches.
        let unread: Option<Vec<Duration>> = (0..plan.topics)
            .map(|of| {
                let unread = self.known.unread.iter().rev().filter(|(_, region)| *region == of).map(|(at, _)| *at);
                unread.filter(|at| *at > asked).find(|at| *at + Duration::from_secs(11) < answer.began)
            })
            .collect();
        if let Some(unread) = unread.and_then(|unread| unread.into_iter().min()).filter(|_| !short) {
            self.violate(Property::Unread, answer, None, || {
                format!(
                    "asked at {:.3}, something unreadable came at {:.3}",
                    asked.as_secs_f64(),
                    unread.as_secs_f64()
                )
            });
        }
    }
}

/// Slack of a bound for a wrong clock, which nobody can detect.
fn slack(plan: &Plan, at: Duration) -> Duration {
    let stepped = plan.windows.iter().any(|window| window.fault == Fault::ClockStep && near(window, at));
    let skewed = plan.windows.iter().any(|window| window.fault == Fault::PublisherSkew);
    let step = if stepped { Duration::from_secs(21) } else { Duration::ZERO };
    step + if skewed { Duration::from_secs(6) } else { Duration::ZERO }
}
