//! A region's ingester on the memory engine: how many changes a second it takes from the feed to
//! announced, and what it asks of AWS for each. One row has a backlog behind it and a topic that
//! takes everything at once; one announces through the SDK to SNS in a process of its own; one gets
//! changes one by one, as on most days.

use std::sync::Arc;
use std::time::Duration;

use nearside::app::process::block_on;
use nearside::aws::clients::Sdk;
use nearside::engine::aws::SnsTopic;
use nearside::engine::counting::{CallCounts, Calls, Counting, TakesAll};
use nearside::engine::memory::MemoryStore;
use nearside::engine::{Condition, Item, ItemKey, ItemWrite, Stream, Table, Tables, Topic, WriteError, bucket};
use nearside::model::time::Clock;
use nearside::region::ingest::{IngestParts, IngestState, Ingester};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::bench::announcer::Announcer;
use crate::bench::entrant::round;
use crate::bench::error::BenchError;
use crate::bench::histogram::Latencies;
use crate::bench::load::Counted;
use crate::bench::process::own_cpu;
use crate::bench::result::{Goal, Row, Scenario};
use crate::bench::session::{Bench, BenchSettings};
use crate::bench::subject::SubjectError;
use crate::limits;
use crate::names::REGION_NAMES;

const BACKLOG: &str = "nearside, a backlog";
const OVER_SNS: &str = "nearside, a backlog over SNS";
const TRICKLE: &str = "nearside, 10 changes a second";
/// Changes of a backlog, for each second of a round.
const PER_SECOND: f64 = 10_000.0;
/// Between two changes that come one by one.
const EVERY: Duration = Duration::from_millis(100);
const VIEW: &str = "limits";
const BODY_BYTES: usize = 1_000;
/// Between two looks whether all is announced.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Prices of AWS for a million write units and for a million calls to SNS, in USD
/// (docs/services.md).
const PRICES: (f64, f64) = (0.625, 0.50);

/// A round of one row.
struct Ingested {
    counted: Counted,
    cpu: Duration,
    calls: Calls,
}

/// Measures a backlog, twice, and changes that come one by one.
pub(super) fn rates(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let BenchSettings { rounds, round: span, .. } = *bench.settings;
    let changes = (span.as_secs_f64() * PER_SECOND).ceil() as u64;
    let mut scenario = Scenario {
        name: "ingest".to_owned(),
        title: "A region's ingester, from the feed to announced".to_owned(),
        how: format!(
            "in the harness's process on the memory engine, {changes} changes of as many views of {BODY_BYTES} bytes \
             that wait in the feed; the topic takes all at once, or is SNS in a process of its own; then changes one by \
             one, whose latency is from written to announced"
        ),
        ..Scenario::default()
    };
    let announcer = Announcer::start(bench.host, 1)?;
    let sns = sns(&announcer)?;
    let bar = bench.progress.scenario(&scenario.name, 3 * rounds);
    let takes_all: Arc<dyn Topic> = Arc::new(TakesAll);
    let mut rows = [BACKLOG, OVER_SNS, TRICKLE].map(row);
    let mut calls = [Calls::default(); 3];
    for number in 1..=rounds {
        for (at, topic) in [&takes_all, &sns, &takes_all].into_iter().enumerate() {
            bar.doing(&format!("{}, round {number} of {rounds}", rows[at].subject));
            let measured = match at {
                2 => block_on(trickle(topic.clone(), span)),
                _ => block_on(backlog(topic.clone(), changes)),
            };
            let Ingested { counted, cpu, calls: of_it } = measured.map_err(unable)??;
            rows[at].rounds.push(round(&counted, Some(cpu), None));
            calls[at] = calls[at].and(of_it);
            bar.done_one();
        }
    }
    let [backlog, over_sns, _] = &rows;
    scenario.goals.push(Goal::at_least("changes a second and core >= 5,000", per_core(backlog), 5_000.0));
    scenario.notes.push(format!("{OVER_SNS}: {:.0} changes a second and core", per_core(over_sns)));
    scenario.notes.extend([0, 2].map(|at| bill(&rows[at], &calls[at])));
    scenario.rows = rows.into();
    Ok(scenario)
}

