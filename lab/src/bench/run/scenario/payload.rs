//! Size and cost of replies by form, content coding and size, and of a few of their fields. It runs
//! in the harness's own process: nothing is served.

use std::path::Path;
use std::time::Duration;

use nearside::payload::coding::CodingError;

use crate::bench::error::BenchError;
use crate::bench::payloads::airports::{AirportSet, PLACE, WireForm};
use crate::bench::payloads::coded::{CodedCost, LEVELS, SMALL, SMALLEST, WrittenReplies, ZSTD, single_records};
use crate::bench::payloads::cpu::CpuBudget;
use crate::bench::payloads::fields::{ASKED, FieldAccess, taken};
use crate::bench::result::{FigureTable, Goal, Missing, PlotData, Scenario};
use crate::bench::session::Bench;

/// Sizes of a reply as JSON, and how many replies of it are measured.
const SIZES: [(&str, usize, usize); 4] =
    [("1 KiB", 1 << 10, 64), ("20 KiB", 20 << 10, 8), ("230 KiB", 230 << 10, 2), ("3 MiB", 3 << 20, 1)];
/// Into how many pieces of work the time of the scenario is divided.
const PIECES: u32 = 120;
/// Least size that the goal is about, and its limit.
const SMALL_SIZE: &str = SIZES[0].0;
const SMALL_LIMIT: f64 = 0.40;
const SINGLE_RECORDS: usize = 2000;
const NOT_MADE: &str = "it is not there; run tests/payloads/setup.sh, then this from the root of the repository";
/// Results of others, in their own words and on their own data.
const SOURCES: [&str; 3] = [
    "Jira's issue service, Protobuf for JSON in its cache: items 80 % smaller, 75 % less CPU of the cache, \
     deserialisation at p99 33 x faster",
    "Walmart, bulk requests: Protobuf with zstd is best up to 3 MB; FlatBuffers is slightly ahead on the largest",
    "two fields of a reply of 1.5 MB: 9 x faster by streaming than by binding all of it",
];

/// Measures the public data set, if it was made.
pub(super) fn costs(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let mut scenario = Scenario {
        name: "payload".to_owned(),
        title: "What payloads weigh and cost".to_owned(),
        how: "airports of the package airportsdata by their keys, as JSON (serde_json) and Protobuf (prost); the \
              dictionaries are trained on one half of the records, and the other half is measured; CPU time in this \
              process per reply: encode writes and compresses, decode decompresses and reads into structures; bytes \
              are the body's, dcz's header of 40 bytes among them"
            .to_owned(),
        ..Scenario::default()
    };
    let Some(set) = AirportSet::find(Path::new(PLACE)) else {
        bench.missing.push(Missing { name: "the public data set".to_owned(), why: NOT_MADE.to_owned() });
        return Ok(scenario);
    };
    let rounds = bench.settings.rounds.max(1);
    let part = bench.settings.round.max(Duration::from_millis(1)) / PIECES;
    let budget = CpuBudget { parts: rounds, part };
    let bar = bench.progress.scenario(&scenario.name, SIZES.len() * WireForm::ALL.len());
    let measured = measure(&set, budget, |what| {
        bar.doing(what);
        bar.done_one();
    })
    .map_err(wrong)?;
    scenario.goals.extend(goal(&measured));
    scenario.notes.push(single(&set).map_err(wrong)?);
    let fields = fields(&set, budget);
    scenario.notes.extend(beside_the_sources(&measured, &fields));
    scenario.plots = plots(&measured);
    scenario.tables = vec![figures(&measured), fields];
    Ok(scenario)
}

fn wrong(error: CodingError) -> BenchError {
    BenchError::Wrong { subject: "a content coding".to_owned(), why: error.to_string() }
}

/// One size in one form under one coding.
struct Measured {
    size: &'static str,
    form: WireForm,
    coding: &'static str,
    cost: CodedCost,
}

fn measure(
    set: &AirportSet,
    budget: CpuBudget,
    mut reported: impl FnMut(&str),
) -> Result<Vec<Measured>, CodingError> {
    let mut measured = Vec::new();
    for (size, bytes, count) in SIZES {
        let replies = set.replies(bytes, count);
        for form in WireForm::ALL {
            reported(&format!("{size}, {form}"));
            let written = WrittenReplies::new(set, form, &replies, budget);
            for level in LEVELS.iter().filter(|level| bytes <= level.at_most) {
                let cost = written.under(*level, budget)?;
                measured.push(Measured { size, form, coding: level.words, cost });
            }
        }
    }
    Ok(measured)
}

fn find<'a>(measured: &'a [Measured], size: &str, form: WireForm, coding: &str) -> Option<&'a CodedCost> {
    measured.iter().find(|it| it.size == size && it.form == form && it.coding == coding).map(|it| &it.cost)
}

fn goal(measured: &[Measured]) -> Option<Goal> {
    let cost = find(measured, SMALL_SIZE, WireForm::Json, SMALL.words)?;
    let text = format!("small records ({SMALL_SIZE}) with a dictionary <= {SMALL_LIMIT:.2} x their JSON on the wire");
    Some(Goal::at_most(text, cost.bytes / cost.json_bytes, SMALL_LIMIT))
}

