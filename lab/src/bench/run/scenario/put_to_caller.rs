//! One change after the other, from a PUT to the catalogue to what a sidecar's caller reads, split by
//! hop. The versions of records and views are the times at which they were given, and SNS says when
//! it took an announcement; all clocks are this machine's.

use std::collections::BTreeMap;
use std::time::Duration;

use nearside::app::process::block_on;
use nearside::aws::failure::CallFailure;
use nearside::model::time::{Clock, Wall};

use crate::bench::announcer::Announcer;
use crate::bench::entrant::round;
use crate::bench::error::BenchError;
use crate::bench::histogram::Latencies;
use crate::bench::load::Counted;
use crate::bench::result::{Missing, Row, Scenario};
use crate::bench::services::deployment::{self, Deployment, Emulator, TYPE};
use crate::bench::services::subscriber::TopicSubscriber;
use crate::bench::session::Bench;
use crate::bench::subject::SubjectError;
use crate::dev::catalogue::{CatalogueClient, NotWritten};
use crate::dev::reader::WorldReader;
use crate::limits;

/// The hops of a change, the first of them all of it.
const HOPS: [&str; 5] =
    ["PUT to caller", "PUT answered", "record to view", "view to announced", "announced to caller"];
const KEY: &str = "measured";
/// Changes of a round: on redb, and on the emulator, where each takes most of a second.
const CHANGES: [usize; 2] = [40, 20];
/// Number of changes in rounds below a second.
const FEW: usize = 3;
const NO_EMULATOR: &str = "it is not set up; run tests/emulator/setup.sh, then this from the root of the repository";
/// Between two requests of the caller who waits for the change.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Measures the embedded engine, and the emulator if it is there.
pub(super) fn hops(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let mut scenario = Scenario {
        name: "put-to-caller".to_owned(),
        title: "From a PUT to what a sidecar's caller reads".to_owned(),
        how:
            "one change at a time of one record; the caller asks its sidecar each millisecond; embedded: catalogue, \
              views and region are one process on redb, SNS and SQS the harness's; emulator: each a process, tables, \
              streams, SNS and SQS of the emulator; times between processes are precise to a millisecond"
                .to_owned(),
        ..Scenario::default()
    };
    let announcer = Announcer::start(bench.host, 1)?;
    let embedded = deployment::embedded(bench.host, &announcer)?;
    measure(bench, &mut scenario, "embedded", &embedded, CHANGES[0])?;
    drop(embedded);
    match Emulator::find() {
        Some(emulator) => {
            let emulated = deployment::emulated(bench.host, &emulator)?;
            measure(bench, &mut scenario, "emulator", &emulated, CHANGES[1])?;
        }
        None => bench.missing.push(Missing { name: "the AWS emulator".to_owned(), why: NO_EMULATOR.to_owned() }),
    }
    Ok(scenario)
}

fn measure(
    bench: &Bench<'_>,
    scenario: &mut Scenario,
    engine: &str,
    deployment: &Deployment,
    changes: usize,
) -> Result<(), BenchError> {
    let rounds = bench.settings.rounds;
    let changes = if bench.settings.round >= Duration::from_secs(1) { changes } else { FEW };
    let bar = bench.progress.scenario(&scenario.name, rounds);
    let mut rows = HOPS.map(|hop| Row {
        subject: format!("{engine}: {hop}"),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings: format!("{changes} changes a round"),
        proof: "the version that was announced".to_owned(),
        ..Row::default()
    });
    block_on(async {
        let follower = ChangeFollower::open(deployment).await?;
        let mut before = follower.first().await?;
        for number in 1..=rounds {
            bar.doing(&format!("{engine}, round {number} of {rounds}"));
            let began = follower.clock.now();
            let mut seen = Vec::with_capacity(changes);
            for change in 0..changes {
                let change = follower.change(number * changes + change, before).await?;
                before = change.view;
                seen.push(change);
            }
            let took = follower.clock.now() - began;
            let announced = follower.announced(&seen).await?;
            for (row, latencies) in rows.iter_mut().zip(split(&seen, &announced)) {
                let failures = (seen.len() as u64).saturating_sub(latencies.len());
                let counted = Counted { took, answered: latencies.len(), failures, latencies, ..Counted::default() };
                row.rounds.push(round(&counted, None, None));
            }
            bar.done_one();
        }
        Ok::<_, FollowError>(())
    })
    .map_err(FollowError::from)
    .flatten()
    .map_err(|error| SubjectError::Unable { program: engine.to_owned(), why: error.to_string() })?;
    scenario.rows.extend(rows);
    Ok(())
}

