//! What recently came from a region's topic, whatever it proved. A subscription that brings
//! something is kept, and operators see when clocks disagree.

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
    /// The window being filled and the one before it: when each began, and its smallest lag.
    windows: [Option<(Moment, i64)>; 2],
}

impl Arrivals {
    pub(crate) fn note(&mut self, now: Moment) {
        self.newest = Some(now);
    }

    /// A verified message arrived, stamped by SNS.
    pub(crate) fn stamped(&mut self, published: Wall, now: Moment, wall: Wall) {
        self.note(now);
        let lag = (wall.as_millis() as i64).saturating_sub(published.as_millis() as i64);
        match &mut self.windows[0] {
            Some((began, least)) if now.since(*began) < limits::LAG_WINDOW => *least = lag.min(*least),
            _ => self.windows = [Some((now, lag)), self.windows[0]],
        }
    }

    /// When something last came, or boot if nothing did.
    pub(crate) fn newest(&self) -> Moment {
        self.newest.unwrap_or(Moment::ZERO)
    }

    /// The subscription is a new one: what came through the last one says nothing about it.
    pub(crate) fn begin(&mut self) {
        self.newest = None;
    }

    /// The smallest recent lag: see [`Arrived::lag_ms`].
    pub(crate) fn lag_ms(&self, now: Moment) -> Option<i64> {
        let late = |(began, _): &&(Moment, i64)| now.since(*began) < limits::LAG_WINDOW * 2;
        self.windows.iter().flatten().filter(late).map(|(_, least)| *least).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
    fn the_least_lag_is_shown_for_half_a_minute_and_no_longer_than_a_minute() {
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
}
