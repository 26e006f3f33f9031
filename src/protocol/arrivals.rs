//! Recent arrivals from a region's topic, whatever it proved. A subscription that brings something
//! is kept, and operators see when clocks disagree.

use std::time::Duration;

use crate::model::time::{Moment, Wall};
use crate::protocol::limits;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Receipt minus SNS `Timestamp`, in milliseconds: the smallest of the last 30 to 60 s. One
    /// message may be late; all of them are only when a clock is wrong. Negative if a message was
    /// stamped later than it came.
    pub lag_ms: Option<i64>,
    /// Something could not be verified, and nothing has been verified since (R14).
    pub unverified: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    newest: Option<Moment>,
    /// Receipt by the calendar, less SNS `Timestamp`.
    lag: Least,
    /// Receipt by the time since boot, less SNS `Timestamp`. It differs from one message to the
    /// next only by what each was on its way, whatever is done to the calendar.
    behind: Least,
}

/// The smallest of the last 30 to 60 s.
#[derive(Debug, Default)]
struct Least {
    /// The window being filled and the one before it: when each began, and its smallest.
    windows: [Option<(Moment, i64)>; 2],
}

impl Least {
    fn note(&mut self, value: i64, now: Moment) {
        match &mut self.windows[0] {
            Some((began, least)) if now.since(*began) < limits::LAG_WINDOW => *least = value.min(*least),
            _ => self.windows = [Some((now, value)), self.windows[0]],
        }
    }

    fn get(&self, now: Moment) -> Option<i64> {
        self.windows
            .iter()
            .flatten()
            .filter(|(began, _)| now.since(*began) < limits::LAG_WINDOW * 2)
            .map(|(_, least)| *least)
            .min()
    }
}

impl Arrivals {
    pub(crate) fn note(&mut self, now: Moment) {
        self.newest = Some(now);
    }

    /// A verified message arrived, stamped by SNS.
    pub(crate) fn stamped(&mut self, published: Wall, now: Moment, wall: Wall) {
        self.note(now);
        self.lag.note((wall.as_millis() as i64).saturating_sub(published.as_millis() as i64), now);
        self.behind.note(behind(published, now), now);
    }

    /// Time at which a message was published, by the time since boot: earlier than its receipt by
    /// as much as it was longer on its way than the fastest of the last minute. If that was slow
    /// itself, or there was none, the calendar says how slow, but for [`limits::CALENDAR_SKEW`]
    /// (R19).
    pub(crate) fn published_at(&self, published: Wall, now: Moment, wall: Wall) -> Moment {
        let behind_by_calendar = behind(wall, now);
        let skew = limits::CALENDAR_SKEW.as_millis() as i64;
        let (behind, fastest) = (behind(published, now), self.behind.get(now).unwrap_or(i64::MAX));
        let fastest = fastest.min(behind).clamp(behind_by_calendar - skew, behind_by_calendar + skew);
        now.before(Duration::from_millis(u64::try_from(behind.saturating_sub(fastest)).unwrap_or(0)))
    }

    /// Time of the last arrival, or boot if nothing did.
    pub(crate) fn newest(&self) -> Moment {
        self.newest.unwrap_or(Moment::ZERO)
    }

    /// The subscription is a new one: what came through the last one says nothing about it.
    pub(crate) fn begin(&mut self) {
        self.newest = None;
    }

    /// The smallest recent lag: see [`Arrived::lag_ms`].
    pub(crate) fn lag_ms(&self, now: Moment) -> Option<i64> {
        self.lag.get(now)
    }
}

/// The time since boot less a calendar time, in milliseconds.
fn behind(calendar: Wall, now: Moment) -> i64 {
    ((now.as_nanos() / 1_000_000) as i64).saturating_sub(calendar.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(1_000 + second)
    }

    fn stamped(arrivals: &mut Arrivals, second: u64, lag_ms: i64) {
        let wall = Wall::from_millis(5_000_000 + second * 1_000);
        let published = Wall::from_millis(wall.as_millis().saturating_add_signed(-lag_ms));
        arrivals.stamped(published, at(second), wall);
    }

    #[test]
    fn least_lag_lasts_at_most_minute() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.lag_ms(at(0)), None);
        stamped(&mut arrivals, 0, 20_050);
        stamped(&mut arrivals, 1, 3_600_000);
        stamped(&mut arrivals, 2, 20_010);
        assert_eq!(arrivals.lag_ms(at(2)), Some(20_010), "one message an hour late is not the clock");
        stamped(&mut arrivals, 31, 40);
        assert_eq!(arrivals.lag_ms(at(31)), Some(40), "the clock was set right");
        stamped(&mut arrivals, 32, -7_000);
        assert_eq!(arrivals.lag_ms(at(33)), Some(-7_000));
        assert_eq!(arrivals.lag_ms(at(90)), Some(-7_000));
        assert_eq!(arrivals.lag_ms(at(91)), None, "nothing came since");
    }

    /// Lateness assumed for a message that came at second 50 and was published so much earlier.
    fn lateness(arrivals: &Arrivals, lag: u64, calendar_ahead_ms: i64) -> Duration {
        let wall = Wall::from_millis(5_050_000);
        let published = Wall::from_millis(5_050_000 - lag * 1_000);
        let wall = Wall::from_millis(wall.as_millis().saturating_add_signed(calendar_ahead_ms));
        at(50) - arrivals.published_at(published, at(50), wall)
    }

    /// R19.
    #[test]
    fn lateness_is_relative_to_other_messages() {
        let (second, mut arrivals) = (Duration::from_secs(1), Arrivals::default());
        stamped(&mut arrivals, 40, 1_000);
        for ahead in [0, 20_000, -20_000] {
            assert_eq!(lateness(&arrivals, 1, ahead), Duration::ZERO, "the calendar is {ahead} ms ahead");
            assert_eq!(lateness(&arrivals, 0, ahead), Duration::ZERO);
            assert_eq!(lateness(&arrivals, 300, ahead), 299 * second);
        }
        assert_eq!(lateness(&arrivals, 1, 90_000), 61 * second, "further wrong than the skew");
        assert_eq!(lateness(&arrivals, 300, -900_000), Duration::ZERO);
    }

    /// R19: a backlog, or a RESET that nothing came before.
    #[test]
    fn lateness_among_late_uses_calendar() {
        let mut arrivals = Arrivals::default();
        assert_eq!(lateness(&arrivals, 300, 0), Duration::from_secs(300) - limits::CALENDAR_SKEW);
        assert_eq!(lateness(&arrivals, 20, 0), Duration::ZERO);
        stamped(&mut arrivals, 49, 290_000);
        assert_eq!(lateness(&arrivals, 300, 0), Duration::from_secs(300) - limits::CALENDAR_SKEW);
    }
}
