//! Pages of a service: what all of them have in common, and its own part.

use std::sync::Arc;

use serde_json::{Value, json};
use strum::VariantNames;

use super::parts::ServiceParts;
use super::service_process::ServiceProcess;
use super::shell::Shell;
use crate::admin::guard::{Admits, Operators};
use crate::admin::service_commands::ServiceCommands;
use crate::admin::service_pages::{ServicePages, ServiceReadiness, ServiceState};
use crate::config::scope::Origins;
use crate::model::time::Moment;
use crate::tasks::FailingTask;
use crate::telemetry::metrics::process::{self, ProcessGauges};

/// Sources that are read on every call.
struct Sources {
    shell: Arc<Shell>,
    parts: ServiceParts,
    /// `catalogue`, and then its own member of `/status` too.
    word: &'static str,
    title: String,
    warnings: Vec<String>,
    started: Moment,
}

pub(super) fn pages(
    shell: &Arc<Shell>,
    process: &ServiceProcess,
    parts: ServiceParts,
    origins: &Origins,
    operators: Option<Operators>,
    commands: ServiceCommands,
) -> ServicePages {
    let sources = Arc::new(Sources {
        shell: shell.clone(),
        parts,
        word: process.into_str(),
        title: process.title(),
        warnings: origins.warnings.iter().map(ToString::to_string).collect(),
        started: shell.clock.now(),
    });
    let (ready, status, metrics) = (sources.clone(), sources.clone(), sources.clone());
    ServicePages {
        title: sources.title.clone(),
        admits: Arc::new(Admits {
            operators,
            allowed_hosts: process.allowed_hosts(&shell.config).to_vec(),
            allow_cross_site: false,
        }),
        ready: Arc::new(move || ready.readiness()),
        status: Arc::new(move || status.status()),
        metrics: Arc::new(move || process::page(metrics.gauges(), &metrics.shell.registry())),
        commands: Arc::new(commands),
    }
}

impl Sources {
    fn readiness(&self) -> ServiceReadiness {
        let ((own, reasons), lacking) = ((self.parts.state)(), self.shell.engine.lacking());
        let mut lines = lacking.lines();
        lines.extend(self.shell.engine.health().lines());
        let state = if self.shell.shutdown.lingering.is_cancelled() {
            ServiceState::Draining
        } else if lines.is_empty() {
            own
        } else if !lacking.was_whole() || own == ServiceState::Starting {
            ServiceState::Starting
        } else {
            // It did its work already, and nobody is helped by going elsewhere.
            ServiceState::Degraded
        };
        lines.extend(reasons);
        lines.extend(self.shell.tls.as_ref().and_then(|tls| tls.reason(self.shell.clock.wall())));
        lines.extend(self.shell.tasks.failing().iter().map(FailingTask::line));
        ServiceReadiness { state, reasons: lines }
    }

    fn status(&self) -> Value {
        let ServiceReadiness { state, reasons } = self.readiness();
        let shell = &self.shell;
        let mut status = json!({
            "state": state.into_str(),
            "reasons": reasons,
            "warnings": self.warnings,
            "service": self.title,
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_s": shell.clock.now().since(self.started).as_secs(),
            "engine": shell.config.engine.word(),
            "connections": shell.connections.taken(),
            "tasks": shell.tasks.running(),
            "task_panics": shell.tasks.panics(),
            "tls": shell.tls.as_ref().map(|tls| tls.status()),
        });
        status[self.word] = (self.parts.status)();
        status
    }

    fn gauges(&self) -> ProcessGauges {
        ProcessGauges {
            uptime: self.shell.clock.now().since(self.started),
            readiness: self.readiness().state.into_str(),
            states: ServiceState::VARIANTS,
            connections: self.shell.connections.taken(),
            tasks: self.shell.tasks.running(),
            task_panics: self.shell.tasks.panics(),
        }
    }
}
