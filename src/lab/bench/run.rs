//! A run: which scenarios, in which order, and the rounds in which all subjects take turns. The
//! subjects of one scenario are measured A B C, A B C, ..., so that whatever else the machine does
//! hits all of them alike. CPU time is read around the measured requests alone.

pub(crate) mod scenario;

use std::time::Duration;

use super::client::{Client, Speaks};
use super::ground::{self, Ground};
use super::load::{BenchRequest, Counted, LoadError};
use super::pace::{End, LoadPace};
use super::paths::Paths;
use super::progress::Progress;
use super::promises;
use super::result::{BenchReport, Missing, Round, Row, Scenario};
use super::subject::{Subject, SubjectError};
use crate::model::time::Clock;

#[derive(Clone, Debug)]
pub(crate) struct BenchSettings {
    /// Repetitions of everything.
    pub rounds: usize,
    /// How long a round is measured.
    pub round: Duration,
    /// How long load runs before each round counts.
    pub warm_up: Duration,
    /// The scenarios to run; empty means all.
    pub only: Vec<String>,
    /// The seed of everything that is drawn.
    pub seed: u64,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The harness's own servers, or nearside, did not start.
    #[error(transparent)]
    Start(#[from] SubjectError),
    /// A server that was there is gone.
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("there is no scenario {asked:?}; there are {known}")]
    Unknown { asked: String, known: String },
    /// The load generator speaks no TLS, because the cost of TLS would be the client's.
    #[error("{url} cannot be measured: {why}")]
    NotHttp {
        url: String,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// A subject answers wrongly, so its figures would mean nothing.
    #[error("{subject} answered wrongly: {why}")]
    Wrong { subject: String, why: String },
}

/// Runs the scenarios that were asked for.
pub(crate) fn run(settings: &BenchSettings, progress: &Progress) -> Result<BenchReport, BenchError> {
    let known = scenario::ALL;
    for asked in &settings.only {
        if !known.iter().any(|(name, _)| name == asked) {
            let known = known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            return Err(BenchError::Unknown { asked: asked.clone(), known });
        }
    }
    let began = Clock::System.now();
    let ground = Ground::new()?;
    let mut report =
        BenchReport { began: ground::rfc3339_now(), machine: ground.machine.clone(), ..BenchReport::default() };
    for (name, measure) in known {
        if settings.only.is_empty() || settings.only.iter().any(|only| only == name) {
            let mut bench = Bench { settings, ground: &ground, progress, missing: &mut report.missing };
            let began = Clock::System.now();
            let mut measured = measure(&mut bench)?;
            measured.took_s = (Clock::System.now() - began).as_secs_f64();
            progress.took(name, measured.took_s);
            report.scenarios.push(measured);
        }
    }
    report.promises = promises::judged(&report);
    report.took_s = (Clock::System.now() - began).as_secs_f64();
    Ok(report)
}

/// What a scenario works with.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub settings: &'a BenchSettings,
    /// The machine and the harness's own servers.
    pub ground: &'a Ground,
    pub progress: &'a Progress,
    /// The peers that could not be measured, for the report.
    pub missing: &'a mut Vec<Missing>,
}

/// A subject and the client that puts load on it.
pub(crate) struct Entrant {
    subject: Subject,
    client: Client,
    row: Row,
    proven: (u64, u64),
}

impl Entrant {
    /// Opens `connections` to a subject that is to answer `ask` over HTTP/1.1, and checks that it
    /// does.
    pub(crate) fn new(subject: Subject, connections: usize, ask: BenchRequest) -> Result<Self, BenchError> {
        Self::over(subject, &Speaks::Http1 { connections }, ask)
    }

