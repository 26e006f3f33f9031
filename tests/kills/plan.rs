//! Schedule of kills, and the rate of writes: drawn from a seed. Pure.

use std::time::Duration;

use fastrand::Rng;

/// One SIGKILL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kill {
    /// Once so many writes were answered,
    pub(crate) after_writes: u64,
    /// and after this.
    pub(crate) and_then: Duration,
    /// Which one of those that are up: a part of all, from 0 to 1.
    pub(crate) victim: f64,
    /// Downtime.
    pub(crate) down: Duration,
    /// Kill it at this time of its next start too, which counts as a kill of its own.
    pub(crate) while_starting: Option<Duration>,
}

/// Longest part of a start at which a process is killed.
const START: Duration = Duration::from_millis(2_500);
/// A lease moves after ten seconds: some processes stay down for longer.
const BEYOND_A_LEASE: [u64; 2] = [11_000, 13_000];

/// `kills` of them, over `writes`.
pub(crate) fn plan(seed: u64, kills: usize, writes: u64) -> Vec<Kill> {
    let mut rng = Rng::with_seed(seed);
    let (mut plan, mut left) = (Vec::new(), kills);
    while left > 0 {
        let while_starting = (left > 1 && rng.u8(..4) == 0).then(|| START.mul_f64(rng.f64()));
        left -= 1 + usize::from(while_starting.is_some());
        let down = match rng.u8(..10) {
            0 => rng.u64(BEYOND_A_LEASE[0]..BEYOND_A_LEASE[1]),
            1..3 => rng.u64(..3_000),
            _ => 0,
        };
        plan.push(Kill {
            // Not before the first writes are there, and writes go on after the last one.
            after_writes: writes / 20 + rng.u64(..(writes * 9 / 10).max(1)),
            and_then: Duration::from_millis(rng.u64(..500)),
            victim: rng.f64(),
            down: Duration::from_millis(down),
            while_starting,
        });
    }
    plan.sort_by_key(|kill| kill.after_writes);
    plan
}

/// Panics when a seed does not draw what it should.
pub(crate) fn proves_itself(seed: u64) {
    let drawn = plan(seed, 100, 5_000);
    assert_eq!(drawn, plan(seed, 100, 5_000), "the same seed draws the same");
    let double = drawn.iter().filter(|kill| kill.while_starting.is_some()).count();
    assert_eq!(drawn.len() + double, 100);
    assert!(double > 0 && drawn.iter().any(|kill| kill.down > Duration::from_secs(10)));
    assert!(drawn.iter().all(|kill| kill.after_writes < 5_000));
}
