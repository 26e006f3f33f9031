//! What replies weigh and cost by form, content coding and size, and what it takes to have a few of
//! their fields. It runs in the harness's own process: nothing is served.

use std::path::Path;
use std::time::Duration;

use crate::lab::bench::payloads::airports::{AirportSet, PLACE, WireForm};
use crate::lab::bench::payloads::coded::{CodedCost, LEVELS, SMALL, SMALLEST, WrittenReplies, ZSTD, single_records};
use crate::lab::bench::payloads::cpu::CpuBudget;
use crate::lab::bench::payloads::fields::{ASKED, FieldsWay, taken};
use crate::lab::bench::result::{FigureTable, Goal, Missing, PlotData, Scenario};
use crate::lab::bench::run::{Bench, BenchError};
use crate::payload::coding::CodingError;

/// Sizes of a reply as JSON, and how many replies of it are measured.
const SIZES: [(&str, usize, usize); 4] =
    [("1 KiB", 1 << 10, 64), ("20 KiB", 20 << 10, 8), ("230 KiB", 230 << 10, 2), ("3 MiB", 3 << 20, 1)];
/// Into how many pieces of work the time of the scenario is divided.
const PIECES: u32 = 120;
/// What the goal is about: the least size, and its limit.
const SMALL_SIZE: &str = SIZES[0].0;
const SMALL_LIMIT: f64 = 0.40;
const SINGLE_RECORDS: usize = 2000;
const NOT_MADE: &str = "it is not there; run tests/payloads/setup.sh, then this from the root of the repository";
/// What others saw, in their own words and on their own data.
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
    let wrong =
        |error: CodingError| BenchError::Wrong { subject: "a content coding".to_owned(), why: error.to_string() };
    let told = |what: &str| {
        bar.doing(what);
        bar.done_one();
    };
    let measured = measure(&set, budget, told).map_err(wrong)?;
    scenario.goals.extend(goal(&measured));
    scenario.notes.push(single(&set).map_err(wrong)?);
    let fields = fields(&set, budget);
    scenario.notes.extend(beside_the_sources(&measured, &fields));
    scenario.plots = plots(&measured);
    scenario.tables = vec![figures(&measured), fields];
    Ok(scenario)
}

/// One size in one form under one coding.
struct Measured {
    size: &'static str,
    form: WireForm,
    coding: &'static str,
    cost: CodedCost,
}

fn measure(set: &AirportSet, budget: CpuBudget, mut told: impl FnMut(&str)) -> Result<Vec<Measured>, CodingError> {
    let mut measured = Vec::new();
    for (size, bytes, count) in SIZES {
        let replies = set.replies(bytes, count);
        for form in WireForm::ALL {
            told(&format!("{size}, {}", form.word()));
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
    let found = |it: &&Measured| it.size == size && it.form == form && it.coding == coding;
    measured.iter().find(found).map(|it| &it.cost)
}

fn goal(measured: &[Measured]) -> Option<Goal> {
    let cost = find(measured, SMALL_SIZE, WireForm::Json, SMALL.words)?;
    let text = format!("small records ({SMALL_SIZE}) with a dictionary <= {SMALL_LIMIT:.2} x their JSON on the wire");
    Some(Goal::at_most(text, cost.bytes / cost.json_bytes, SMALL_LIMIT))
}

fn figures(measured: &[Measured]) -> FigureTable {
    let row = |it: &Measured| {
        let CodedCost { bytes, json_bytes, encode_us, decompress_us, decode_us } = it.cost;
        let name = format!("{} {}, {}", it.size, it.form.word(), it.coding);
        (name, vec![Some(bytes), Some(bytes / json_bytes), Some(encode_us), Some(decompress_us), Some(decode_us)])
    };
    FigureTable {
        title: "Bytes and CPU time of a reply".to_owned(),
        columns: ["bytes", "x JSON", "encode µs", "decompress µs", "decode µs"].map(str::to_owned).to_vec(),
        rows: measured.iter().map(row).collect(),
    }
}

fn fields(set: &AirportSet, budget: CpuBudget) -> FigureTable {
    let mut rows = Vec::new();
    for (size, bytes, _) in SIZES {
        let Some(reply) = set.replies(bytes, 1).pop() else { continue };
        for way in FieldsWay::ALL {
            rows.push((format!("{size} {}", way.word()), taken(&reply, way, budget)));
        }
    }
    FigureTable {
        title: "CPU time to have some fields of a JSON reply, µs".to_owned(),
        columns: ASKED.map(|(count, place)| format!("{count} {}", place.word())).to_vec(),
        rows,
    }
}

fn plots(measured: &[Measured]) -> Vec<PlotData> {
    let plot = |title: &str, y: &str, of: fn(&CodedCost) -> f64| {
        let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for it in measured.iter().filter(|it| it.coding != SMALLEST.words) {
            let (name, point) =
                (format!("{}, {}", it.form.word(), it.coding), (it.cost.json_bytes / 1024.0, of(&it.cost)));
            match series.iter_mut().find(|(known, _)| *known == name) {
                Some((_, points)) => points.push(point),
                None => series.push((name, vec![point])),
            }
        }
        PlotData { title: title.to_owned(), x: "KiB as JSON".to_owned(), y: y.to_owned(), x_is_log: true, series }
    };
    vec![
        plot("Bytes on the wire", "x JSON", |cost| cost.bytes / cost.json_bytes),
        plot("CPU time to decompress and read", "µs per KiB as JSON", |cost| {
            cost.decode_us * 1024.0 / cost.json_bytes
        }),
    ]
}

/// What the header of `dcz` is to a record that is smaller than the goal's.
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
    let of = |size, form, coding: &str| find(measured, size, form, coding);
    const IDENTITY: &str = LEVELS[0].words;
    let here = || {
        let (json, protobuf) =
            (of(SIZES[1].0, WireForm::Json, IDENTITY)?, of(SIZES[1].0, WireForm::Protobuf, IDENTITY)?);
        let smaller = 100.0 * (1.0 - protobuf.bytes / json.bytes);
        let faster = json.decode_us / protobuf.decode_us;
        Some(format!("; here at {}: {smaller:.0} % smaller, read {faster:.1} x faster by the median", SIZES[1].0))
    };
    let largest = || {
        let (json, protobuf) =
            (of(SIZES[3].0, WireForm::Json, ZSTD.words)?, of(SIZES[3].0, WireForm::Protobuf, ZSTD.words)?);
        let (bytes, decode) = (protobuf.bytes / json.bytes, protobuf.decode_us / json.decode_us);
        Some(format!(
            "; here at {}, beside JSON with zstd: {bytes:.2} x the bytes, {decode:.2} x to decode",
            SIZES[3].0
        ))
    };
    let cut = || {
        let of = |way: FieldsWay| {
            let name = format!("{} {}", SIZES[3].0, way.word());
            fields.rows.iter().find(|(row, _)| *row == name)?.1.first().copied().flatten()
        };
        let (parsed, first, again) = (of(FieldsWay::Parse)?, of(FieldsWay::First)?, of(FieldsWay::Again)?);
        Some(format!(
            "; here, one field at {} beside parsing all of it: {:.1} x faster for a version's first caller, {:.0} x \
             for the others",
            SIZES[3].0,
            parsed / first,
            parsed / again
        ))
    };
    let here = [here(), largest(), cut()].map(Option::unwrap_or_default);
    SOURCES.iter().zip(here).map(|(source, here)| format!("{source}{here}")).collect()
}
