//! State of the regions for `/status`.

use std::time::Duration;

use super::{RacedRegion, Regions};
use crate::model::ids::RegionId;
use crate::race::health::Fitness;

/// One region for `/status`.
#[derive(Clone, Debug)]
pub struct RegionHealth {
    pub in_flight: usize,
    /// 95th percentile of its latest replies; `None` before the first.
    pub p95: Option<Duration>,
    /// An operator took it out.
    pub drained: bool,
    /// `fit`, `outlier` or `held-off`.
    pub health: &'static str,
    /// For how much longer it asked not to be sent requests.
    pub held_off_for: Option<Duration>,
}

impl Regions {
    /// State of each region for `/status`.
    pub fn status(&self) -> Vec<RegionHealth> {
        let now = self.clock.now();
        let drained = self.drained();
        let status = |(id, region): (RegionId, &RacedRegion)| {
            let state = region.state();
            let fitness = state.health.fitness(now);
            RegionHealth {
                in_flight: region.permits.taken(),
                p95: state.health.p95(),
                drained: drained.contains(id),
                health: fitness.into_str(),
                held_off_for: match fitness {
                    Fitness::HeldOff { until } => Some(until - now),
                    _ => None,
                },
            }
        };
        (0..).map(RegionId).zip(&*self.regions).map(status).collect()
    }
}
