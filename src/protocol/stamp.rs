//! Time at which a record's floor was last stated, in two bytes of a cell and one of a slot: enough
//! to tell whether a RESET that comes late is about it (R19).

use crate::model::time::Moment;

/// A time in units of 67 ms, modulo 73 minutes.
///
/// Once it is older than that, it looks like one of the last 73 minutes, and a RESET that is late
/// by a few minutes spares the few such floors that it seems to be older than.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(pub(crate) u16);

/// Nanoseconds in a unit, as a power of two.
const UNIT_BITS: u32 = 26;

impl Stamp {
    /// The stamp of something that happened at `at`, which is known at `now`. What is older than a stamp can
    /// tell counts as that old.
    pub(crate) fn of(at: Moment, now: Moment) -> Self {
        let age = units(now).saturating_sub(units(at)).min(u64::from(u16::MAX));
        Self((units(now) - age) as u16)
    }

    /// The later of both, of which neither is later than `now`.
    pub(crate) fn or_later(self, other: Self, now: Moment) -> Self {
        if other.age(now) < self.age(now) { other } else { self }
    }

    /// True if this was no later than `since`, for something that came at `now` and was said at
    /// `since`. False where that is longer ago than a stamp can tell.
    pub(crate) fn is_up_to(self, since: Moment, now: Moment) -> bool {
        u64::from(self.age(now)) >= units(now).saturating_sub(units(since))
    }

    fn age(self, now: Moment) -> u16 {
        (units(now) as u16).wrapping_sub(self.0)
    }

    /// Returns the stamp in a byte, up to 17 s earlier.
    pub(crate) const fn to_byte(self) -> u8 {
        (self.0 >> 8) as u8
    }

    pub(crate) const fn from_byte(byte: u8) -> Self {
        Self((byte as u16) << 8)
    }
}

const fn units(at: Moment) -> u64 {
    at.as_nanos() >> UNIT_BITS
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(100_000 + seconds)
    }

    #[test]
    fn stamp_orders_before_and_after() {
        for (stated, since, now, up_to) in [
            (0, 0, 0, true),
            (0, 1, 1, true),
            (1, 0, 1, false),
            (0, 60, 4_000, true),
            (61, 60, 4_000, false),
            // Longer ago than it can tell.
            (0, 60, 6_000, false),
        ] {
            let stamp = Stamp::of(at(stated), at(stated));
            assert_eq!(stamp.is_up_to(at(since), at(now)), up_to, "{stated}, {since}, {now}");
        }
    }

    /// An announcement that was a day on its way is not taken for one of this hour.
    #[test]
    fn too_old_stamp_counts_as_oldest() {
        let stamp = Stamp::of(at(0), at(86_400));
        assert!(stamp.is_up_to(at(86_400 - 4_300), at(86_400)));
        let recent = Stamp::of(at(86_300), at(86_400));
        assert_eq!(stamp.or_later(recent, at(86_400)), recent);
        assert_eq!(recent.or_later(stamp, at(86_400)), recent);
    }

    #[test]
    fn byte_stamp_loses_only_seconds() {
        for seconds in 0..5_000 {
            let stamp = Stamp::of(at(seconds), at(seconds));
            let kept = Stamp::from_byte(stamp.to_byte());
            assert!(kept.is_up_to(at(seconds), at(seconds)));
            assert!(!kept.is_up_to(at(seconds - seconds.min(18)).before(Duration::from_secs(18)), at(seconds)));
        }
    }
}
