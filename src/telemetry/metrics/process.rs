//! Gauges of every process, whatever it is there for.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use super::page::Page;
use crate::telemetry::sink;

/// Values measured when somebody looks.
#[derive(Clone, Debug, Default)]
pub struct ProcessGauges {
    pub uptime: Duration,
    /// State that `/readyz` reports, one of `states`.
    pub readiness: &'static str,
    pub states: &'static [&'static str],
    /// Open connections to the listeners of callers.
    pub connections: usize,
    /// Running tasks, by name.
    pub tasks: BTreeMap<&'static str, usize>,
    /// Tasks that panicked, by name, of all names that there are.
    pub task_panics: BTreeMap<&'static str, u64>,
}

impl ProcessGauges {
    pub(super) fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        page.gauge("connections", "Connections open to the service's listeners", self.connections as f64)?;
        page.gauge("uptime_seconds", "Time since the process started", self.uptime.as_secs_f64())?;
        let states = self.states.iter().map(|word| ([("state", *word)], u64::from(*word == self.readiness)));
        page.gauges("readiness", "State that /readyz reports", states)?;
        let tasks = self.tasks.iter().map(|(name, count)| ([("name", *name)], *count as u64));
        page.gauges("tasks", "Tasks running", tasks)?;
        let panics = self.task_panics.iter().map(|(task, count)| ([("task", *task)], *count));
        page.counters("task_panics", "Tasks that panicked, which is a defect", panics)?;
        let lost = sink::lost().into_iter().map(|(reason, count)| ([("reason", reason)], count));
        let help = "Log lines that were lost, since the log was not read or could not be written";
        page.counters("log_lines_lost", help, lost)?;
        page.info("build", "Version of Nearside", &[("version", env!("CARGO_PKG_VERSION"))])
    }
}

impl Collector for ProcessGauges {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.write(&mut Page { encoder })
    }
}

/// Page of a service: the gauges of every process, then the service's own registry.
pub fn page(gauges: ProcessGauges, own: &Registry) -> String {
    let mut every = Registry::with_prefix("nearside");
    every.register_collector(Box::new(gauges));
    let mut page = String::with_capacity(8 << 10);
    text::encode_registry(&mut page, &every)
        .and_then(|()| text::encode_registry(&mut page, own))
        .and_then(|()| text::encode_eof(&mut page))
        .expect("writing to a String cannot fail");
    page
}
