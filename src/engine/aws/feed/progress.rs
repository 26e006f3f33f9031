//! Through when a shard has been read: what arrived at it by that time has been returned.
//!
//! A pushed batch has no start of a read: after a SIGSTOP, minutes may lie in the connection. So
//! the time counts from when the reader last found nothing waiting there (decision 0017). That its
//! stream has nothing at hand shows nothing yet, because what reads the connection may not have run:
//! the silence must have lasted, with timers on time.

use std::time::Duration;

use super::super::super::limits;
use crate::model::time::{Moment, Wall};

#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    through: Wall,
    /// Time at which nothing was waiting, for certain.
    empty: Moment,
    /// Since when nothing has come, if that is being watched.
    silent: Option<Moment>,
    /// For how long the reader has waited since the last batch, as its timers measured it.
    waited: Duration,
}

impl Progress {
    /// A subscription that is asked for now, where the shard was read `through` before: what it
    /// pushes first is younger than that.
    pub(super) const fn subscribing(now: Moment, through: Wall) -> Self {
        Self { through, empty: now, silent: None, waited: Duration::ZERO }
    }

    pub(super) const fn through(&self) -> Wall {
        self.through
    }

    /// The reader waits from now on.
    pub(super) const fn waits(&mut self, now: Moment) {
        self.silent = Some(now);
    }

    /// A timer of [`limits::QUIET`] went off, and nothing has come since the reader began to wait.
    /// Where the timer is late, the process stood still, and who knows what is waiting.
    pub(super) fn nothing_came(&mut self, now: Moment) {
        if let Some(silent) = self.silent.filter(|silent| now.since(*silent) <= 2 * limits::QUIET) {
            self.empty = silent;
        }
        self.silent = Some(now);
        self.waited += limits::QUIET;
    }

    /// True if the reader has waited for so long that the connection must be dead. What it did
    /// besides, such as applying a batch, does not count, nor does a time at which it stood still.
    pub(super) fn is_dead(&self) -> bool {
        self.waited >= limits::EVENT_GAP
    }

    /// A batch is read, whose end is `behind` the end of the shard, and whose newest record
    /// arrived at the shard at `newest`.
    pub(super) fn came(&mut self, now: Moment, wall: Wall, behind: Duration, newest: Option<Wall>) -> Wall {
        let pushed = before(wall, now.since(self.empty) + behind + limits::FEED_MARGIN);
        // Records come in the order in which they arrived, give or take.
        let arrived = newest.map_or(pushed, |newest| before(newest, limits::FEED_MARGIN));
        self.through = self.through.max(pushed).max(arrived);
        (self.silent, self.waited) = (None, Duration::ZERO);
        self.through
    }
}

/// Through when a read has got that was sent at `sent` and ended `behind` the end of the shard.
pub(super) fn read(sent: Wall, behind: Duration) -> Wall {
    before(sent, behind + limits::FEED_MARGIN)
}

fn before(wall: Wall, span: Duration) -> Wall {
    Wall::from_millis(wall.as_millis().saturating_sub(span.as_millis() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    fn moment(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    /// Boot was at the epoch.
    fn wall(millis: u64) -> Wall {
        Wall::from_millis(millis)
    }

    fn came(progress: &mut Progress, at: u64, behind: Duration) -> u64 {
        progress.came(moment(at), wall(at), behind, None).as_millis()
    }

    #[test]
    fn first_batch_is_younger_than_subscription() {
        let mut progress = Progress::subscribing(moment(10_000), wall(0));
        assert_eq!(came(&mut progress, 12_000, NONE), 9_000);
    }

    #[test]
    fn batch_claims_time_of_last_silence() {
        let mut progress = Progress::subscribing(moment(10_000), wall(0));
        progress.waits(moment(20_000));
        progress.nothing_came(moment(20_100));
        progress.nothing_came(moment(20_200));
        assert_eq!(came(&mut progress, 20_250, NONE), 19_100, "the last silence began at 20,100");
        assert_eq!(came(&mut progress, 25_000, NONE), 19_100, "what was there at once speaks for nothing later");
    }

    #[test]
    fn batch_lag_is_subtracted() {
        let mut progress = Progress::subscribing(moment(20_000), wall(0));
        assert_eq!(came(&mut progress, 20_250, Duration::from_secs(7)), 12_000);
    }

    #[test]
    fn stopped_process_claims_no_silence() {
        let mut progress = Progress::subscribing(moment(10_000), wall(0));
        progress.waits(moment(20_000));
        progress.nothing_came(moment(20_100));
        // Stopped for a minute; then the timer runs before what reads the connection.
        progress.nothing_came(moment(80_100));
        assert_eq!(came(&mut progress, 80_101, NONE), 19_000);
        progress.waits(moment(80_102));
        assert_eq!(came(&mut progress, 80_103, NONE), 19_000, "a moment of silence is none");
        progress.waits(moment(80_110));
        progress.nothing_came(moment(80_210));
        assert_eq!(came(&mut progress, 80_300, NONE), 79_110);
    }

    #[test]
    fn busy_reader_claims_no_silence() {
        let mut progress = Progress::subscribing(moment(10_000), wall(0));
        progress.waits(moment(20_000));
        assert_eq!(came(&mut progress, 20_010, NONE), 9_000);
        progress.waits(moment(30_000));
        assert_eq!(came(&mut progress, 30_001, NONE), 9_000);
    }

    /// A batch may take longer to apply than a connection may be silent.
    #[test]
    fn only_waiting_reader_finds_connection_dead() {
        let mut progress = Progress::subscribing(moment(10_000), wall(0));
        came(&mut progress, 10_000, NONE);
        progress.waits(moment(40_000));
        progress.nothing_came(moment(40_100));
        assert!(!progress.is_dead(), "it applied the batch for half a minute");
        (2..80).for_each(|tick| progress.nothing_came(moment(40_000 + tick * 100)));
        assert!(!progress.is_dead());
        progress.nothing_came(moment(48_000));
        assert!(progress.is_dead());
        came(&mut progress, 48_001, NONE);
        assert!(!progress.is_dead());
    }

    #[test]
    fn record_arrival_advances_time_under_load() {
        let mut progress = Progress::subscribing(moment(10_000), wall(0));
        let through = progress.came(moment(30_000), wall(30_000), Duration::from_secs(4), Some(wall(26_000)));
        assert_eq!(through, wall(25_000));
    }

    #[test]
    fn applied_time_never_goes_back() {
        let mut progress = Progress::subscribing(moment(10_000), wall(15_000));
        assert_eq!(came(&mut progress, 12_000, Duration::from_secs(60)), 15_000);
        assert_eq!(progress.through(), wall(15_000));
    }

    #[test]
    fn read_claims_its_send_time() {
        assert_eq!(read(wall(10_000), Duration::from_secs(2)), wall(7_000));
        assert_eq!(read(wall(10), NONE), wall(0));
    }
}
