//! One publisher's numbering: which of its messages have arrived, and through when all of them have
//! (R10).
//!
//! The watermark never claims a time whose announcements have not all arrived or been written off.
//! A hole that is written off is reported exactly once, so that the region's epoch moves for it.

use std::collections::VecDeque;

use crate::model::time::{Moment, Wall};
use crate::protocol::limits;

#[derive(Debug)]
pub(crate) struct Publisher {
    /// The highest number known to exist.
    top: u64,
    /// Numbers up to `top` that have not arrived, oldest hole first.
    holes: VecDeque<Hole>,
    /// Heartbeats that wait for a hole before their number to close.
    waiting: VecDeque<(u64, Through)>,
    through: Option<Through>,
    /// The newest heartbeat, by its time of publication, and its number.
    beat: Option<(Wall, u64)>,
    /// Time at which its newest message was published.
    heard: Moment,
    signed_off: bool,
}

/// Everything ingested through this time is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Through {
    /// On the region's calendar.
    pub(crate) wall: Wall,
    /// On our clock.
    pub(crate) at: Moment,
}

#[derive(Clone, Copy, Debug)]
struct Hole {
    first: u64,
    last: u64,
    since: Moment,
    /// It lies before the first message received from its publisher.
    past: bool,
}

/// Finding from a message's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Nothing that a few seconds may not mend.
    InOrder,
    /// More holes than are remembered: messages must count as lost.
    TooManyHoles,
    /// The publisher of this name counts from the start again: what it sent before that may be
    /// lost.
    Restarted,
    /// Too many holes in the messages before the first one received: that past is written off.
    PastMissed,
}

impl Publisher {
    /// A publisher of which nothing was received before, first in a message published `at` with
    /// this number. No number tells whether what it said earlier was published before we listened
    /// or was lost on its way to us. So all of it is one hole, the past, which
    /// [`super::publishers`] does not leave open for long.
    pub(crate) fn first_heard(number: u64, heartbeat: bool, at: Moment, now: Moment) -> Self {
        let top = if heartbeat { number } else { number.saturating_sub(1) };
        let past = (top > 0).then_some(Hole { first: 1, last: top, since: now, past: true });
        Self {
            top,
            holes: past.into_iter().collect(),
            waiting: VecDeque::new(),
            through: None,
            beat: None,
            heard: at,
            signed_off: false,
        }
    }

    /// A message of it arrived that was published `at`.
    pub(crate) fn note_message(&mut self, at: Moment) {
        if at >= self.heard {
            self.heard = at;
            self.signed_off = false;
        }
    }

    /// Time at which its newest message was published.
    pub(crate) const fn last_heard(&self) -> Moment {
        self.heard
    }

    pub(crate) fn announced(&mut self, number: u64, now: Moment) -> Numbers {
        if number > self.top {
            let missing = self.top + 1;
            self.top = number;
            return self.miss(missing, number - 1, now);
        }
        let Some(place) = self.holes.iter().position(|hole| (hole.first..=hole.last).contains(&number)) else {
            return Numbers::InOrder;
        };
        let hole = self.holes[place];
        self.holes.remove(place);
        let after = Hole { first: number + 1, ..hole };
        let before = Hole { last: number.saturating_sub(1), ..hole };
        for part in [after, before] {
            if part.first <= part.last && part.last > 0 {
                self.holes.insert(place, part);
            }
        }
        self.settle();
        self.bounded()
    }

    /// A heartbeat arrived; `number` is the last that its publisher gave before `published`.
    pub(crate) fn beat(&mut self, number: u64, published: Wall, through: Option<Through>, now: Moment) -> Numbers {
        let mut numbers = Numbers::InOrder;
        match self.beat {
            Some((newest, last)) if published > newest && number < last => {
                self.restart(number);
                numbers = Numbers::Restarted;
            }
            Some((newest, _)) if published < newest => {}
            _ => self.beat = Some((published, number)),
        }
        if number > self.top {
            let missing = self.top + 1;
            self.top = number;
            numbers = self.miss(missing, number, now);
        }
        if numbers == Numbers::Restarted {
            self.beat = Some((published, number));
        }
        if let Some(through) = through {
            if self.waiting.len() >= limits::WAITING_HEARTBEATS {
                // The later ones say more. Losing the first only delays the watermark.
                self.waiting.pop_front();
            }
            self.waiting.push_back((number, through));
            self.settle();
        }
        numbers
    }

