//! Owns what is under each key, up to a capacity: [`Kept`], in two forms that promise the same. [`moka`] is what the
//! program runs on; [`plain`] is built for the simulator (the feature `switches`), whose runs must repeat, and cheaply.
//!
//! Before it: [`super::Store`] decides what goes in and out. After it: the index hears of what left. Invariants:
//! [`Kept::change`] is atomic for its key; whatever leaves is told once ([`Held::leave`]), what was replaced or removed
//! before the call returns, what is over capacity in `run_pending_tasks` at the latest.

#[cfg(not(feature = "switches"))]
mod moka;
#[cfg(feature = "switches")]
mod plain;

#[cfg(not(feature = "switches"))]
pub(super) use self::moka::Kept;
#[cfg(feature = "switches")]
pub(super) use self::plain::Kept;
use super::Held;

/// What becomes of what is under a key.
pub(super) enum Change {
    /// It stays.
    Keep,
    /// This takes its place.
    Put(Held),
    /// It goes.
    Remove,
}