/// A change as its writer and a caller saw it.
#[derive(Clone, Copy, Debug)]
struct SeenChange {
    /// Time of the catalogue's answer, and time until the caller read the change.
    put: Duration,
    whole: Duration,
    record: u64,
    view: u64,
    seen: Wall,
}

/// One distribution for each of [`HOPS`].
fn split(changes: &[SeenChange], announced: &BTreeMap<u64, Wall>) -> [Latencies; 5] {
    let mut hops = [(); 5].map(|()| Latencies::default());
    let [whole, put, mapped, reported, taken] = &mut hops;
    for change in changes {
        whole.record(change.whole);
        put.record(change.put);
        mapped.record(Duration::from_millis(change.view.saturating_sub(change.record)));
        if let Some(at) = announced.get(&change.view) {
            reported.record(at.since(Wall::from_millis(change.view)));
            taken.record(change.seen.since(*at));
        }
    }
    hops
}

/// Why a change could not be followed.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error(transparent)]
    Put(#[from] NotWritten),
    #[error(transparent)]
    Topic(#[from] CallFailure),
    #[error("no client, or no runtime: {0}")]
    Client(#[from] std::io::Error),
    #[error("no client: {0}")]
    Http(#[from] reqwest::Error),
    #[error("a change had not arrived after {0:?}")]
    Late(Duration),
}

/// Follower of a change: clients of both ends of its hops, and the topic's subscriber.
struct ChangeFollower {
    clock: Clock,
    catalogue: CatalogueClient,
    caller: WorldReader,
    subscriber: TopicSubscriber,
}

impl ChangeFollower {
    async fn open(deployment: &Deployment) -> Result<Self, FollowError> {
        let (clock, http) = (Clock::System, reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?);
        let caller = WorldReader::new(deployment.sidecar, clock.clone())?;
        let catalogue = CatalogueClient::new(http, deployment.catalogue, None);
        Ok(Self { clock, catalogue, caller, subscriber: TopicSubscriber::open(deployment).await? })
    }

    /// Writes the record for the first time; returns the view's version.
    async fn first(&self) -> Result<u64, FollowError> {
        self.change(0, 0).await.map(|change| change.view)
    }

    /// Changes the record, and asks until the view is newer than `before`.
    async fn change(&self, users: usize, before: u64) -> Result<SeenChange, FollowError> {
        let began = self.clock.now();
        let record = self.catalogue.put(TYPE, KEY, format!("{{\"users\":{users}}}")).await?;
        let put = self.clock.now() - began;
        loop {
            let shown = self.caller.get(KEY).await;
            let whole = self.clock.now() - began;
            match shown.version.filter(|version| shown.is_good() && *version > before) {
                Some(view) => return Ok(SeenChange { put, whole, record, view, seen: self.clock.wall() }),
                None if whole > limits::BENCH_CHANGE_WAIT => return Err(FollowError::Late(whole)),
                None => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Times at which SNS took the announcements of these changes.
    async fn announced(&self, changes: &[SeenChange]) -> Result<BTreeMap<u64, Wall>, FollowError> {
        let (began, mut announced) = (self.clock.now(), BTreeMap::new());
        while !changes.iter().all(|change| announced.contains_key(&change.view)) {
            for reported in self.subscriber.next().await? {
                announced.entry(reported.version).or_insert(reported.published);
            }
            if self.clock.now().since(began) > limits::BENCH_CHANGE_WAIT {
                break;
            }
        }
        Ok(announced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_split_change_by_timestamps() {
        let ms = Duration::from_millis;
        let change =
            SeenChange { put: ms(4), whole: ms(100), record: 1_002, view: 1_010, seen: Wall::from_millis(1_100) };
        let announced = BTreeMap::from([(1_010, Wall::from_millis(1_030))]);
        let reported = split(&[change], &announced).map(|hop| (hop.at(50.0) / 1e3).round() as u64);
        assert_eq!(reported, [100, 4, 8, 20, 70]);
        let silent = split(&[change], &BTreeMap::new()).map(|hop| hop.len());
        assert_eq!(silent, [1, 1, 1, 0, 0], "what was not announced has no time of it");
    }
}
