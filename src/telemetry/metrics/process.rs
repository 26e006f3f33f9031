//! What every process says of itself, whatever it is there for.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::telemetry::sink;

/// Measured when somebody looks.
#[derive(Clone, Debug)]
pub struct ProcessGauges {
    pub uptime: Duration,
    /// What `/readyz` says, one of `states`.
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
    pub(super) fn write(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Connections open to the service's listeners";
        let mut connections = encoder.encode_descriptor("connections", help, None, MetricType::Gauge)?;
        connections.encode_gauge(&(self.connections as f64))?;
        let help = "Since the process started";
        let mut uptime = encoder.encode_descriptor("uptime", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        uptime.encode_gauge(&self.uptime.as_secs_f64())?;
        let mut readiness = encoder.encode_descriptor("readiness", "What /readyz says", None, MetricType::Gauge)?;
        for word in self.states {
            let now = u64::from(*word == self.readiness);
            readiness.encode_family(&[("state", *word)])?.encode_gauge(&now)?;
        }
        let mut tasks = encoder.encode_descriptor("tasks", "Tasks running", None, MetricType::Gauge)?;
        for (name, count) in &self.tasks {
            tasks.encode_family(&[("name", *name)])?.encode_gauge(&(*count as u64))?;
        }
        let help = "Tasks that panicked, which is a defect";
        let mut panics = encoder.encode_descriptor("task_panics", help, None, MetricType::Counter)?;
        for (task, count) in &self.task_panics {
            panics.encode_family(&[("task", *task)])?.encode_counter::<NoLabelSet, u64, u64>(count, None)?;
        }
        let help = "Log lines that were lost, since the log was not read or could not be written";
        let mut lost = encoder.encode_descriptor("log_lines_lost", help, None, MetricType::Counter)?;
        for (reason, count) in sink::lost() {
            lost.encode_family(&[("reason", reason)])?.encode_counter::<NoLabelSet, u64, u64>(&count, None)?;
        }
        let mut build = encoder.encode_descriptor("build", "Which Nearside this is", None, MetricType::Info)?;
        build.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
    }
}

impl Collector for ProcessGauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.write(&mut encoder)
    }
}

/// The page of a service: what every process says, then what is in its own registry.
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
