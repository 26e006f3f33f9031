//! A million records on the embedded engine: what they take on the disk, how many writes a second it
//! takes, how long it takes to start after it was killed while it wrote, and to read all of them.

use std::path::Path;
use std::time::Duration;

use nearside::model::time::Clock;

use super::start::once;
use crate::bench::entrant::round;
use crate::bench::error::BenchError;
use crate::bench::load::Counted;
use crate::bench::process;
use crate::bench::result::{Round, Row, Scenario};
use crate::bench::services::disk::{BODY_BYTES, Reopened, WRITERS, WrittenSoFar};
use crate::bench::services::report_file::read_report;
use crate::bench::session::Bench;
use crate::bench::subject::SubjectError;
use crate::limits;

/// Records of a whole run, and for each second of a round that is shorter than one.
const RECORDS: u64 = 1_000_000;
const PER_SECOND: f64 = 2_000.0;
/// Time for which the killed process must have written on.
const GOES_ON: Duration = Duration::from_millis(200);

/// Measures writes, the disk, a restart after SIGKILL, and reading everything.
pub(super) fn million(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let records = records(bench.settings.round);
    let mut scenario = Scenario {
        name: "redb-million".to_owned(),
        title: "A million records on redb".to_owned(),
        how: format!(
            "{records} records of {BODY_BYTES} bytes, each with its history and its place in the feed, written in \
             batches; then {WRITERS} writers change drawn records one by one, and each waits for the disk; then the \
             process is killed while it writes, and another opens the directory (what was written is still in the \
             system's memory) and reads all records, by one scan and bucket by bucket"
        ),
        ..Scenario::default()
    };
    let folder = bench.host.folder("redb")?;
    let directory = folder.join("data");
    let (written, bytes) = write(bench, &folder, &directory, records)?;
    let (found, opened) = reopen(bench, &folder, &directory)?;
    let batches = only(records, written.filling_s);
    let mut rows = vec![
        row(format!("{WRITERS} writers, one record each"), "on the disk", written.rounds),
        row("filled in batches of 49".to_owned(), "on the disk", vec![batches]),
        row("opened after SIGKILL, from exec".to_owned(), "a record was read", vec![opened]),
    ];
    for (name, read) in [("read by one scan", found.scan), ("read bucket by bucket", found.buckets)] {
        let (items, seconds) = read.unwrap_or_default();
        rows.push(row(name.to_owned(), "as many as were written", vec![only(items, seconds)]));
        if items != records {
            scenario.notes.push(format!("{name}: {items} of {records} records"));
        }
    }
    scenario.notes.push(format!(
        "{:.2} GB on the disk, {:.0} bytes a record; opening itself took {:.0} ms",
        bytes as f64 / 1e9,
        bytes as f64 / records as f64,
        found.opening_s * 1e3
    ));
    scenario.notes.extend(read_in_words(&found));
    if records < RECORDS {
        scenario.notes.push("rounds below a second: fewer records than a million".to_owned());
    }
    scenario.rows = rows;
    Ok(scenario)
}

fn row(name: String, proof: &str, rounds: Vec<Round>) -> Row {
    Row {
        subject: name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        proof: proof.to_owned(),
        rounds,
        ..Row::default()
    }
}

fn records(round: Duration) -> u64 {
    let whole = round >= Duration::from_secs(1);
    if whole { RECORDS } else { (round.as_secs_f64() * PER_SECOND).ceil() as u64 }
}

/// Work that was done once.
fn only(count: u64, seconds: f64) -> Round {
    round(&Counted { took: Duration::from_secs_f64(seconds), answered: count, ..Counted::default() }, None, None)
}

fn read_in_words(found: &Reopened) -> Option<String> {
    let ((_, scan), (_, buckets)) = found.scan.zip(found.buckets)?;
    Some(format!("one scan took {scan:.2} s, bucket by bucket {buckets:.2} s"))
}

/// Has a process write, and kills it; returns what it said, and what the directory takes.
fn write(
    bench: &Bench<'_>,
    folder: &Path,
    directory: &Path,
    records: u64,
) -> Result<(WrittenSoFar, u64), SubjectError> {
    let (rounds, seconds) = (bench.settings.rounds, bench.settings.round.as_secs_f64());
    let said = folder.join("written.json");
    let arguments = [
        "bench".to_owned(),
        "disk".to_owned(),
        format!("--records={records}"),
        format!("--disk-rounds={rounds}"),
        format!("--disk-seconds={seconds}"),
        directory.display().to_string(),
        said.display().to_string(),
    ];
    let bar = bench.progress.scenario("redb-million", rounds + 2);
    bar.doing("filling");
    let mut writing = process::start(&bench.host.harness, arguments, bench.host.core, folder)?;
    let mut measured = 0;
    let wait = limits::BENCH_DISK_WAIT;
    let written = writing.wait_within(wait, || {
        let written: WrittenSoFar = read_report(&said)?;
        for _ in measured..written.rounds.len() {
            bar.done_one();
        }
        measured = written.rounds.len();
        written.goes_on.then_some(written)
    })?;
    std::thread::sleep(GOES_ON);
    writing.kill();
    Ok((written, size(directory)))
}

/// Has another process open what the killed one left; returns what it found, and how long it took
/// from exec until a record was read.
fn reopen(bench: &Bench<'_>, folder: &Path, directory: &Path) -> Result<(Reopened, Round), SubjectError> {
    let said = folder.join("found.json");
    let arguments = ["bench".to_owned(), "disk".into(), directory.display().to_string(), said.display().to_string()];
    let began = Clock::System.now();
    let mut reading = process::start(&bench.host.harness, arguments, bench.host.core, folder)?;
    reading.wait_within(limits::BENCH_DISK_WAIT, || read_report::<Reopened>(&said))?;
    let took = Clock::System.now() - began;
    let opened = round(&once(took), Some(reading.cpu()), Some(reading.memory()));
    let found = reading.wait_within(limits::BENCH_DISK_WAIT, || {
        read_report::<Reopened>(&said).filter(|found| found.buckets.is_some())
    });
    Ok((found?, opened))
}

/// Total size of the files in it, in bytes.
fn size(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_rounds_write_fewer_records() {
        assert_eq!(records(Duration::from_secs(1)), RECORDS);
        assert_eq!(records(Duration::from_millis(300)), 600);
    }

    #[test]
    fn size_covers_all_files() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("a", 10), ("b", 5)] {
            std::fs::write(folder.path().join(name), vec![0; bytes]).unwrap();
        }
        assert_eq!(size(folder.path()), 15);
        assert_eq!(size(&folder.path().join("absent")), 0);
    }
}
