//! The embedded engine with as many records as one is asked for, in a process of its own, because
//! it is killed while it writes. What it says goes to a file ([`super::report_file`]).

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::try_join_all;
use nearside::catalogue::limits::BATCH_RECORDS;
use nearside::catalogue::{Author, Catalogue, CatalogueError, Preconditions, RecordTypes, RecordWrite};
use nearside::engine::redb::Embedded;
use nearside::engine::{EngineError, ScanSegment, Table, Tables, bucket};
use nearside::model::time::Clock;
use serde::{Deserialize, Serialize};

use super::report_file::write_report;
use crate::bench::entrant::round;
use crate::bench::load::Counted;
use crate::bench::process::own_cpu;
use crate::bench::result::Round;
use crate::limits;

/// Number of concurrent writers; what they write meanwhile is one commit.
pub(crate) const WRITERS: usize = 32;
const TYPE: &str = "tenant";
/// Home: the place of the catalogue's tables.
const HOME: &str = "";
/// Approximate length of a record's body, in bytes.
pub(crate) const BODY_BYTES: usize = 1000;

#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("a record: {0}")]
    Catalogue(#[from] CatalogueError),
    #[error("what it says could not be written: {0}")]
    Say(#[from] io::Error),
}

/// Progress of the process that writes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WrittenSoFar {
    /// Records that are there, and how long it took to write them, in batches.
    pub filled: u64,
    pub filling_s: f64,
    /// Rounds of single writes to drawn records.
    pub rounds: Vec<Round>,
    /// All was measured, and it writes on until it is killed.
    pub goes_on: bool,
}

/// Findings of the process that reads next.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reopened {
    /// Time to open the directory and to read one record.
    pub opening_s: f64,
    /// Records that one scan read, and its time; `None` while it is under way.
    pub scan: Option<(u64, f64)>,
    /// Records and time of a scan bucket by bucket, as the sweeps read.
    pub buckets: Option<(u64, f64)>,
}

/// Order to the process that writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskOrder<'a> {
    pub directory: &'a Path,
    pub records: u64,
    pub rounds: usize,
    pub round: Duration,
    /// File of its progress.
    pub said: &'a Path,
}

/// Fills the directory, measures writes, and writes on until the process is killed.
pub(crate) async fn write(order: DiskOrder<'_>) -> Result<(), DiskError> {
    let (clock, mut said) = (Clock::System, WrittenSoFar::default());
    let engine = Embedded::open(order.directory, clock.clone())?;
    let types = RecordTypes::compile([(TYPE.to_owned(), serde_json::Value::Bool(true))]);
    let types = types.expect("one name with the schema that takes everything");
    let catalogue = Catalogue::new(Arc::new(engine.place(HOME)), clock.clone(), types);
    let began = clock.now();
    while said.filled < order.records {
        said.filled += fill(&catalogue, said.filled, order.records).await?;
        said.filling_s = (clock.now() - began).as_secs_f64();
        write_report(order.said, &said)?;
    }
    for number in 0..order.rounds {
        let cpu = own_cpu();
        let counted = write_for(&catalogue, order.records, order.round, number as u64).await?;
        said.rounds.push(round(&counted, Some(own_cpu().saturating_sub(cpu)), None));
        write_report(order.said, &said)?;
    }
    said.goes_on = true;
    write_report(order.said, &said)?;
    loop {
        write_for(&catalogue, order.records, order.round, 0).await?;
    }
}

/// Writes the next records in batches; returns how many.
async fn fill(catalogue: &Catalogue, from: u64, most: u64) -> Result<u64, DiskError> {
    let until = most.min(from + limits::BENCH_FILLED_AT_ONCE);
    let next = Cell::new(from);
    try_join_all((0..WRITERS).map(|_| fill_from(catalogue, &next, until))).await?;
    Ok(until - from)
}

/// Writes batches that other writers of `next` do not write.
async fn fill_from(catalogue: &Catalogue, next: &Cell<u64>, until: u64) -> Result<(), CatalogueError> {
    loop {
        let first = next.get();
        let last = until.min(first + BATCH_RECORDS as u64);
        if first >= last {
            return Ok(());
        }
        next.set(last);
        let writes: Vec<_> = (first..last).map(|number| record(number, 0)).collect();
        catalogue.batch(&writes, None, &Author::anonymous()).await?;
    }
}

