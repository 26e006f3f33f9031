//! What the views service counts.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::disagreement::Disagreement;
use crate::engine::Table;
use crate::model::time::Moment;
use crate::telemetry::rate_limiter::RateLimiter;

/// One label, of a closed set of words.
type Word = [(&'static str, &'static str); 1];

/// What becomes of a view that is looked at, why one cannot be made, and why mapping begins again.
const MAPPED: [&str; 6] = ["written", "noted", "unchanged", "no-record", "left-alone", "failed"];
const UNMAPPABLE: [&str; 4] = ["main-not-an-object", "input-not-an-object", "too-large", "refused"];
const AGAIN: [&str; 2] = ["moved", "refused"];

/// Cheap to clone; clones count together.
#[derive(Clone, Debug, Default)]
pub struct ViewsCounters {
    mapped: Family<Word, Counter>,
    unmappable: Family<Word, Counter>,
    attempts_again: Family<Word, Counter>,
    pub(super) removals: Counter,
    pub(super) jobs_begun: Counter,
    pub(super) job_views: Counter,
    pub(super) jobs: Gauge,
    pub(super) failures: Gauge,
    pub(super) swept: Counter,
    swept_differing: Family<Word, Counter>,
    unreadable: Family<Word, Counter>,
    lines: Arc<[RateLimiter; ViewsLine::COUNT]>,
}

/// Lines that records, regions or a store that fails can provoke, each rationed by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum ViewsLine {
    Unreadable,
    /// The engine refuses a view, or a part of it.
    Refused,
    RefusedPart,
    Unmappable,
    MadeOfNewer,
    SweepRead,
    SweepMend,
    Differs,
    JobWaits,
    NoJob,
    Adoption,
    LeftAlone,
    Trimmed,
}

impl ViewsLine {
    const COUNT: usize = Self::Trimmed as usize + 1;
}

impl ViewsCounters {
    /// Puts the counters on the metrics page, each under `views_`.
    pub fn register(&self, registry: &mut Registry) {
        // What never happened is shown as zero.
        MAPPED.iter().for_each(|word| drop(self.mapped.get_or_create(&[("outcome", *word)])));
        UNMAPPABLE.iter().for_each(|word| drop(self.unmappable.get_or_create(&[("reason", *word)])));
        AGAIN.iter().for_each(|word| drop(self.attempts_again.get_or_create(&[("cause", *word)])));
        let differing = |how: &Disagreement| drop(self.swept_differing.get_or_create(&[("how", how.word())]));
        Disagreement::ALL.iter().for_each(differing);
        let unreadable = |table: Table| drop(self.unreadable.get_or_create(&[("table", table.word())]));
        [Table::Records, Table::Mapping].into_iter().for_each(unreadable);
        let registry = registry.sub_registry_with_prefix("views");
        registry.register("mapped", "Views that were looked at, by what came of it", self.mapped.clone());
        registry.register("unmappable", "Views that could not be made, by reason", self.unmappable.clone());
        registry.register("again", "Times that mapping began again, by cause", self.attempts_again.clone());
        registry.register("removals", "Removals in the feed, which change nothing", self.removals.clone());
        registry.register(
            "jobs_begun",
            "Changes that became a job, and definitions that changed",
            self.jobs_begun.clone(),
        );
        registry.register("job_views", "Views that jobs looked at", self.job_views.clone());
        registry.register("jobs", "Jobs that are not done", self.jobs.clone());
        registry.register("failures", "Views that cannot be made as things are", self.failures.clone());
        registry.register("swept", "Views that the sweep compared", self.swept.clone());
        let help = "Views that the sweep found to differ, by how; above 0 something lost a change";
        registry.register("swept_differing", help, self.swept_differing.clone());
        let help = "Items that are not what they should be and were passed over, by table";
        registry.register("unreadable", help, self.unreadable.clone());
    }

    /// Counts an item that is passed over. Whether to log it too; if so, how many were not.
    pub(super) fn unreadable(&self, table: Table, now: Moment) -> Option<u64> {
        self.unreadable.get_or_create(&[("table", table.word())]).inc();
        self.line(ViewsLine::Unreadable, now)
    }

    /// Whether to log this line now; if so, how many were left out since the last one.
    pub(super) fn line(&self, line: ViewsLine, now: Moment) -> Option<u64> {
        self.lines[line as usize].take(now)
    }

    pub(super) fn mapped(&self, outcome: &'static str) {
        self.mapped.get_or_create(&[("outcome", outcome)]).inc();
    }

    pub(super) fn unmappable(&self, reason: &'static str) {
        self.unmappable.get_or_create(&[("reason", reason)]).inc();
    }

    pub(super) fn again(&self, cause: &'static str) {
        self.attempts_again.get_or_create(&[("cause", cause)]).inc();
    }

    pub(super) fn differing(&self, how: &'static str) {
        self.swept_differing.get_or_create(&[("how", how)]).inc();
    }

    #[cfg(test)]
    pub(super) fn passed_over(&self, table: Table) -> u64 {
        self.unreadable.get_or_create(&[("table", table.word())]).get()
    }

    /// What the sweep found, of every kind.
    #[cfg(test)]
    pub(super) fn differences(&self) -> u64 {
        Disagreement::ALL.iter().map(|how| self.swept_differing.get_or_create(&[("how", how.word())]).get()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_every_counter_under_its_name() {
        let (counters, mut registry) = (ViewsCounters::default(), Registry::with_prefix("nearside"));
        counters.register(&mut registry);
        counters.mapped("written");
        counters.differing("older");
        counters.failures.set(3);
        counters.unreadable(Table::Mapping, Moment::default());
        let mut page = String::new();
        prometheus_client::encoding::text::encode(&mut page, &registry).unwrap();
        for line in [
            "nearside_views_mapped_total{outcome=\"written\"} 1",
            "nearside_views_swept_differing_total{how=\"older\"} 1",
            "nearside_views_failures 3",
            "nearside_views_unreadable_total{table=\"mapping\"} 1",
        ] {
            assert!(page.contains(line), "{line} in\n{page}");
        }
    }
}
