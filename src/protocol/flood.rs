//! Notices when announcements are a flood: more records than the floor table is made for (R2). A
//! flood raises an alarm, each kind at most once in a [`limits::FLOOD_WINDOW`], and changes nothing
//! else, since the table is bounded and a lost slot is never silent.

use crate::model::time::Moment;
use crate::protocol::limits;

#[derive(Debug, Default)]
pub(crate) struct Flood {
    until: Moment,
    records: u32,
    losses: u32,
}

impl Flood {
    /// A record that nobody holds entered the table at `now`, for the first time (`unheard`) or
    /// again; `lost` says whether another had to make way. Returns the alarm to raise, if it is
    /// time for one.
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
