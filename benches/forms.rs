//! Cost of making one form of a record from the other, beside a parse of the same JSON by
//! serde_json.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use nearside::payload::schema::Schema;
use prost::Message;
use serde_json::{Value, json};

fn schema() -> Schema {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload");
    let set = protox::compile(["kinds.proto"], [folder]).expect("the schema compiles").encode_to_vec();
    Schema::read(&set, "nearside.test.Kinds").expect("it has the message")
}

/// A list of small messages, as records have them, of about this size.
fn record(size: usize) -> Vec<u8> {
    let length = part(1000).to_string().len() + 1;
    let parts: Vec<Value> = (0..size.div_ceil(length)).map(part).collect();
    json!({ "messages": parts }).to_string().into_bytes()
}

fn part(number: usize) -> Value {
    json!({"aString": format!("the name of number {number}"), "anInt64": (number << 33).to_string(),
        "aDouble": number as f64 * 0.37, "aBool": number.is_multiple_of(2), "aColour": "COLOUR_GREEN",
        "timestamp": "2026-11-23T12:34:56.120Z", "strings": ["one", "another"],
        "byInt64": {"7": "seven", "-3": "less"}, "aMessage": {"anInt32": number, "mayString": "\u{20ac}"}})
}

fn main() {
    let schema = schema();
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("forms");
    for (name, size) in [("1 KiB", 1 << 10), ("20 KiB", 20 << 10), ("1 MiB", 1 << 20)] {
        let json = record(size);
        let protobuf = schema.to_protobuf(&json).expect("it fits").body;
        group.throughput(Throughput::Bytes(json.len() as u64));
        group.bench_function(BenchmarkId::new("to_json", name), |bench| {
            bench.iter(|| schema.to_json(black_box(&protobuf)).expect("it fits"));
        });
        group.bench_function(BenchmarkId::new("to_protobuf", name), |bench| {
            bench.iter(|| schema.to_protobuf(black_box(&json)).expect("it fits"));
        });
        group.bench_function(BenchmarkId::new("serde_json parse", name), |bench| {
            bench.iter(|| serde_json::from_slice::<Value>(black_box(&json)).expect("it is JSON"));
        });
    }
    group.finish();
    criterion.final_summary();
}