    /// From now on its silence is expected, until a message published later takes that back.
    pub(crate) fn sign_off(&mut self) {
        self.signed_off = true;
    }

    /// Gives up on holes that stayed open for the hole window. Returns whether there were any.
    pub(crate) fn write_off(&mut self, now: Moment) -> bool {
        let before = self.holes.len();
        self.holes.retain(|hole| now.since(hole.since) < limits::HOLE_WINDOW);
        let any = self.holes.len() < before;
        if any {
            self.settle();
        }
        any
    }

    /// Since when its past has been missing.
    pub(crate) fn past(&self) -> Option<Moment> {
        self.holes.iter().filter(|hole| hole.past).map(|hole| hole.since).min()
    }

    /// The epoch has moved, so nothing that its past could contradict is vouched for any more.
    pub(crate) fn forgive_past(&mut self) {
        if self.past().is_some() {
            self.holes.retain(|hole| !hole.past);
            self.settle();
        }
    }

    /// Time at which the oldest hole opened.
    pub(crate) fn oldest_hole(&self) -> Option<Moment> {
        self.holes.iter().map(|hole| hole.since).min()
    }

    /// True if a message came in the last minute and it has not signed off.
    pub(crate) fn is_active(&self, now: Moment) -> bool {
        !self.signed_off && now.since(self.heard) <= limits::ACTIVE_PUBLISHER
    }

    /// Takes back the claim of a publisher that fell silent without signing off. Returns whether
    /// there was one.
    pub(crate) fn withdraw(&mut self, now: Moment) -> bool {
        let silent = !self.signed_off && !self.is_active(now);
        silent && self.through.take().is_some()
    }

    pub(crate) const fn through(&self) -> Option<Through> {
        self.through
    }

    fn miss(&mut self, first: u64, last: u64, now: Moment) -> Numbers {
        if first <= last {
            self.holes.push_back(Hole { first, last, since: now, past: false });
        }
        self.bounded()
    }

    fn bounded(&mut self) -> Numbers {
        if self.holes.len() <= limits::HOLES_PER_PUBLISHER {
            return Numbers::InOrder;
        }
        if self.past().is_some() {
            self.forgive_past();
            return Numbers::PastMissed;
        }
        self.holes.clear();
        self.settle();
        Numbers::TooManyHoles
    }

    fn restart(&mut self, number: u64) {
        self.top = number;
        self.holes.clear();
        self.waiting.clear();
    }

    /// Heartbeats with nothing missing before them become the watermark.
    fn settle(&mut self) {
        let lowest = self.holes.iter().map(|hole| hole.first).min().unwrap_or(u64::MAX);
        for (_, said) in self.waiting.iter().filter(|(number, _)| *number < lowest) {
            if self.through.is_none_or(|known| known.wall < said.wall) {
                self.through = Some(*said);
            }
        }
        self.waiting.retain(|(number, _)| *number >= lowest);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(1_000 + seconds)
    }

    fn through(seconds: u64) -> Through {
        Through { wall: Wall::from_millis(seconds * 1_000), at: at(seconds) }
    }

    fn beat(publisher: &mut Publisher, number: u64, seconds: u64) -> Numbers {
        publisher.beat(number, Wall::from_millis(seconds * 1_000), Some(through(seconds)), at(seconds))
    }

    impl Publisher {
        fn forgiven(mut self) -> Self {
            self.forgive_past();
            self
        }
    }

    #[test]
    fn watermark_waits_for_all_earlier_numbers() {
        let mut publisher = Publisher::first_heard(10, false, at(0), at(0)).forgiven();
        publisher.announced(10, at(0));
        beat(&mut publisher, 12, 5);
        assert_eq!(publisher.through(), None);
        publisher.announced(12, at(5));
        assert_eq!(publisher.through(), None, "11 is missing");
        publisher.announced(11, at(6));
        assert_eq!(publisher.through(), Some(through(5)));
        assert_eq!(publisher.oldest_hole(), None);
    }