fn row(name: &str) -> Row {
    Row {
        subject: name.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings: "memory engine".to_owned(),
        proof: "as many announced as changed".to_owned(),
        ..Row::default()
    }
}

/// Changes a second and core.
fn per_core(row: &Row) -> f64 {
    1e6 / row.median(|round| round.cpu_us.unwrap_or(0.0)).max(1e-9)
}

/// Cost of a change, in words.
fn bill(row: &Row, calls: &Calls) -> String {
    let changes = row.rounds.iter().map(|round| round.requests).sum::<u64>().max(1) as f64;
    let took = row.rounds.iter().map(|round| round.took_s).sum::<f64>().max(1e-9);
    let [units, publishes, puts] = [calls.units, calls.publishes, calls.puts].map(|count| count as f64 / changes);
    format!(
        "{}: a change is {puts:.2} puts and {publishes:.2} calls to SNS with {:.1} messages each; {:.2} writes of positions \
         and the lease and {:.2} reads a second, whatever comes; {units:.1} write units in all, {:.2} USD of a million \
         changes and region",
        row.subject,
        calls.messages as f64 / calls.publishes.max(1) as f64,
        calls.region_writes as f64 / took,
        calls.reads as f64 / took,
        units * PRICES.0 + publishes * PRICES.1,
    )
}

/// The region's topic in the harness's SNS.
fn sns(announcer: &Announcer) -> Result<Arc<dyn Topic>, BenchError> {
    let (endpoint, topics) = (&announcer.announcing.endpoint, &announcer.announcing.topics);
    let sdk = Sdk::new(Some(Url::parse(endpoint).map_err(unable)?));
    let clients = block_on(async { sdk.engine_clients(REGION_NAMES[0]).await }).map_err(unable)?;
    Ok(Arc::new(SnsTopic::new(&clients, topics.first().cloned().unwrap_or_default())))
}

fn unable(why: impl std::fmt::Display) -> BenchError {
    SubjectError::Unable { program: "the ingester".to_owned(), why: why.to_string() }.into()
}

/// A region's ingester, what it reads from, and what it asked for.
struct Bed {
    home: MemoryStore,
    own: MemoryStore,
    counts: CallCounts,
    topic: Arc<dyn Topic>,
}

impl Bed {
    fn new(topic: Arc<dyn Topic>) -> Self {
        let (home, own) = (MemoryStore::new(Clock::System), MemoryStore::new(Clock::System));
        Self { home, own, counts: CallCounts::default(), topic }
    }

    fn ingester(&self) -> Arc<Ingester> {
        Ingester::new(IngestParts {
            region: REGION_NAMES[0].to_owned(),
            home: self.counted(self.home.clone()),
            own: self.counted(self.own.clone()),
            feed: Arc::new(self.home.feed(Stream::Views)),
            topic: self.counted(self.topic.clone()),
            views: None,
            clock: Clock::System,
        })
    }

    fn counted<T>(&self, inner: T) -> Arc<Counting<T>> {
        Arc::new(Counting { inner, counts: self.counts.clone() })
    }

