//! A subject under load: it proves itself, and its rounds become a row of the report. CPU time is
//! read around the measured requests alone.

use std::time::Duration;

use super::client::{Client, Speaks};
use super::error::BenchError;
use super::load::{BenchRequest, Counted};
use super::pace::{End, LoadPace};
use super::paths::Paths;
use super::process::Running;
use super::result::{Round, Row};
use super::subject::Subject;

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

    /// Prepares an entrant over any protocol.
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

    pub(crate) fn name(&self) -> &str {
        &self.subject.name
    }

    /// From now on, asks for other paths.
    pub(crate) fn ask_for(&mut self, paths: Paths) {
        self.client.ask_for(paths);
    }

    /// The memory of its process in bytes; 0 if it is not ours to look at.
    pub(crate) fn memory(&self) -> u64 {
        self.subject.process.as_ref().map_or(0, Running::memory)
    }

    /// Puts load on it without measuring.
    pub(crate) fn warm(&mut self, pace: LoadPace, end: End) -> Result<Counted, BenchError> {
        Ok(self.client.run(pace, end)?)
    }

    /// Measures one round for its row, and returns what was counted.
    pub(crate) fn measure(&mut self, pace: LoadPace, end: End) -> Result<Counted, BenchError> {
        let before = self.cpu();
        let counted = self.client.run(pace, end)?;
        let spent = before.zip(self.cpu()).map(|(before, after)| after.saturating_sub(before));
        self.proven.0 += counted.proven;
        self.proven.1 += counted.answered;
        if let Some(why) = &counted.first_failure {
            tracing::warn!(subject = self.subject.name, "{why}");
        }
        let memory = self.subject.process.as_ref().map(Running::memory);
        self.row.rounds.push(round(&counted, spent, memory));
        Ok(counted)
    }

    /// CPU time of the subject so far.
    fn cpu(&self) -> Option<Duration> {
        self.subject.process.as_ref().map(Running::cpu)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_keeps_its_counts() {
        let counted = Counted { answered: 9, failures: 2, resent: 4, ..Counted::default() };
        let round = round(&counted, None, None);
        assert_eq!((round.requests, round.failures, round.resent), (9, 2, 4));
    }
}