/// Writes drawn records, each alone, for this long.
async fn write_for(
    catalogue: &Catalogue,
    records: u64,
    span: Duration,
    seed: u64,
) -> Result<Counted, CatalogueError> {
    let clock = Clock::System;
    let began = clock.now();
    let writers = (0..WRITERS as u64).map(|number| {
        let (clock, mut rng) = (&clock, Rng::with_seed(seed << 16 | number));
        async move {
            let mut counted = Counted::default();
            while clock.now().since(began) < span {
                let started = clock.now();
                catalogue.write(record(rng.u64(..records.max(1)), rng.u64(..)), None, &Author::anonymous()).await?;
                counted.answered += 1;
                counted.latencies.record(clock.now() - started);
            }
            Ok::<_, CatalogueError>(counted)
        }
    });
    let each = try_join_all(writers).await?;
    let mut all = Counted { took: clock.now() - began, ..Counted::default() };
    for counted in each {
        all.answered += counted.answered;
        all.latencies.add(&counted.latencies);
    }
    Ok(all)
}

fn record(number: u64, change: u64) -> RecordWrite {
    let body = format!(r#"{{"name":"tenant-{number}","change":{change},"text":"{}"}}"#, "x".repeat(BODY_BYTES - 60));
    RecordWrite {
        record_type: TYPE.to_owned(),
        key: format!("tenant-{number}"),
        body: Some(body.into()),
        only_if: Preconditions::none(),
    }
}

/// Opens the directory, and reads all records twice.
pub(crate) async fn reopen(directory: &Path, said: &Path) -> Result<(), DiskError> {
    let (clock, mut found) = (Clock::System, Reopened::default());
    let began = clock.now();
    let tables = Embedded::open(directory, clock.clone())?.place(HOME);
    let first = record(0, 0).key;
    let key = nearside::engine::ItemKey::new(bucket::partition(TYPE, &first), first);
    tables.get(Table::Records, &key).await?;
    found.opening_s = (clock.now() - began).as_secs_f64();
    write_report(said, &found)?;
    let began = clock.now();
    let mut items = scanned(&tables).await?;
    found.scan = Some((items, (clock.now() - began).as_secs_f64()));
    let began = clock.now();
    items = 0;
    for number in 0..nearside::engine::limits::BUCKETS {
        items += read_bucket(&tables, &bucket::of(TYPE, number)).await?;
    }
    found.buckets = Some((items, (clock.now() - began).as_secs_f64()));
    Ok(write_report(said, &found)?)
}

async fn scanned(tables: &impl Tables) -> Result<u64, EngineError> {
    let (mut items, mut after) = (0, None);
    loop {
        let page = tables.scan(Table::Records, ScanSegment::WHOLE, after, limits::COUNTED_AT_ONCE).await?;
        items += page.items.len() as u64;
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(items),
        }
    }
}

async fn read_bucket(tables: &impl Tables, partition: &str) -> Result<u64, EngineError> {
    let (mut items, mut after) = (0, None::<String>);
    loop {
        let page = tables.query(Table::Records, partition, after.as_deref(), limits::COUNTED_AT_ONCE).await?;
        items += page.items.len() as u64;
        match page.next {
            Some(next) => after = Some(next.sort),
            None => return Ok(items),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report_file::read_report;
    use super::*;

    #[test]
    fn record_size_is_about_as_stated() {
        let body = record(123_456, 7).body.unwrap();
        assert!((BODY_BYTES - 30..BODY_BYTES + 30).contains(&body.len()), "{}", body.len());
    }

    #[tokio::test]
    async fn written_records_survive_stop_and_reopen() {
        let folder = tempfile::tempdir().unwrap();
        let (directory, said) = (folder.path().join("data"), folder.path().join("said.json"));
        let round = Duration::from_millis(10);
        let order = DiskOrder { directory: &directory, records: 120, rounds: 2, round, said: &said };
        let until_measured = async {
            while !read_report::<WrittenSoFar>(&said).is_some_and(|written| written.goes_on) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            ended = write(order) => panic!("{ended:?}"),
            () = until_measured => {}
        }
        let written: WrittenSoFar = read_report(&said).unwrap();
        assert_eq!((written.filled, written.rounds.len()), (120, 2));
        assert!(written.rounds.iter().all(|round| round.requests > 0 && round.latency.p50_us > 0.0), "{written:?}");
        // What was under way still has the file open, and ends by itself.
        let mut opened = reopen(&directory, &said).await;
        while matches!(opened, Err(DiskError::Engine(EngineError::Unavailable { .. }))) {
            tokio::task::yield_now().await;
            opened = reopen(&directory, &said).await;
        }
        opened.unwrap();
        let found: Reopened = read_report(&said).unwrap();
        assert_eq!((found.scan.unwrap().0, found.buckets.unwrap().0), (120, 120));
    }
}
