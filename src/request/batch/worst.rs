//! The worst of a batch's parts, which its answer says of all of them.

use super::wave::Slot;
use crate::request::answer::Outcome;
use crate::shape::cache_status::{Bound, CacheLine, Fwd};

/// The worst that the parts say of how old they are.
#[derive(Clone, Copy, Default)]
pub(super) struct Worst(pub(super) Option<Bound>);

impl Worst {
    pub(super) fn and(self, bound: Option<Bound>) -> Self {
        Self(match (self.0, bound) {
            (Some(Bound::Seconds(one)), Some(Bound::Seconds(other))) => Some(Bound::Seconds(one.max(other))),
            (Some(Bound::None), _) | (_, Some(Bound::None)) => Some(Bound::None),
            (one, other) => one.or(other),
        })
    }
}

/// Cache line of the whole answer: the worst of its parts, as far as it is known before any region
/// was asked.
pub(super) fn line(parts: &[Slot]) -> CacheLine {
    if !parts.iter().all(|part| matches!(part, Slot::There(..))) {
        return CacheLine { fwd: Some(Fwd::UriMiss), ..CacheLine::default() };
    }
    let lines = || {
        parts.iter().filter_map(|part| match part {
            Slot::There(Outcome::Shown(shown), _) => Some(shown.line),
            _ => None,
        })
    };
    CacheLine {
        hit: lines().next().is_some(),
        ttl: lines().filter_map(|line| line.ttl).min(),
        bound: lines().fold(Worst::default(), |worst, line| worst.and(line.bound)).0,
        detail: lines().find_map(|line| line.detail),
        ..CacheLine::default()
    }
}
