//! State that the scenarios of one run share, and the rounds in which all subjects take turns. The
//! subjects of one scenario are measured A B C, A B C, ..., so that whatever else the machine does
//! hits all of them alike.

use std::path::PathBuf;
use std::time::Duration;

use super::entrant::Entrant;
use super::error::BenchError;
use super::host::Host;
use super::pace::{End, LoadPace};
use super::progress::Progress;
use super::result::{Missing, Scenario};

#[derive(Clone, Debug)]
pub(crate) struct BenchSettings {
    /// Repetitions of everything.
    pub rounds: usize,
    /// Length of a round.
    pub round: Duration,
    /// Time of load before each round counts.
    pub warm_up: Duration,
    /// The scenarios to run; empty means all.
    pub only: Vec<String>,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// The binary to measure, if it is not the one beside the harness.
    pub nearside: Option<PathBuf>,
}

/// Bench of a scenario: the host, the plan and the progress.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub settings: &'a BenchSettings,
    /// The machine and the harness's own servers.
    pub host: &'a Host,
    pub progress: &'a Progress,
    /// The peers that could not be measured, for the report.
    pub missing: &'a mut Vec<Missing>,
}

impl Bench<'_> {
    /// Lets all entrants take turns at one pace, and adds their rows to the scenario.
    pub(crate) fn rounds(
        &self,
        scenario: &mut Scenario,
        mut entrants: Vec<Entrant>,
        pace: LoadPace,
    ) -> Result<(), BenchError> {
        let BenchSettings { rounds, round, warm_up, .. } = *self.settings;
        let bar = self.progress.scenario(&scenario.name, rounds * entrants.len());
        for number in 1..=rounds {
            for entrant in &mut entrants {
                bar.doing(&format!("{}, round {number} of {rounds}", entrant.name()));
                entrant.warm(pace, End::After(warm_up))?;
                entrant.measure(pace, End::After(round))?;
                bar.done_one();
            }
        }
        scenario.rows.extend(entrants.into_iter().map(Entrant::into_row));
        Ok(())
    }

    /// Notes once that a peer could not be measured.
    pub(crate) fn miss(&mut self, name: &str, why: &BenchError) {
        if !self.missing.iter().any(|missing| missing.name == name) {
            self.missing.push(Missing { name: name.to_owned(), why: why.to_string() });
        }
    }
}
