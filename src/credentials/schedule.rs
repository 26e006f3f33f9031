//! The times of a token: when it is renewed, how long it is used, when a failed mint is tried again,
//! and when a refused token is discarded. All of it is pure: times and jitter are passed in.

use std::time::Duration;

use super::limits::{BACKOFF, DISCARD_EVERY, LIFE, RENEWAL, UNUSED_BEFORE_END};
use crate::model::time::Moment;

/// The life of one token, from before it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) renew_at: Moment,
    pub(super) unused_from: Moment,
}

impl Term {
    /// The term of a token with this life; `jitter` is from 0 to 1. `None` if it is too short to be of use.
    pub(super) fn new(asked: Moment, life: Duration, jitter: f64) -> Option<Self> {
        if life < LIFE.0 {
            return None;
        }
        let life = life.min(LIFE.1);
        let share = RENEWAL.0 + (RENEWAL.1 - RENEWAL.0) * jitter;
        let unused = UNUSED_BEFORE_END.min(life / 4);
        Some(Self { renew_at: asked + life.mul_f64(share), unused_from: asked + (life - unused) })
    }
}

/// Waits between mints that fail.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    last: Duration,
}

impl Backoff {
    /// The wait after one more failure; `jitter` is from 0 to 1.
    pub(super) fn failed(&mut self, jitter: f64) -> Duration {
        let (first, longest) = BACKOFF;
        self.last = (self.last * 2).clamp(first, longest);
        (self.last + self.last.mul_f64(jitter / 4.0)).min(longest)
    }

    pub(super) const fn succeeded(&mut self) {
        self.last = Duration::ZERO;
    }
}

/// Bounds how often a token is discarded because a region refuses it: one region with wrong settings
/// refuses every token.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Discards {
    last: Option<Moment>,
    every: Duration,
}

impl Discards {
    /// Returns whether one may be discarded now. The first after a long quiet time counts as a first
    /// one again.
    pub(super) fn admit(&mut self, now: Moment) -> bool {
        let (first, longest) = DISCARD_EVERY;
        let since = self.last.map(|last| now.since(last));
        self.every = match since {
            Some(since) if since < self.every => return false,
            Some(since) if since < 2 * longest => (self.every * 2).min(longest),
            _ => first,
        };
        self.last = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(1_000 + seconds)
    }

    #[test]
    fn renewed_at_half_used_almost_whole() {
        let life = Duration::from_mins(15);
        let [early, middle, late] = [0.0, 0.5, 1.0].map(|jitter| Term::new(at(0), life, jitter).unwrap());
        assert_eq!([early, middle, late].map(|term| term.renew_at), [at(405), at(450), at(495)]);
        assert_eq!([early, middle, late].map(|term| term.unused_from), [at(870); 3]);
        let short = Term::new(at(0), Duration::from_secs(40), 0.5).unwrap();
        assert_eq!((short.renew_at, short.unused_from), (at(20), at(30)));
        assert_eq!(Term::new(at(0), Duration::from_secs(9), 0.5), None);
        let endless = Term::new(at(0), Duration::from_hours(9_999), 0.5).unwrap();
        assert_eq!(endless.renew_at, at(12 * 3_600));
    }

    #[test]
    fn failed_mints_back_off() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..8).map(|_| backoff.failed(0.0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.failed(1.0), Duration::from_mins(1));
        backoff.succeeded();
        assert_eq!(backoff.failed(1.0), Duration::from_millis(1_250));
    }

    #[test]
    fn discards_are_rare_and_rarer() {
        let mut discards = Discards::default();
        let admitted: Vec<_> = (0..2_000).filter(|second| discards.admit(at(*second))).collect();
        assert_eq!(admitted, [0, 10, 30, 70, 150, 310, 610, 910, 1_210, 1_510, 1_810]);
    }

    #[test]
    fn discards_begin_anew_when_quiet() {
        let mut discards = Discards::default();
        assert!(discards.admit(at(0)) && !discards.admit(at(9)) && discards.admit(at(10)));
        assert!(!discards.admit(at(29)) && discards.admit(at(700)) && discards.admit(at(720)));
    }
}