    /// The same over any protocol.
    pub(crate) fn over(subject: Subject, speaks: &Speaks, ask: BenchRequest) -> Result<Self, BenchError> {
        let mut client =
            Client::open(&subject.address, speaks, BenchRequest { proof: subject.proof.clone(), ..ask })?;
        // The first request fills the cache and the next ones should hit; some caches store only
        // after they have answered.
        let first = client.run(LoadPace::Closed, End::Requests(64))?;
        // On a table's bad day one read in a thousand fails.
        if let Some(why) = first.first_failure.filter(|_| first.failures > 4) {
            return Err(BenchError::Wrong { subject: subject.name, why });
        }
        let Subject { name, version, settings, .. } = &subject;
        let row =
            Row { subject: name.clone(), version: version.clone(), settings: settings.clone(), ..Row::default() };
        Ok(Self { subject, client, row, proven: (0, 0) })
    }

    /// Checks that all replies carry the proof by now, for subjects where a mere majority would
    /// hide something.
    pub(crate) fn prove(&mut self) -> Result<(), BenchError> {
        let counted = self.client.run(LoadPace::Closed, End::Requests(64))?;
        if counted.proven == 64 {
            return Ok(());
        }
        let why = counted
            .first_failure
            .unwrap_or_else(|| format!("{} on {} of 64 replies", self.subject.proof.in_words(), counted.proven));
        Err(BenchError::Wrong { subject: self.subject.name.clone(), why })
    }

    /// From now on, asks for other paths.
    pub(crate) fn ask_for(&mut self, paths: Paths) {
        self.client.ask_for(paths);
    }

    /// The memory of its process in bytes; 0 if it is not ours to look at.
    pub(crate) fn memory(&self) -> u64 {
        self.subject.process.as_ref().map_or(0, super::process::Running::memory)
    }

    /// Puts load on it without measuring.
    pub(crate) fn warm(&mut self, pace: LoadPace, end: End) -> Result<Counted, BenchError> {
        Ok(self.client.run(pace, end)?)
    }

    /// Measures one round for its row, and returns what was counted.
    pub(crate) fn measure(&mut self, pace: LoadPace, end: End) -> Result<Counted, BenchError> {
        let cpu = || self.subject.process.as_ref().map(super::process::Running::cpu);
        let before = cpu();
        let counted = self.client.run(pace, end)?;
        let spent = before.zip(cpu()).map(|(before, after)| after.saturating_sub(before));
        self.proven.0 += counted.proven;
        self.proven.1 += counted.answered;
        if let Some(why) = &counted.first_failure {
            tracing::warn!(subject = self.subject.name, "{why}");
        }
        let memory = self.subject.process.as_ref().map(super::process::Running::memory);
        self.row.rounds.push(round(&counted, spent, memory));
        Ok(counted)
    }

    /// The rounds so far as a row of their own named `name`; later rounds go into another row.
    pub(crate) fn take_row(&mut self, name: String) -> Row {
        let rounds = std::mem::take(&mut self.row.rounds);
        let proof = self.proof();
        self.proven = (0, 0);
        Row { subject: name, proof, rounds, ..self.row.clone() }
    }

    /// Stops the subject and returns its row.
    pub(crate) fn into_row(self) -> Row {
        Row { proof: self.proof(), ..self.row }
    }

    fn proof(&self) -> String {
        let (proven, answered) = self.proven;
        let share = 100.0 * proven as f64 / answered.max(1) as f64;
        let on = if proven == answered { "all".to_owned() } else { format!("{share:.2} %") };
        format!("{} on {on}", self.subject.proof.in_words())
    }
}

/// Turns what was counted into a round of the report.
pub(crate) fn round(counted: &Counted, cpu: Option<Duration>, memory: Option<u64>) -> Round {
    Round {
        took_s: counted.took.as_secs_f64(),
        requests: counted.answered,
        failures: counted.failures,
        resent: counted.resent,
        cpu_us: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / counted.answered.max(1) as f64),
        rss_bytes: memory,
        latency: counted.latencies.summary(),
    }
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
                bar.doing(&format!("{}, round {number} of {rounds}", entrant.subject.name));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_keeps_what_was_counted() {
        let counted = Counted { answered: 9, failures: 2, resent: 4, ..Counted::default() };
        let round = round(&counted, None, None);
        assert_eq!((round.requests, round.failures, round.resent), (9, 2, 4));
    }
}
