//! Metrics of the views service, and rations of its log lines.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::disagreement::Disagreement;
use super::make::Unmappable;
use crate::model::time::Moment;
use crate::telemetry::labels::{label_sets, label_values};
use crate::telemetry::metrics::definition::{Family, metrics};
use crate::telemetry::rate_limiter::RateLimiter;

/// Outcome of a view that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(super) enum MappedView {
    Written,
    /// Only what it was made of has changed.
    Noted,
    Unchanged,
    NoRecord,
    LeftAlone,
    Failed,
}

/// Cause for which mapping a view begins again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(super) enum MappedAgain {
    /// Its record changed meanwhile.
    Moved,
    /// A condition did not hold.
    Refused,
}

/// Table that the views service reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(super) enum ReadTable {
    Records,
    Mapping,
}

label_values!(MappedView, MappedAgain, ReadTable, Unmappable, Disagreement);

label_sets! {
    MappedLabels { outcome: MappedView }
    UnmappableLabels { reason: Unmappable }
    AgainLabels { cause: MappedAgain }
    DifferingLabels { how: Disagreement }
    UnreadableLabels { table: ReadTable }
}

metrics! {
    /// Metrics of the views service.
    pub struct ViewsMetrics("views_") {
        /// Views that were looked at, by outcome.
        mapped: Family<MappedLabels, Counter>,
        /// Views that could not be made, by reason.
        unmappable: Family<UnmappableLabels, Counter>,
        /// Times that mapping began again, by cause.
        again: Family<AgainLabels, Counter>,
        /// Removals in the feed, which change nothing.
        pub(super) removals: Counter,
        /// Changes that became a job, and definitions that changed.
        pub(super) jobs_begun: Counter,
        /// Views that jobs looked at.
        pub(super) job_views: Counter,
        /// Jobs that are not done.
        pub(super) jobs: Gauge,
        /// Views that cannot be made as things are.
        pub(super) failures: Gauge,
        /// Views that the sweep compared.
        pub(super) swept: Counter,
        /// Views that the sweep found to differ, by how; above 0 something lost a change.
        swept_differing: Family<DifferingLabels, Counter>,
        /// Items that are not what they should be and were skipped, by table.
        unreadable: Family<UnreadableLabels, Counter>,
    }
}

/// Metrics and rations of log lines; clones share them.
#[derive(Clone, Debug, Default)]
pub struct ViewsCounters {
    pub metrics: ViewsMetrics,
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
    /// Counts an item that is skipped. Whether to log it too; if so, how many were not.
    pub(super) fn unreadable(&self, table: ReadTable, now: Moment) -> Option<u64> {
        self.metrics.unreadable(table).inc();
        self.line(ViewsLine::Unreadable, now)
    }

    /// Number of lines left out since the last one, if this line is to be logged now.
    pub(super) fn line(&self, line: ViewsLine, now: Moment) -> Option<u64> {
        self.lines[line as usize].admit(now)
    }
}

impl ViewsMetrics {
    pub(super) fn mapped(&self, outcome: MappedView) {
        self.mapped.at(&MappedLabels { outcome }).inc();
    }

    pub(super) fn unmappable(&self, reason: Unmappable) {
        self.unmappable.at(&UnmappableLabels { reason }).inc();
    }

    pub(super) fn again(&self, cause: MappedAgain) {
        self.again.at(&AgainLabels { cause }).inc();
    }

    pub(super) fn differing(&self, how: Disagreement) {
        self.swept_differing.at(&DifferingLabels { how }).inc();
    }

    /// Items of this table that were skipped.
    pub(super) fn unreadable(&self, table: ReadTable) -> &Counter {
        self.unreadable.at(&UnreadableLabels { table })
    }

    /// Differences of every kind that the sweep found.
    #[cfg(test)]
    pub(super) fn differences(&self) -> u64 {
        self.swept_differing.total()
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn page_lists_every_counter_by_name() {
        let (counters, mut registry) = (ViewsCounters::default(), Registry::with_prefix("nearside"));
        registry.register_collector(Box::new(counters.metrics.clone()));
        counters.metrics.mapped(MappedView::Written);
        counters.metrics.differing(Disagreement::Older);
        counters.metrics.failures.set(3);
        counters.unreadable(ReadTable::Mapping, Moment::default());
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
