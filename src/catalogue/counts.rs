//! What the catalogue counts for `/metrics`. Labels are words of the program, nothing else.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

type Label = [(&'static str, &'static str); 1];

/// Seconds: 1 ms, which is memory or a disk, to the patience of a caller.
const STORE_BOUNDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0];
const WRITES: [&str; 4] = ["created", "replaced", "deleted", "replayed"];
const READS: [&str; 3] = ["record", "listing", "history"];
const CALLS: [&str; 3] = ["get", "query", "write"];

/// Counters of one catalogue.
#[derive(Debug)]
pub struct CatalogueCounts {
    writes: Family<Label, Counter>,
    reads: Family<Label, Counter>,
    refusals: Family<Label, Counter>,
    conflicts: Counter,
    damaged: Counter,
    store: Family<Label, Histogram, fn() -> Histogram>,
}

impl Default for CatalogueCounts {
    fn default() -> Self {
        let counts = Self {
            writes: Family::default(),
            reads: Family::default(),
            refusals: Family::default(),
            conflicts: Counter::default(),
            damaged: Counter::default(),
            store: Family::new_with_constructor(|| Histogram::new(STORE_BOUNDS)),
        };
        // What never happened is shown as zero.
        for word in WRITES {
            drop(counts.writes.get_or_create(&[("outcome", word)]));
        }
        for word in READS {
            drop(counts.reads.get_or_create(&[("what", word)]));
        }
        for word in CALLS {
            drop(counts.store.get_or_create(&[("call", word)]));
        }
        counts
    }
}

impl CatalogueCounts {
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("catalogue");
        registry.register("writes", "Records written, and requests whose answer was repeated", self.writes.clone());
        registry.register("reads", "Reads that were answered with something", self.reads.clone());
        registry.register("refusals", "Requests that got a problem document, by problem", self.refusals.clone());
        registry.register("conflicts", "Writes that were tried again, or given up", self.conflicts.clone());
        registry.register("damaged", "Reads of records that are no JSON objects", self.damaged.clone());
        let help = "How long the store took, whatever it answered";
        registry.register_with_unit("store_duration", help, Unit::Seconds, self.store.clone());
    }

    pub(super) fn wrote(&self, outcome: &'static str) {
        self.writes.get_or_create(&[("outcome", outcome)]).inc();
    }

    pub(super) fn read(&self, what: &'static str) {
        self.reads.get_or_create(&[("what", what)]).inc();
    }

    /// It is shown from now on, as zero.
    pub(super) fn may_refuse(&self, problem: &'static str) {
        drop(self.refusals.get_or_create(&[("problem", problem)]));
    }

    pub(super) fn refused(&self, problem: &'static str) {
        self.refusals.get_or_create(&[("problem", problem)]).inc();
    }

    pub(super) fn conflict(&self) {
        self.conflicts.inc();
    }

    pub(super) fn damaged(&self) {
        self.damaged.inc();
    }

    pub(super) fn store_took(&self, call: &'static str, took: Duration) {
        self.store.get_or_create(&[("call", call)]).observe(took.as_secs_f64());
    }
}
