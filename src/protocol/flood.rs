//! Owns when announcements are a flood: more records than the floor table is made for (R2).
//!
//! Before it: [`super::records`] gave a record without an entry a slot. After it: the alarm metric; nothing else changes,
//! since the table is bounded and a lost slot is never silent. Pure. Invariant: each alarm at most once in a
//! [`limits::FLOOD_WINDOW`].

use crate::model::time::Moment;
use crate::protocol::limits;

/// What was announced in the current window.
#[derive(Debug, Default)]
pub(crate) struct Flood {
    until: Moment,
    records: u32,
    losses: u32,
}

impl Flood {
    /// A record that nobody holds came into the table at `now`, for the first time (`unheard`) or again; `lost` is
    /// whether another had to make way. Returns why to raise the alarm, if this is when.
    pub(crate) fn note(&mut self, unheard: bool, lost: bool, now: Moment) -> Option<&'static str> {
        if now >= self.until {
            *self = Self { until: now + limits::FLOOD_WINDOW, ..Self::default() };
        }
        self.records = self.records.saturating_add(u32::from(unheard));
        self.losses = self.losses.saturating_add(u32::from(lost));
        if lost && self.losses == limits::FLOOD_LOSSES {
            Some("floor-table-overflow")
        } else {
            (unheard && self.records == limits::FLOOD_RECORDS).then_some("announcement-flood")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_and_an_overflow_are_each_told_once_in_a_window() {
        let mut flood = Flood::default();
        for minute in 0..3 {
            let now = Moment::ZERO + limits::FLOOD_WINDOW * (minute + 1);
            let told = |flood: &mut Flood, unheard, lost| {
                (0..200_000).filter_map(|_| flood.note(unheard, lost, now)).collect::<Vec<_>>()
            };
            assert_eq!(told(&mut flood, true, false), ["announcement-flood"]);
            assert_eq!(told(&mut flood, false, true), ["floor-table-overflow"]);
            assert!(told(&mut flood, true, true).is_empty());
        }
    }

    #[test]
    fn records_that_are_announced_again_are_no_flood() {
        let mut flood = Flood::default();
        assert!((0..200_000).all(|_| flood.note(false, false, Moment::ZERO).is_none()));
    }
}