    async fn change(&self, number: u64) -> Result<(), WriteError> {
        let key = format!("tenant-{number}");
        let body = format!(r#"{{"users":{number},"text":"{}"}}"#, "x".repeat(BODY_BYTES));
        let item = Item::new(ItemKey::new(bucket::partition(VIEW, &key), key), number + 1).with_body(body);
        self.home.write(vec![ItemWrite::Put(Table::Views, item, Condition::Any)]).await
    }

    /// Runs `work` beside a running ingester, which then stops in order.
    async fn beside<T>(&self, work: impl AsyncFnOnce(&Ingester) -> T) -> T {
        let (ingester, stopping) = (self.ingester(), CancellationToken::new());
        let running = ingester.clone().run("bench".to_owned(), stopping.clone());
        let working = async {
            let done = work(&ingester).await;
            stopping.cancel();
            done
        };
        tokio::join!(running, working).1
    }
}

/// Returns how many of `wanted` are announced, once all are, or when that takes too long.
async fn announced(ingester: &Ingester, wanted: u64) -> u64 {
    let (clock, count) = (Clock::System, || ingester.publisher().counts.metrics.announced.get());
    let began = clock.now();
    while count() < wanted && clock.now().since(began) < limits::BENCH_CHANGE_WAIT {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    count().min(wanted)
}

async fn following(ingester: &Ingester) {
    let (clock, began) = (Clock::System, Clock::System.now());
    while ingester.state() != IngestState::Following && clock.now().since(began) < limits::BENCH_CHANGE_WAIT {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Changes that wait in the feed of a region that has begun.
async fn backlog(topic: Arc<dyn Topic>, changes: u64) -> Result<Ingested, BenchError> {
    let bed = Bed::new(topic);
    // A region's first ingester scans; what follows would be in the scan.
    bed.beside(following).await;
    for number in 0..changes {
        bed.change(number).await.map_err(unable)?;
    }
    let (clock, before, cpu) = (Clock::System, bed.counts.now(), own_cpu());
    let began = clock.now();
    let (done, took, cpu, calls) = bed
        .beside(async |ingester| {
            let done = announced(ingester, changes).await;
            (done, clock.now() - began, own_cpu().saturating_sub(cpu), bed.counts.now().since(before))
        })
        .await;
    let counted = Counted { took, answered: done, failures: changes - done, ..Counted::default() };
    Ok(Ingested { counted, cpu, calls })
}

/// Changes one by one, for `span`.
async fn trickle(topic: Arc<dyn Topic>, span: Duration) -> Result<Ingested, BenchError> {
    let bed = Bed::new(topic);
    bed.beside(async |ingester| {
        following(ingester).await;
        let (clock, before, cpu) = (Clock::System, bed.counts.now(), own_cpu());
        let (began, mut latencies, mut failures) = (clock.now(), Latencies::default(), 0);
        let mut turns = tokio::time::interval(EVERY);
        let changes = (span.as_secs_f64() / EVERY.as_secs_f64()).ceil() as u64;
        for number in 0..changes {
            turns.tick().await;
            let written = clock.now();
            bed.change(number).await.map_err(unable)?;
            match announced(ingester, number + 1).await {
                done if done > number => latencies.record(clock.now() - written),
                _ => failures += 1,
            }
        }
        let (took, cpu) = (clock.now() - began, own_cpu().saturating_sub(cpu));
        let counted = Counted { took, answered: latencies.len(), failures, latencies, ..Counted::default() };
        Ok(Ingested { counted, cpu, calls: bed.counts.now().since(before) })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::Round;

    #[tokio::test]
    async fn backlog_put_once_announced_in_tens() {
        let Ingested { counted, calls, .. } = backlog(Arc::new(TakesAll), 1_000).await.unwrap();
        assert_eq!((counted.answered, counted.failures), (1_000, 0));
        assert_eq!(calls.puts, 1_000);
        // A heartbeat is a call too.
        assert!((100..105).contains(&calls.publishes), "{calls:?}");
    }

    #[tokio::test]
    async fn single_change_is_announced_alone() {
        let Ingested { counted, calls, .. } = trickle(Arc::new(TakesAll), 3 * EVERY).await.unwrap();
        assert_eq!((counted.answered, counted.failures, counted.latencies.len()), (3, 0, 3));
        assert!(calls.puts == 3 && calls.publishes >= 3, "{calls:?}");
    }

    #[test]
    fn bill_is_per_million_changes() {
        let round = Round { requests: 100, took_s: 10.0, ..Round::default() };
        let row = Row { rounds: vec![round], ..row(TRICKLE) };
        let calls = Calls { puts: 100, region_writes: 13, reads: 10, publishes: 102, messages: 102, units: 152 };
        let reported = bill(&row, &calls);
        assert!(
            reported.contains("1.00 puts and 1.02 calls to SNS with 1.0 messages each; 1.30 writes"),
            "{reported}"
        );
        assert!(reported.ends_with("1.5 write units in all, 1.46 USD of a million changes and region"), "{reported}");
    }
}
