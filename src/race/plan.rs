//! Who is asked when, given a race's mode and the health and budgets of the regions. A plan always
//! has a first attempt while a reader waits and not every region is drained. Outliers, and regions that
//! asked to wait, come first only if there are no others.

use super::health::Fitness;
use super::question::Purpose;
use super::region::Regions;
use crate::config::RaceMode;
use crate::model::ids::{RegionId, RegionSet};
use crate::model::time::Moment;

/// Who is asked when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RacePlan {
    /// At once, and waited for.
    pub first: Vec<RegionId>,
    /// At once, to see whether they are well again; never waited for.
    pub probes: Vec<RegionId>,
    /// Fit ones that the mode or the tokens hold back: asked when the first ones are late or bring
    /// nothing that may be served.
    pub reserve: Vec<RegionId>,
    /// Outliers: asked only when the others brought nothing that may be served unlabelled, or when
    /// half the deadline has passed without anything to serve.
    pub skipped: Vec<RegionId>,
}

impl Regions {
    /// Orders the attempts: in `hedge`, a region that announced (`announcers`) goes before the primary:
    /// it is the one that surely has what the others may lack.
    pub(crate) fn plan(&self, purpose: Purpose, announcers: RegionSet) -> RacePlan {
        let now = self.clock.now();
        let mut plan = RacePlan::default();
        let (mut fit, mut last_resort) = (Vec::new(), Vec::new());
        let drained = self.drained();
        for (region, state) in self.each().filter(|(region, _)| !drained.contains(*region)) {
            match state.health.fitness(now) {
                Fitness::Fit => fit.push(region),
                Fitness::Outlier { probe: true } => plan.probes.push(region),
                Fitness::Outlier { probe: false } => plan.skipped.push(region),
                Fitness::HeldOff { until } => last_resort.push((until, region)),
            }
        }
        self.order(&mut fit, purpose, announcers);
        if fit.is_empty() {
            fit.extend(if plan.probes.is_empty() { plan.skipped.pop() } else { plan.probes.pop() });
        }
        if fit.is_empty() {
            fit.extend(last_resort.into_iter().min().map(|(_, region)| region));
        }
        for probe in &plan.probes {
            self.region(*probe).state().health.probing(now);
        }
        match purpose {
            Purpose::Background => {
                plan.first =
                    fit.into_iter().filter(|region| self.region(*region).state().background.admit(now)).collect();
                plan.skipped.clear();
            }
            Purpose::Foreground => self.spend(&mut plan, fit, now),
        }
        plan
    }

    /// Splits the fit ones into those asked at once and the reserve. The first always goes; the
    /// others cost a token.
    fn spend(&self, plan: &mut RacePlan, fit: Vec<RegionId>, now: Moment) {
        let at_once = match self.mode {
            RaceMode::All => fit.len(),
            RaceMode::Hedge => 1,
        };
        for (place, region) in fit.into_iter().enumerate() {
            let goes = place == 0 || (place < at_once && self.region(region).state().tokens.spend(now));
            if goes { plan.first.push(region) } else { plan.reserve.push(region) }
        }
    }

    /// Fastest first in `all`; announcer, primary, then the fastest in `hedge`.
    fn order(&self, fit: &mut [RegionId], purpose: Purpose, announcers: RegionSet) {
        fit.sort_by_key(|region| self.region(*region).state().health.typical());
        if purpose == Purpose::Background || self.mode == RaceMode::All {
            return;
        }
        fit.sort_by_key(|region| (!announcers.contains(*region), *region != self.primary));
    }

    /// Takes from the reserve what may be asked now: all that have a token or, if none has, just
    /// the next one.
    pub(crate) fn take_from(&self, reserve: &mut Vec<RegionId>) -> Vec<RegionId> {
        let (now, drained) = (self.clock.now(), self.drained());
        reserve.retain(|region| !drained.contains(*region));
        let (mut drawn, mut kept) = (Vec::new(), Vec::new());
        for region in reserve.drain(..) {
            let goes = self.region(region).state().tokens.spend(now);
            if goes { drawn.push(region) } else { kept.push(region) }
        }
        if drawn.is_empty() && !kept.is_empty() {
            drawn.push(kept.remove(0));
        }
        *reserve = kept;
        drawn
    }

    /// All regions that are asked at all, in the order in which a request is passed to them: fit
    /// ones by latency, outliers, those that asked to wait, and finally those to avoid.
    pub(crate) fn line_up(&self, avoid: RegionSet) -> Vec<RegionId> {
        let (now, drained) = (self.clock.now(), self.drained());
        let mut line: Vec<_> = self
            .each()
            .filter(|(region, _)| !drained.contains(*region))
            .map(|(region, state)| {
                let unfit = match state.health.fitness(now) {
                    Fitness::Fit => 0,
                    Fitness::Outlier { .. } => 1,
                    Fitness::HeldOff { .. } => 2,
                };
                (avoid.contains(region), unfit, state.health.typical(), region != self.primary, region)
            })
            .collect();
        line.sort_unstable();
        line.into_iter().map(|(.., region)| region).collect()
    }
}
