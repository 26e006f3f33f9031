//! Audits of stored replies (R17).

use prometheus_client::metrics::counter::Counter;

use super::definition::{Family, metrics};
use crate::protocol::audit::AuditEnding;
use crate::telemetry::labels::{AuditWindow, label_sets, label_values};

/// Outcome of the audit of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum AuditResult {
    Fresh,
    Announced,
    CaughtUp,
    Regressed,
    Stale,
    Undecided,
    /// A region showed something newer, and there was no room to wait for its announcement.
    Unfollowed,
    /// It was due, and not begun.
    Skipped,
}

impl From<AuditEnding> for AuditResult {
    fn from(ending: AuditEnding) -> Self {
        match ending {
            AuditEnding::Fresh => Self::Fresh,
            AuditEnding::Announced(_) => Self::Announced,
            AuditEnding::CaughtUp => Self::CaughtUp,
            AuditEnding::Regressed => Self::Regressed,
            AuditEnding::Stale => Self::Stale,
            AuditEnding::Undecided => Self::Undecided,
        }
    }
}

/// Freshness of an audited entry within a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum WithinWindow {
    Fresh,
    Stale,
}

label_values!(AuditResult, WithinWindow);

label_sets! {
    AuditLabels { result: AuditResult }
    WindowLabels { within: AuditWindow, outcome: WithinWindow }
}

metrics! {
    /// Audits of stored replies.
    pub struct AuditMetrics {
        /// Stored replies due for their audit, by its end.
        audit_entries: Family<AuditLabels, Counter>,
        /// Audited replies, by whether their change was announced within this of its first sight.
        audit_windows: Family<WindowLabels, Counter>,
    }
}

impl AuditMetrics {
    /// The audit of an entry ended.
    pub fn audited(&self, result: AuditResult) {
        self.audit_entries.at(&AuditLabels { result }).inc();
    }

    /// An audited entry was, or was not, fresh within the window at this position of
    /// [`crate::protocol::limits::AUDIT_WINDOWS`].
    pub fn audited_within(&self, window: usize, fresh: bool) {
        let outcome = if fresh { WithinWindow::Fresh } else { WithinWindow::Stale };
        self.audit_windows.at(&window_labels(window, outcome)).inc();
    }

    /// Number of audits with each result.
    pub fn audits(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let results = <AuditResult as strum::VariantArray>::VARIANTS.iter();
        results.map(|result| (result.into_str(), self.audit_entries.at(&AuditLabels { result: *result }).get()))
    }

    /// Numbers of audited entries that were fresh within the window at this position, and that were
    /// not.
    pub fn audits_within(&self, window: usize) -> (u64, u64) {
        let [fresh, stale] = [WithinWindow::Fresh, WithinWindow::Stale]
            .map(|outcome| self.audit_windows.at(&window_labels(window, outcome)).get());
        (fresh, stale)
    }
}

fn window_labels(window: usize, outcome: WithinWindow) -> WindowLabels {
    WindowLabels { within: AuditWindow(window), outcome }
}
