//! Cost of a part of a record: of a nested document and of a flat object, a megabyte each, by where
//! the fields stand and how many there are.
//!
//! `hit`: from the text of a mask to the bytes of the answer, when both were asked for before.
//! `first`: the cut that the first caller of a mask pays for. `index`: what the first caller of a
//! version pays for besides. `parse`: serde_json, which all of it is compared with. Compare figures
//! of one machine and one run only.

use std::fmt::Write;
use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use nearside::payload::mask::{Mask, Masks};
use nearside::payload::projection::{Index, project};
use serde_json::Value;

const BYTES: usize = 1 << 20;
const COUNTS: [usize; 3] = [1, 10, 50];

/// A body, and the names of paths that stand in it one behind the other.
struct Document {
    name: &'static str,
    body: String,
    paths: Vec<String>,
}

/// One object with some 20,000 members.
fn flat() -> Document {
    let (mut body, mut paths) = (String::from("{"), Vec::new());
    while body.len() < BYTES {
        let number = paths.len();
        let path = format!("field_{number:05}");
        let comma = if number == 0 { "" } else { "," };
        let written = match number % 3 {
            0 => write!(body, "{comma}\"{path}\":\"value {number} of some words, and\\nmore of them\""),
            1 => write!(body, "{comma}\"{path}\":{}", number * 7919),
            _ => write!(body, "{comma}\"{path}\":\"0123456789abcdef-{number:010}-ABCDEFGH\""),
        };
        written.expect("a string takes everything");
        paths.push(path);
    }
    body.push('}');
    Document { name: "flat", body, paths }
}

/// A product: a few fields, a list of objects, a map of objects, another list, a few fields.
fn nested() -> Document {
    let mut body = String::from(r#"{"id":"p-1","title":"A product","price":{"amount":"12.50","currency":"EUR"},"#);
    let mut paths: Vec<_> = ["id", "title", "price.amount"].map(str::to_owned).into();
    fill(&mut body, "\"variants\":[", BYTES / 3, |n| {
        format!(r#"{{"sku":"sku-{n}","price":{n}.5,"stock":{{"berlin":{n},"oslo":0}},"options":["red","large"]}}"#)
    });
    fill(&mut body, "],\"attributes\":{", 2 * BYTES / 3, |n| {
        paths.push(format!("attributes.attr_{n:05}.value"));
        format!(r#""attr_{n:05}":{{"name":"name of {n}","value":"value {n}","unit":null,"tags":[1,2,3]}}"#)
    });
    fill(&mut body, "},\"reviews\":[", BYTES, |n| {
        let text = r#"I liked it \"very\" much. It is a long text, as reviews are, without much in it."#;
        format!(r#"{{"id":{n},"author":{{"name":"someone {n}"}},"text":"{text}","stars":4}}"#)
    });
    body.push_str(r#"],"seen":{"at":"2026-11-23","by":"x"}}"#);
    paths.push("seen.by".to_owned());
    Document { name: "nested", body, paths }
}

/// Adds parts to `body` until it is longer than `till`.
fn fill(body: &mut String, name: &str, till: usize, mut part: impl FnMut(usize) -> String) {
    body.push_str(name);
    for number in 0.. {
        let comma = if number == 0 { "" } else { "," };
        write!(body, "{comma}{}", part(number)).expect("a string takes everything");
        if body.len() > till {
            return;
        }
    }
}

impl Document {
    fn mask(&self, place: &str, count: usize) -> String {
        let start = match place {
            "first" => 0,
            "middle" => self.paths.len() / 2,
            _ => self.paths.len() - count,
        };
        self.paths[start..start + count].join(",")
    }
}

fn projections(c: &mut Criterion) {
    for document in [flat(), nested()] {
        let (name, body) = (document.name, document.body.as_bytes());
        c.bench_function(&format!("{name}/parse"), |b| b.iter(|| serde_json::from_slice::<Value>(black_box(body))));
        c.bench_function(&format!("{name}/index"), |b| b.iter(|| Index::of(black_box(body))));
        for place in ["first", "middle", "last"] {
            for count in COUNTS {
                let text = document.mask(place, count);
                let mask = Mask::literal(&text).expect("a mask");
                c.bench_function(&format!("{name}/{place}/{count}/first"), |b| {
                    b.iter_batched_ref(
                        || Index::of(body).expect("it is JSON"),
                        |index| project(body, Some(index), &mask),
                        BatchSize::LargeInput,
                    );
                });
                let (masks, index) = (Masks::default(), Index::of(body).expect("it is JSON"));
                c.bench_function(&format!("{name}/{place}/{count}/hit"), |b| {
                    b.iter(|| {
                        let mask = masks.read(black_box(&text), Mask::literal).expect("a mask");
                        project(black_box(body), Some(&index), &mask)
                    });
                });
            }
        }
    }
    // Below the size of an index every request pays for a scan.
    let small = format!("{{\"last\":1,\"rest\":[{}0]}}", "\"fifteen bytes\",".repeat(1000));
    let mask = Mask::literal("last").expect("a mask");
    c.bench_function("16 KiB/scan", |b| b.iter(|| project(black_box(small.as_bytes()), None, &mask)));
}

criterion_group!(benches, projections);
criterion_main!(benches);
