//! The only place where the program asks what time it is. Everything that decides takes a
//! [`Moment`] or a [`Wall`] as an argument; only the edges ask a [`Clock`].
//!
//! A `Moment` counts suspended time (`CLOCK_BOOTTIME`), so that a laptop lid, a SIGSTOP or a frozen
//! container cannot make an old answer look young. If a host pauses a virtual machine, none of its
//! clocks may count that time. The pause shows when somebody sets the calendar right again, and a
//! [`Watch`] then adds it. A `Wall` is only for what came with a calendar time: HTTP dates, SNS
//! timestamps.
//!
//! A `Moment` never goes backwards. A `Wall` may, so no lease or deadline depends on one alone.

use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::model::limits;

/// Nanoseconds since boot, including suspended time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Boot, which is earlier than every moment a process sees.
    pub const ZERO: Self = Self(0);
    /// Later than every moment a process sees.
    pub const NEVER: Self = Self(u64::MAX);

    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This moment minus `span`, but not before boot.
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

/// A `Duration` in half the memory, because a million are kept: nanoseconds, up to five centuries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(u64);

impl From<Duration> for Span {
    fn from(span: Duration) -> Self {
        Self(saturating_nanos(span))
    }
}

impl Span {
    pub const fn get(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// A `Duration` in half the memory of a [`Span`], never shorter than it was: whole milliseconds up to
/// 24 days, whole seconds beyond, up to the 2^31 s at which ages end (RFC 9111, 1.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShortSpan(u32);

impl From<Duration> for ShortSpan {
    fn from(span: Duration) -> Self {
        let millis = whole_units(span, 1_000_000);
        Self(if millis < Self::SECONDS {
            millis
        } else {
            Self::SECONDS | whole_units(span, 1_000_000_000).min(Self::SECONDS - 1)
        })
    }
}

/// Number of units of so many nanoseconds in `span`, rounded up.
fn whole_units(span: Duration, unit_nanos: u128) -> u32 {
    u32::try_from(span.as_nanos().div_ceil(unit_nanos)).unwrap_or(u32::MAX)
}

impl ShortSpan {
    /// Set where the rest counts seconds.
    const SECONDS: u32 = 1 << 31;

    pub const fn get(self) -> Duration {
        if self.0 < Self::SECONDS {
            Duration::from_millis(self.0 as u64)
        } else {
            Duration::from_secs((self.0 - Self::SECONDS) as u64)
        }
    }
}

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(u64);

impl Wall {
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// For HTTP dates.
    pub fn to_system_time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0)
    }

    /// The epoch itself if `time` is before it.
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

/// Source of time for the edges: the machine's clocks, or a simulated pair that follows tokio's
/// timer, which may be paused.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// `CLOCK_BOOTTIME` and the system's wall clock.
    #[default]
    System,
    /// Follows tokio's timer, which a test may pause and advance, plus whatever a test adds.
    Simulated(Arc<Simulated>),
}

/// A simulated clock's origin and what tests added to it.
#[derive(Debug)]
pub struct Simulated {
    origin: tokio::time::Instant,
    wall_at_origin: u64,
    suspended_ns: AtomicU64,
    /// Pauses that a [`Watch`] added.
    uncounted_ns: AtomicU64,
    wall_ahead_ms: AtomicI64,
}

/// Nanoseconds that are known to have passed while the machine's clocks stood still. There is one
/// machine, so this is process-wide: every copy of [`Clock::System`] must tell the same time.
static UNCOUNTED: AtomicU64 = AtomicU64::new(0);

impl Clock {
    /// A clock that starts at `wall`, one day after boot, and follows tokio's timer.
    pub fn simulated(wall: Wall) -> Self {
        Self::Simulated(Arc::new(Simulated {
            origin: tokio::time::Instant::now(),
            wall_at_origin: wall.as_millis(),
            suspended_ns: AtomicU64::new(0),
            uncounted_ns: AtomicU64::new(0),
            wall_ahead_ms: AtomicI64::new(0),
        }))
    }

