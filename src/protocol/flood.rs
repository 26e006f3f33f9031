//! Notices when announcements are a flood: more records than the floor table is made for (R2). A
//! flood raises an alarm, each kind at most once in a [`limits::FLOOD_WINDOW`], and changes nothing
//! else, since the table is bounded and a lost slot is never silent.

use crate::model::time::Moment;
use crate::protocol::event::Alarm;
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
    pub(crate) fn note(&mut self, unheard: bool, lost: bool, now: Moment) -> Option<Alarm> {
        if now >= self.until {
            *self = Self { until: now + limits::FLOOD_WINDOW, ..Self::default() };
        }
        self.records = self.records.saturating_add(u32::from(unheard));
        self.losses = self.losses.saturating_add(u32::from(lost));
        if lost && self.losses == limits::FLOOD_LOSSES {
            Some(Alarm::FloorTableOverflow)
        } else {
            (unheard && self.records == limits::FLOOD_RECORDS).then_some(Alarm::AnnouncementFlood)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_and_overflow_reported_once() {
        let mut flood = Flood::default();
        for minute in 0..3 {
            let now = Moment::ZERO + limits::FLOOD_WINDOW * (minute + 1);
            assert_eq!(reported(&mut flood, true, false, now), [Alarm::AnnouncementFlood]);
            assert_eq!(reported(&mut flood, false, true, now), [Alarm::FloorTableOverflow]);
            assert!(reported(&mut flood, true, true, now).is_empty());
        }
    }

    /// Alarms of 200,000 announcements.
    fn reported(flood: &mut Flood, unheard: bool, lost: bool, now: Moment) -> Vec<Alarm> {
        (0..200_000).filter_map(|_| flood.note(unheard, lost, now)).collect()
    }

    #[test]
    fn repeated_announcements_are_no_flood() {
        let mut flood = Flood::default();
        assert!((0..200_000).all(|_| flood.note(false, false, Moment::ZERO).is_none()));
    }
}