fn figures(measured: &[Measured]) -> FigureTable {
    FigureTable {
        title: "Bytes and CPU time of a reply".to_owned(),
        columns: ["bytes", "x JSON", "encode µs", "decompress µs", "decode µs"].map(str::to_owned).to_vec(),
        rows: measured
            .iter()
            .map(|it| {
                let CodedCost { bytes, json_bytes, encode_us, decompress_us, decode_us } = it.cost;
                let name = format!("{} {}, {}", it.size, it.form, it.coding);
                (
                    name,
                    vec![
                        Some(bytes),
                        Some(bytes / json_bytes),
                        Some(encode_us),
                        Some(decompress_us),
                        Some(decode_us),
                    ],
                )
            })
            .collect(),
    }
}

fn fields(set: &AirportSet, budget: CpuBudget) -> FigureTable {
    let mut rows = Vec::new();
    for (size, bytes, _) in SIZES {
        let Some(reply) = set.replies(bytes, 1).pop() else { continue };
        for access in FieldAccess::ALL {
            rows.push((format!("{size} {access}"), taken(&reply, access, budget)));
        }
    }
    FigureTable {
        title: "CPU time to have some fields of a JSON reply, µs".to_owned(),
        columns: ASKED.map(|(count, place)| format!("{count} {place}")).to_vec(),
        rows,
    }
}

fn plots(measured: &[Measured]) -> Vec<PlotData> {
    let bytes = series(measured, |cost| cost.bytes / cost.json_bytes);
    let decode_us = series(measured, |cost| cost.decode_us * 1024.0 / cost.json_bytes);
    vec![
        plot("Bytes on the wire", "x JSON", bytes),
        plot("CPU time to decompress and read", "µs per KiB as JSON", decode_us),
    ]
}

fn plot(title: &str, y: &str, series: Vec<(String, Vec<(f64, f64)>)>) -> PlotData {
    PlotData { title: title.to_owned(), x: "KiB as JSON".to_owned(), y: y.to_owned(), x_is_log: true, series }
}

/// A figure of each form and coding, by KiB as JSON.
fn series(measured: &[Measured], figure: impl Fn(&CodedCost) -> f64) -> Vec<(String, Vec<(f64, f64)>)> {
    let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for it in measured.iter().filter(|it| it.coding != SMALLEST.words) {
        let (name, point) = (format!("{}, {}", it.form, it.coding), (it.cost.json_bytes / 1024.0, figure(&it.cost)));
        match series.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => series.push((name, vec![point])),
        }
    }
    series
}

/// Note on single records, smaller than the goal's, and on the weight of `dcz`'s header in them.
fn single(set: &AirportSet) -> Result<String, CodingError> {
    let (zstd, plain) = single_records(set, ZSTD, SINGLE_RECORDS)?;
    let (dictionary, _) = single_records(set, SMALL, SINGLE_RECORDS)?;
    Ok(format!(
        "single records, {plain:.0} bytes as JSON: zstd 3 {:.2} x, with a dictionary {:.2} x, of which dcz's header \
         is {:.2} x",
        zstd / plain,
        dictionary / plain,
        40.0 / plain
    ))
}

/// The sources' own figures, and what compares with them here.
fn beside_the_sources(measured: &[Measured], fields: &FigureTable) -> Vec<String> {
    let here = [uncoded(measured), largest(measured), one_field(fields)].map(Option::unwrap_or_default);
    SOURCES.iter().zip(here).map(|(source, here)| format!("{source}{here}")).collect()
}

fn uncoded(measured: &[Measured]) -> Option<String> {
    const IDENTITY: &str = LEVELS[0].words;
    let size = SIZES[1].0;
    let json = find(measured, size, WireForm::Json, IDENTITY)?;
    let protobuf = find(measured, size, WireForm::Protobuf, IDENTITY)?;
    let smaller = 100.0 * (1.0 - protobuf.bytes / json.bytes);
    let faster = json.decode_us / protobuf.decode_us;
    Some(format!("; here at {size}: {smaller:.0} % smaller, read {faster:.1} x faster by the median"))
}

fn largest(measured: &[Measured]) -> Option<String> {
    let size = SIZES[3].0;
    let json = find(measured, size, WireForm::Json, ZSTD.words)?;
    let protobuf = find(measured, size, WireForm::Protobuf, ZSTD.words)?;
    let (bytes, decode) = (protobuf.bytes / json.bytes, protobuf.decode_us / json.decode_us);
    Some(format!("; here at {size}, beside JSON with zstd: {bytes:.2} x the bytes, {decode:.2} x to decode"))
}

fn one_field(fields: &FigureTable) -> Option<String> {
    let size = SIZES[3].0;
    let [parsed, first, again] = [FieldAccess::Parse, FieldAccess::First, FieldAccess::Again].map(|access| {
        let name = format!("{size} {access}");
        fields.rows.iter().find(|(row, _)| *row == name)?.1.first().copied().flatten()
    });
    Some(format!(
        "; here, one field at {size} beside parsing all of it: {:.1} x faster for a version's first caller, {:.0} x for \
         the others",
        parsed? / first?,
        parsed? / again?
    ))
}
