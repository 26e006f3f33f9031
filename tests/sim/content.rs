//! Owns what a reply's body says: which records, in whose reply, and what became of them.
//!
//! Before it: regions write it as JSON. After it: readers read it again, in whatever shape it came,
//! and the checker judges what it says. Invariant: the head of a reply is not believed about what
//! its body shows.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use serde::Deserialize;

use super::plan::{Plan, Read};
use super::subject::Seen;
use super::truth::Truth;
use super::world::Shown;

/// The message that bodies are.
pub(crate) const MESSAGE: &str = "nearside.sim.Shown";

/// The path of bodies so large that they get an index of their fields.
pub(crate) const LARGE: &str = "/v1/contexts/k0/1";

/// Filler of large bodies.
const PADDING: &str = match std::str::from_utf8(&[b'.'; 16 << 10]) {
    Ok(text) => text,
    Err(_) => unreachable!(),
};

/// Parsed body.
#[derive(Deserialize)]
pub(crate) struct Content {
    who: String,
    records: Vec<Record>,
}

/// One record; without a key where only other fields were asked for.
#[derive(Deserialize)]
struct Record {
    key: Option<usize>,
    face: Option<usize>,
}

#[derive(Message)]
struct ShownMessage {
    #[prost(string, tag = "1")]
    who: String,
    #[prost(message, repeated, tag = "2")]
    records: Vec<RecordMessage>,
}

#[derive(Message)]
struct RecordMessage {
    #[prost(uint32, tag = "1")]
    key: u32,
    #[prost(uint32, optional, tag = "2")]
    face: Option<u32>,
}

/// The file that routes name.
pub(crate) fn descriptors() -> &'static PathBuf {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload");
        let set = protox::compile(["shown.proto"], [folder]).expect("the simulator's schema compiles");
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let (file, new) = (folder.join("shown.binpb"), folder.join(format!("shown-{}", std::process::id())));
        // Whole at once: another process may be reading it.
        let written = std::fs::write(&new, set.encode_to_vec()).and_then(|()| std::fs::rename(&new, &file));
        written.expect("the target's folder can be written to");
        file
    })
}

/// Body of a region's reply: identical for all regions that show the same.
pub(crate) fn body(truth: &Truth, shown: &Shown, who: &str, is_large: bool) -> Bytes {
    use std::fmt::Write;
    let mut text = format!("{{\"who\":\"{who}\",\"records\":[");
    for (number, (key, position)) in shown.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = if let Some(face) = face(truth, *key, *position) {
            write!(text, "{comma}{{\"key\":{key},\"face\":{face}}}")
        } else {
            write!(text, "{comma}{{\"key\":{key}}}")
        };
    }
    text += "]";
    if is_large {
        text += ",\"padding\":\"";
        text += PADDING;
        text += "\"";
    }
    text += "}";
    text.into()
}

/// Reads a body in the form that it came in; `None` of what is none.
pub(crate) fn read(media_type: &str, body: &[u8]) -> Option<Content> {
    match media_type {
        "application/json" => serde_json::from_slice(body).ok(),
        "application/x-protobuf" => {
            let ShownMessage { who, records } = ShownMessage::decode(body).ok()?;
            Some(Content {
                who,
                records: records
                    .into_iter()
                    .map(|RecordMessage { key, face }| Record {
                        key: Some(key as usize),
                        face: face.map(|face| face as usize),
                    })
                    .collect(),
            })
        }
        _ => None,
    }
}

impl Content {
    /// Has the body judged, at `at`, instead of what the head says of it.
    pub(crate) fn put(self, plan: &Plan, read: Read, who: &str, at: Duration, seen: &mut Seen) {
        let asked = [read.key, (read.key + 1) % plan.truth.keys()];
        let asked = &asked[..if read.view == 2 { 2 } else { 1 }];
        let own = self.records.iter().zip(asked).all(|(record, key)| record.key.is_none_or(|of| of == *key));
        if self.who != who || self.records.len() != asked.len() || !own {
            let keys: Vec<_> = self.records.iter().map(|record| record.key).collect();
            seen.foreign = Some(format!("{who:?} asked for {asked:?} and got {keys:?} of {:?}", self.who));
            return;
        }
        let head = std::mem::take(&mut seen.shown);
        for (number, (key, record)) in asked.iter().zip(&self.records).enumerate() {
            let truth = &plan.truth;
            let by_head =
                head.get(number).filter(|(of, position)| of == key && face(truth, *key, *position) == record.face);
            // Of several that look alike the newest.
            let position = by_head.map(|(_, position)| *position).or_else(|| {
                (0..=truth.newest(*key, at)).rev().find(|position| face(truth, *key, *position) == record.face)
            });
            if position.is_none() || by_head.is_none() && !head.is_empty() {
                seen.foreign = Some(format!("the body shows {:?} of k{key}, the head {head:?}", record.face));
            }
            seen.shown.extend(position.map(|position| (*key, position)));
        }
    }
}

/// Face of a record at a position; `None` where it is absent.
fn face(truth: &Truth, key: usize, position: usize) -> Option<usize> {
    truth.is_present(key, position).then(|| truth.face(key, position))
}
