//! Owns time: the one place where the program asks what time it is.
//!
//! Everything that decides takes a [`Moment`] or a [`Wall`] as an argument; the edges ask a [`Clock`]. A
//! `Moment` counts suspended time (`CLOCK_BOOTTIME`), so a laptop lid, a SIGSTOP or a frozen container cannot
//! make an old answer look young. A `Wall` is only for what came with a calendar time: HTTP dates, SNS timestamps.
//!
//! Invariant: a `Moment` never goes backwards; a `Wall` may, and no lease or deadline hangs on one alone.

use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds since boot, suspended time included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Boot; older than every moment a process sees.
    pub const ZERO: Self = Self(0);

    /// A moment `nanos` after boot.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since boot.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This moment less `span`, or boot.
    pub const fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_nanos(span)))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(span)))
    }
}

impl Sub for Moment {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

const fn saturating_nanos(span: Duration) -> u64 {
    let nanos = span.as_nanos();
    if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }
}

/// A `Duration` as it is kept a million times: nanoseconds in half of the memory, at most five centuries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(u64);

impl From<Duration> for Span {
    fn from(span: Duration) -> Self {
        Self(saturating_nanos(span))
    }
}

impl Span {
    /// As it is reckoned with.
    pub const fn get(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(u64);

impl Wall {
    /// A wall time `millis` after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// As the standard library's type, for HTTP dates.
    pub fn to_system_time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0)
    }

    /// From the standard library's type; the epoch when `time` lies before it.
    pub fn from_system_time(time: SystemTime) -> Self {
        Self(time.duration_since(UNIX_EPOCH).map_or(0, |span| span.as_millis() as u64))
    }
}

impl Add<Duration> for Wall {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.as_millis() as u64))
    }
}

/// Where the edges get the time: the machine's clocks, or a simulated pair that follows tokio's (paused) timer.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// `CLOCK_BOOTTIME` and the system's wall clock.
    #[default]
    System,
    /// Moves with tokio's timer, which a test may pause and advance, plus what a test adds to it.
    Simulated(Arc<Simulated>),
}

/// A simulated clock's origin and what tests added to it.
#[derive(Debug)]
pub struct Simulated {
    origin: tokio::time::Instant,
    wall_at_origin: u64,
    suspended_ns: AtomicU64,
    wall_ahead_ms: AtomicI64,
}

impl Clock {
    /// A clock that starts at `wall` and at a moment one day after boot, and follows tokio's timer.
    pub fn simulated(wall: Wall) -> Self {
        Self::Simulated(Arc::new(Simulated {
            origin: tokio::time::Instant::now(),
            wall_at_origin: wall.as_millis(),
            suspended_ns: AtomicU64::new(0),
            wall_ahead_ms: AtomicI64::new(0),
        }))
    }

    /// The time since boot.
    pub fn now(&self) -> Moment {
        match self {
            Self::System => {
                let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
                Moment(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
            }
            Self::Simulated(clock) => Moment::ZERO + DAY + clock.elapsed(),
        }
    }

    /// The calendar time.
    #[expect(clippy::disallowed_methods, reason = "the Clock is who asks the machine")]
    pub fn wall(&self) -> Wall {
        match self {
            Self::System => Wall::from_system_time(SystemTime::now()),
            Self::Simulated(clock) => {
                let true_wall = Wall(clock.wall_at_origin) + clock.elapsed();
                Wall(true_wall.0.saturating_add_signed(clock.wall_ahead_ms.load(Ordering::Relaxed)))
            }
        }
    }

    /// Simulated only: passes `span` without any timer firing, as a suspended machine does.
    pub fn suspend(&self, span: Duration) {
        if let Self::Simulated(clock) = self {
            clock.suspended_ns.fetch_add(saturating_nanos(span), Ordering::Relaxed);
        }
    }

    /// Simulated only: steps the wall clock by so many milliseconds, backwards if negative.
    pub fn step_wall(&self, by_ms: i64) {
        if let Self::Simulated(clock) = self {
            clock.wall_ahead_ms.fetch_add(by_ms, Ordering::Relaxed);
        }
    }
}

const DAY: Duration = Duration::from_secs(86_400);

impl Simulated {
    fn elapsed(&self) -> Duration {
        self.origin.elapsed() + Duration::from_nanos(self.suspended_ns.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_simulated_clock_follows_the_paused_timer_and_counts_suspended_time() {
        let clock = Clock::simulated(Wall::from_millis(1_000));
        let start = clock.now();
        tokio::time::advance(Duration::from_secs(3)).await;
        clock.suspend(Duration::from_secs(90));
        assert_eq!(clock.now() - start, Duration::from_secs(93));
        assert_eq!(clock.wall(), Wall::from_millis(94_000));
    }

    #[test]
    fn the_span_between_moments_never_goes_below_zero() {
        let early = Moment::from_nanos(5);
        assert_eq!(early.since(early + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(early.before(Duration::from_secs(1)), Moment::ZERO);
    }
}
