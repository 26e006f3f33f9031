//! Owns what faults do when they begin and when they end.
//!
//! Before it: the windows of a plan. After it: a world, or a sidecar, that is not what it was.
//! Invariant: a fault that takes effect is said to have fired, and none other.

use std::time::Duration;

use nearside::model::ids::RegionId;
use nearside::protocol::event::Event;

use super::super::faults::Fault;
use super::super::plan::{PUT_RIGHT, REGIONS, Window};
use super::super::property::{Property, Violation};
use super::super::subject::Subject;
use super::super::topic::Says;
use super::{Happening, Run, lock};

impl Run {
    /// The subscription is gone; it is noticed after a while.
    pub(super) fn lose(&mut self, region: usize, fault: Fault) {
        self.topics[region].subscription = None;
        self.world.fired(fault);
        self.world.tell(&[], || format!("{fault} at region {region}"));
        lock(&self.shared).checker.known.subscribed(region, None);
        self.step(Event::Lost(RegionId(region as u8)));
    }

    pub(super) async fn begins(&mut self, index: usize, now: Duration) {
        let world = self.world.clone();
        let window = world.plan.windows[index];
        world.tell(&[], || format!("{} at region {} begins", window.fault, window.region));
        match window.fault {
            Fault::SubscriptionDeleted | Fault::QueueDeleted | Fault::OneQueueLost | Fault::ResubscribeWithHole
                if self.topics[window.region].subscription.is_some() =>
            {
                self.lose(window.region, window.fault);
            }
            Fault::Suspended => {
                world.fired(window.fault);
                self.paused_until = window.until;
                world.clock.suspend(window.until - now);
            }
            Fault::ClockStep => {
                world.fired(window.fault);
                world.clock.step_wall(step_of(window.strength));
            }
            Fault::MaxInMessage => {
                world.fired(window.fault);
                let version = [u64::MAX, 1 << 61, 1_000_000][index % 3];
                self.send(window.region, window.key, Says::Jump(window.key, version), now);
            }
            Fault::MaxInReply => lock(&self.shared).checker.known.spoil(&world.plan, &window, u64::MAX, false),
            Fault::Unrouted => {
                world.fired(window.fault);
                self.send(window.region, 0, Says::Unrouted, now);
            }
            Fault::TableOverflow => {
                let mut regions = 0..world.plan.topics;
                if let Some(region) = regions.find(|region| self.topics[*region].subscription.is_some()) {
                    world.fired(window.fault);
                    self.subject.overflow(&world, region);
                    let known = &mut lock(&self.shared).checker.known;
                    // Each of these announcements proves the topic through which it comes.
                    known.heard(region, now);
                    known.lose_slots(now);
                }
            }
            Fault::EvictedMidFill => {
                world.fired(window.fault);
                self.subject.evict(0..world.plan.truth.keys());
            }
            Fault::Restart => {
                world.fired(window.fault);
                self.restart(now).await;
            }
            Fault::HotKey => world.fired(window.fault),
            Fault::PolicyRevoked => self.revoke(&window, true),
            Fault::Restored | Fault::Recreated if lock(&self.shared).checker.known.went_back(&world.plan, now) => {
                world.fired(window.fault);
            }
            _ => {}
        }
    }

    pub(super) fn ends(&mut self, index: usize) {
        let window = self.world.plan.windows[index];
        self.world.tell(&[], || format!("{} at region {} is over", window.fault, window.region));
        match window.fault {
            Fault::ClockStep => self.world.clock.step_wall(-step_of(window.strength)),
            Fault::AnnouncerDies => self.topics[window.region].restart(),
            Fault::PolicyRevoked => self.revoke(&window, false),
            Fault::LetterCase => self.check_named(&window),
            Fault::Elsewhere => {
                self.check_named(&window);
                self.at(window.until + PUT_RIGHT, Happening::Resets);
            }
            _ => {}
        }
    }

    /// Checks that a region of another environment is named where nothing else goes wrong, and one that
    /// writes keys in another letter case.
    fn check_named(&self, window: &Window) {
        if !self.world.plan.windows.iter().all(|other| other.fault == window.fault) {
            return;
        }
        let shared = &mut lock(&self.shared);
        let other_case = &shared.checker.known.other_case;
        let mut regions = (0..REGIONS).filter(|region| window.is_at(*region));
        let unnamed = regions.find(|region| match window.fault {
            Fault::LetterCase => {
                other_case.is_plain(*region, window.until) && self.subject.finds_other_case(*region) == Some(false)
            }
            _ => self.subject.is_ahead(*region) == Some(false),
        });
        if let Some(region) = unnamed {
            let text = format!("{} at region {region}, and no finding says so", window.fault);
            let violation = Violation { property: Property::Named, at: window.until, key: None, text };
            shared.checker.violation = Some(violation);
        }
    }

    /// R23 speaks of what changed under its version, and of nothing else. What a restore brings back
    /// has the version that it had.
    pub(super) fn check_content(&self) {
        let world = &self.world;
        let at = world.elapsed();
        let mut going_back = [Fault::Restored, Fault::Recreated, Fault::Backup].into_iter();
        let goes_back = going_back.any(|fault| world.plan.window(fault).is_some());
        let keeps_version = world.plan.window(Fault::SameVersion).is_some();
        let mut shared = lock(&self.shared);
        if shared.checker.violation.is_some() || shared.checker.lenient {
            return;
        }
        let text = match (keeps_version, self.subject.has_other_content()) {
            (false, true) if !goes_back => "a finding speaks of other content, and every change had its version",
            (true, false) if world.plan.windows.len() == 1 && world.plan.audit.is_some() => {
                "content changed under its version, and no finding says so"
            }
            _ => return,
        };
        shared.checker.violation =
            Some(Violation { property: Property::Named, at, key: None, text: text.to_owned() });
    }

    fn revoke(&mut self, window: &Window, revoked: bool) {
        let topics = self.topics.iter_mut().enumerate().filter(|(region, _)| window.is_at(*region));
        topics.for_each(|(_, topic)| topic.revoke(revoked));
    }

    async fn restart(&mut self, now: Duration) {
        let under_way = self.subject.stop(&mut self.left).await;
        if under_way > 0 {
            let text = format!("{under_way} fills under way after a drain");
            lock(&self.shared).checker.violation =
                Some(Violation { property: Property::Kept, at: now, key: None, text });
        }
        self.subject = Subject::new(&self.world, self.subject.design());
        lock(&self.shared).checker.known.restarted();
        for region in 0..self.world.plan.topics {
            self.topics[region].subscription = None;
            let soon = Duration::from_millis(100 + self.rng.u64(0..2_000));
            self.at(self.world.elapsed() + soon, Happening::Subscribe(region));
        }
    }
}

/// Up to twenty seconds, forwards or backwards.
fn step_of(strength: f64) -> i64 {
    ((strength * 2.0 - 1.0) * 20_000.0) as i64
}
