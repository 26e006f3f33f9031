//! The two forms of a record: beside what Google's own protobuf (Python) makes of it, through
//! ordinary clients of both forms, and in what the sidecar itself says.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use nearside::payload::schema::Schema;
use prost::Message;
use serde::Deserialize;
use serde_json::json;

use super::drop_in::clients;
use super::program;

mod drop_in;
mod errors;
mod readers;

const MESSAGES: [&str; 4] =
    ["nearside.test.Kinds", "nearside.test.Kinds", "nearside.test.Kinds", "nearside.test.Legacy"];
const CASES: usize = 800;

#[derive(Deserialize)]
struct Case {
    message: String,
    protobuf: String,
    /// JSON texts: as ours should be, then with the schema's names, with defaults, with both.
    json: Vec<String>,
    unknown: usize,
}

fn descriptor_set() -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/payload");
    protox::compile(["kinds.proto"], [folder]).unwrap().encode_to_vec()
}

/// The tests' schema as an operator has it: a file.
fn descriptors() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&descriptor_set()).unwrap();
    file
}

/// A route with that schema, before regions that speak JSON; `more` are lines of the route.
fn declared(descriptors: &tempfile::NamedTempFile, more: &str) -> String {
    let file = program::path(descriptors.path());
    format!(
        "[[service.route]]\npath = \"/v1/contexts/{{key}}\"\nrecords = [\"context:{{key}}\"]\n\
         schema = \"{file}#nearside.test.Kinds\"\nform = \"json\"\n{more}"
    )
}

#[test]
fn both_forms_match_googles_protobuf() {
    let set = descriptor_set();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/with_protobuf.py");
    let mut command = Command::new(clients().join("bin/python"));
    let mut child = command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let asked = json!({"descriptor_set": BASE64.encode(&set), "messages": MESSAGES, "cases": CASES, "seed": 1});
    writeln!(input, "{asked}").unwrap();
    let cases: Vec<Case> = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
    assert_eq!(cases.len(), CASES);
    let schemas: BTreeMap<_, _> =
        MESSAGES.into_iter().map(|message| (message, Schema::read(&set, message).unwrap())).collect();
    let mut made = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let protobuf = BASE64.decode(&case.protobuf).unwrap();
        let schema = &schemas[&*case.message];
        let json = schema.to_json(&protobuf).unwrap_or_else(|error| panic!("case {number}: {error}"));
        assert_eq!(json.unknown_fields, case.unknown, "case {number}");
        let mut backs = Vec::new();
        for theirs in &case.json {
            let back = schema.to_protobuf(theirs.as_bytes());
            let back = back.unwrap_or_else(|error| panic!("case {number}: {error}: {theirs}"));
            assert_eq!(back.unknown_fields, 0, "case {number}: {theirs}");
            backs.push(BASE64.encode(&back.body));
        }
        made.push(json!({"json": String::from_utf8(json.body).unwrap(), "protobuf": backs}));
    }
    writeln!(input, "{}", serde_json::Value::from(made)).unwrap();
    let wrong: Vec<String> = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(wrong.is_empty(), "{} of {CASES} differ:\n{}", wrong.len(), wrong.join("\n"));
}