    /// R10.
    #[test]
    fn hole_is_lost_after_ten_seconds() {
        let mut publisher = Publisher::first_heard(1, false, at(0), at(0));
        publisher.announced(1, at(0));
        beat(&mut publisher, 2, 5);
        assert!(!publisher.write_off(at(14)));
        assert_eq!(publisher.through(), None);
        assert!(publisher.write_off(at(15)));
        assert!(!publisher.write_off(at(30)));
        assert_eq!(publisher.through(), Some(through(5)), "what is lost is answered by the epoch");
    }

    /// R10: a heartbeat says what must have arrived by now, so the loss of the last message is
    /// seen.
    #[test]
    fn heartbeat_reveals_missing_last_announcement() {
        let mut publisher = Publisher::first_heard(5, true, at(0), at(0)).forgiven();
        beat(&mut publisher, 5, 0);
        assert_eq!(publisher.oldest_hole(), None, "what came before us is not missing");
        beat(&mut publisher, 6, 5);
        assert_eq!(publisher.oldest_hole(), Some(at(5)));
    }

    /// R10: whatever the number, the past is one interval. Copies of it may close it, or split it
    /// no further than any other hole.
    #[test]
    fn publishers_past_is_one_bounded_hole() {
        let mut publisher = Publisher::first_heard(1_000_000, false, at(3), at(4));
        publisher.announced(1_000_000, at(4));
        assert_eq!((publisher.past(), publisher.holes.len()), (Some(at(4)), 1));
        assert_eq!(beat(&mut publisher, 1_000_000, 5), Numbers::InOrder);
        assert_eq!(publisher.through(), None, "it may have said anything");
        let numbers: Vec<Numbers> =
            (1..=limits::HOLES_PER_PUBLISHER as u64).map(|n| publisher.announced(2 * n, at(6))).collect();
        let (last, rest) = numbers.split_last().unwrap();
        assert!(rest.iter().all(|numbers| *numbers == Numbers::InOrder));
        assert_eq!((*last, publisher.past(), publisher.through()), (Numbers::PastMissed, None, Some(through(5))));
    }

    #[test]
    fn new_publisher_counts_from_number_one() {
        let mut publisher = Publisher::first_heard(3, false, at(0), at(0));
        publisher.announced(3, at(0));
        publisher.announced(1, at(1));
        assert_eq!(publisher.oldest_hole(), Some(at(0)));
        publisher.announced(2, at(1));
        assert_eq!(publisher.oldest_hole(), None);
    }

    #[test]
    fn renumbering_from_start_is_restart() {
        let mut publisher = Publisher::first_heard(500, true, at(0), at(0)).forgiven();
        assert_eq!(beat(&mut publisher, 500, 0), Numbers::InOrder);
        assert_eq!(beat(&mut publisher, 500, 5), Numbers::InOrder);
        assert_eq!(publisher.beat(400, Wall::from_millis(1_000), None, at(6)), Numbers::InOrder, "an old copy");
        assert_eq!(beat(&mut publisher, 2, 10), Numbers::Restarted);
        publisher.announced(4, at(11));
        assert_eq!(publisher.oldest_hole(), Some(at(11)), "3 is missing");
    }

    #[test]
    fn too_many_holes_are_loss() {
        let mut publisher = Publisher::first_heard(1, false, at(0), at(0));
        publisher.announced(1, at(0));
        let numbers: Vec<Numbers> =
            (1..=limits::HOLES_PER_PUBLISHER as u64 + 1).map(|n| publisher.announced(1 + 2 * n, at(1))).collect();
        let (last, rest) = numbers.split_last().unwrap();
        assert!(rest.iter().all(|numbers| *numbers == Numbers::InOrder));
        assert_eq!(*last, Numbers::TooManyHoles);
    }

    #[test]
    fn signed_off_publisher_is_not_missed() {
        let mut publisher = Publisher::first_heard(1, true, at(0), at(0));
        assert!(publisher.is_active(at(60)));
        assert!(!publisher.is_active(at(61)));
        publisher.note_message(at(5));
        publisher.sign_off();
        assert!(!publisher.is_active(at(5)));
        publisher.note_message(at(4));
        assert!(!publisher.is_active(at(5)), "a copy from before it signed off");
        publisher.note_message(at(6));
        assert!(publisher.is_active(at(6)));
    }
}