    /// The time since boot.
    pub fn now(&self) -> Moment {
        match self {
            Self::System => {
                let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
                let counted = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                Moment(counted + UNCOUNTED.load(Ordering::Relaxed))
            }
            Self::Simulated(clock) => {
                let uncounted = Duration::from_nanos(clock.uncounted_ns.load(Ordering::Relaxed));
                Moment::ZERO + DAY + clock.elapsed() + uncounted
            }
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

    /// Simulated only: lets `span` pass without any timer firing, as on a suspended machine.
    pub fn suspend(&self, span: Duration) {
        if let Self::Simulated(clock) = self {
            clock.suspended_ns.fetch_add(saturating_nanos(span), Ordering::Relaxed);
        }
    }

    /// Simulated only: lets `span` pass uncounted by the clock since boot, as in a paused virtual
    /// machine. The calendar is right again at once, as if the host had set it.
    pub fn pause(&self, span: Duration) {
        self.step_wall(i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
    }

    /// Makes every moment from now on later by `span`.
    fn make_up(&self, span: Duration) {
        let uncounted = match self {
            Self::System => &UNCOUNTED,
            Self::Simulated(clock) => &clock.uncounted_ns,
        };
        uncounted.fetch_add(saturating_nanos(span), Ordering::Relaxed);
    }

    /// Simulated only: moves the wall clock by `by_ms` milliseconds, backwards if negative.
    pub fn step_wall(&self, by_ms: i64) {
        if let Self::Simulated(clock) = self {
            clock.wall_ahead_ms.fetch_add(by_ms, Ordering::Relaxed);
        }
    }
}

const DAY: Duration = Duration::from_secs(86_400);

/// Compares the calendar with the time since boot, to find and add pauses that the latter did not
/// count (R9).
///
/// A calendar that was set forward looks exactly like such a pause, and is always treated as one,
/// even if it only undoes a step back. Leases then end and entries age too early; the opposite
/// error would make old answers look young. That is why nothing is remembered except the smallest
/// lead that the calendar has had.
#[derive(Debug)]
pub struct Watch {
    clock: Clock,
    /// The smallest lead of the calendar over the time since boot, in milliseconds, since the two
    /// were last reconciled.
    least: i64,
}

impl Watch {
    pub fn new(clock: Clock) -> Self {
        let least = ahead(clock.now(), clock.wall());
        Self { clock, least }
    }

    /// Adds what the clock since boot did not count since the last call, and returns it if there
    /// was any.
    pub fn look(&mut self) -> Option<Duration> {
        let (before, wall, after) = (self.clock.now(), self.clock.wall(), self.clock.now());
        if after - before > limits::WATCH_PRECISION {
            // Interrupted between the two readings; the next look will tell.
            return None;
        }
        let uncounted = self.compare(after, wall)?;
        self.clock.make_up(uncounted);
        Some(uncounted)
    }

    fn compare(&mut self, now: Moment, wall: Wall) -> Option<Duration> {
        let ahead = ahead(now, wall);
        self.least = self.least.min(ahead);
        let uncounted = Duration::from_millis(u64::try_from(ahead.saturating_sub(self.least)).unwrap_or(0));
        (uncounted >= limits::UNCOUNTED_PAUSE).then_some(uncounted)
    }
}

/// The calendar's lead over the time since boot, in milliseconds.
fn ahead(now: Moment, wall: Wall) -> i64 {
    (wall.0 as i64).saturating_sub((now.0 / 1_000_000) as i64)
}

impl Simulated {
    fn elapsed(&self) -> Duration {
        self.origin.elapsed() + Duration::from_nanos(self.suspended_ns.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_clock_follows_timer_and_suspension() {
        let clock = Clock::simulated(Wall::from_millis(1_000));
        let start = clock.now();
        tokio::time::advance(Duration::from_secs(3)).await;
        clock.suspend(Duration::from_secs(90));
        assert_eq!(clock.now() - start, Duration::from_secs(93));
        assert_eq!(clock.wall(), Wall::from_millis(94_000));
    }

    fn kept(span: Duration) -> Duration {
        ShortSpan::from(span).get()
    }

    #[test]
    fn short_span_rounds_up() {
        let (milli, second, day) = (Duration::from_millis(1), Duration::from_secs(1), Duration::from_hours(24));
        for (span, as_kept) in [
            (Duration::ZERO, Duration::ZERO),
            (Duration::from_nanos(1), milli),
            (24 * day + milli, 24 * day + milli),
            (60 * day, 60 * day),
            (60 * day + milli, 60 * day + second),
            (Duration::MAX, Duration::from_secs((1 << 31) - 1)),
        ] {
            assert_eq!(kept(span), as_kept, "{span:?}");
        }
        let border = Duration::from_millis(1 << 31);
        assert!(kept(border - milli) < kept(border) && kept(border) >= border);
    }

    /// R9.
    #[tokio::test(start_paused = true)]
    async fn uncounted_pause_is_added_once() {
        let clock = Clock::simulated(Wall::from_millis(1_000));
        let mut watch = Watch::new(clock.clone());
        let start = clock.now();
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(watch.look(), None);
        clock.pause(Duration::from_secs(300));
        assert_eq!(clock.now() - start, Duration::from_secs(3), "not counted");
        assert_eq!(watch.look(), Some(Duration::from_secs(300)));
        assert_eq!(clock.now() - start, Duration::from_secs(303));
        assert_eq!(clock.wall(), Wall::from_millis(304_000), "the calendar was right already");
        clock.suspend(Duration::from_secs(90));
        assert_eq!(watch.look(), None, "counted by both");
    }

    /// R9: time never goes backwards, and small steps add up.
    #[tokio::test(start_paused = true)]
    async fn only_forward_calendar_jump_is_pause() {
        let clock = Clock::simulated(Wall::from_millis(3_600_000));
        let mut watch = Watch::new(clock.clone());
        let start = clock.now();
        for round in 1..=3 {
            clock.step_wall(-60_000);
            assert_eq!(watch.look(), None);
            clock.step_wall(60_000);
            assert_eq!(watch.look(), Some(Duration::from_secs(60)), "it may as well have been a pause");
            assert_eq!(clock.now() - start, Duration::from_secs(60 * round));
        }
        for _ in 0..3 {
            clock.step_wall(400);
        }
        assert_eq!(watch.look(), Some(Duration::from_millis(1_200)));
        clock.step_wall(999);
        assert_eq!(watch.look(), None);
        clock.step_wall(1);
        assert_eq!(watch.look(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn moment_difference_is_never_negative() {
        let early = Moment::from_nanos(5);
        assert_eq!(early.since(early + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(early.before(Duration::from_secs(1)), Moment::ZERO);
    }
}
