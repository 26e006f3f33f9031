//! Admin commands, reloads, and budgets that had no room.

use std::fmt::{self, Write};

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;

use super::definition::{Family, metrics};
use crate::telemetry::labels::{Label, Regions, label_sets, label_values};

/// Budget in bytes or number that may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Budget {
    RequestBodies,
    ReplyBodies,
    AnnouncementBodies,
    AnnouncementConnections,
    Races,
    Batches,
    /// Half sent or under way.
    Requests,
    Connections,
}

/// Outcome of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum ReloadOutcome {
    Applied,
    Refused,
}

/// Admin command, in the order in which help lists them.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Command {
    Purge,
    Refresh,
    Reset,
    Inspect,
    Compare,
    Drain,
    Restore,
    Pause,
    Resume,
    Log,
    Jobs,
    Reload,
}

/// Admin command, or `none` of who is turned away before anything is read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CommandOrNone(Option<Command>);

impl Label for CommandOrNone {
    const COUNT: usize = 1 + Command::COUNT;

    fn all(regions: &Regions) -> Vec<Self> {
        [None].into_iter().chain(Command::all(regions).into_iter().map(Some)).map(Self).collect()
    }

    fn position(&self) -> usize {
        self.0.map_or(0, |command| 1 + command.position())
    }
}

impl EncodeLabelValue for CommandOrNone {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.0.map_or("none", |command| command.into_str()))
    }
}

/// Outcome of an admin command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum CommandOutcome {
    Done,
    Refused,
    /// Its sender may not give any.
    Denied,
}

label_values!(Budget, ReloadOutcome, Command, CommandOutcome);

label_sets! {
    BudgetLabels { budget: Budget }
    ReloadLabels { outcome: ReloadOutcome }
    CommandLabels { command: CommandOrNone, outcome: CommandOutcome }
}

metrics! {
    /// Admin commands, reloads, and budgets that had no room.
    pub struct OperationMetrics {
        /// Times that a budget had no room.
        budget_refusals: Family<BudgetLabels, Counter>,
        /// Reloads of the configuration, by their end.
        reloads: Family<ReloadLabels, Counter>,
        /// Admin commands, by command and outcome.
        admin_commands: Family<CommandLabels, Counter>,
    }
}

impl OperationMetrics {
    /// A budget had no room for something.
    pub fn over_budget(&self, budget: Budget) {
        self.budget_refusals.at(&BudgetLabels { budget }).inc();
    }

    pub fn reloaded(&self, outcome: ReloadOutcome) {
        self.reloads.at(&ReloadLabels { outcome }).inc();
    }

    /// An admin command ended; `None` of who may give none.
    pub fn admin_command(&self, command: Option<Command>, outcome: CommandOutcome) {
        self.admin_commands.at(&CommandLabels { command: CommandOrNone(command), outcome }).inc();
    }

    /// Admin commands of this kind with this outcome.
    pub fn admin_commands(&self, command: Option<Command>, outcome: CommandOutcome) -> u64 {
        self.admin_commands.at(&CommandLabels { command: CommandOrNone(command), outcome }).get()
    }
}
