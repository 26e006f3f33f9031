//! Content codings beside another implementation of zstd, and the public data set that
//! `nearside-lab bench --only payload` measures.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use bytes::Bytes;
use nearside::payload::coding::{Coding, Dictionary, decode, encode};
use serde_json::Value;

use super::program::{self, text};

/// Length of the header before the zstd frame of a `dcz` body.
const HEADER_BYTES: usize = 40;

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/payloads")
}

/// Runs the set-up, which does nothing when it was done before; returns the virtual environment.
fn made() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let setup = scripts().join("setup.sh");
        let done = Command::new(setup).stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
        assert!(done.status.success(), "tests/payloads/setup.sh failed; what it said is above");
        PathBuf::from(text(&done.stdout).trim())
    })
}

fn run(mut command: Command, input: &[u8]) -> Bytes {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?} failed; what it said is above");
    output.stdout.into()
}

/// zstd's own program takes a dictionary as raw content with `--patch-from`.
fn program_of_zstd(direction: &str, dictionary: &Path, input: &[u8]) -> Bytes {
    // It wants the content in a file: how long it is says how large the window must be.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    std::fs::write(&file, input).unwrap();
    let mut command = Command::new("zstd");
    command.args(["--quiet", direction, "--stdout"]).arg(file);
    command.arg(format!("--patch-from={}", dictionary.display()));
    run(command, b"")
}

/// Python's zstandard, which `tests/payloads/setup.sh` installs.
fn zstandard(direction: &str, dictionary: &Path, input: &[u8]) -> Bytes {
    let mut command = Command::new(made().join("bin/python"));
    command.arg(scripts().join("dcz.py")).arg(direction).arg(dictionary);
    run(command, input)
}

type Other = fn(&str, &Path, &[u8]) -> Bytes;

/// Who else takes a dictionary as raw content: Python's zstandard, and zstd's program where it is
/// installed.
fn others() -> Vec<(&'static str, Other)> {
    let mut others: Vec<(&'static str, Other)> = vec![("Python's zstandard", zstandard)];
    match Command::new("zstd").arg("--version").output() {
        Ok(_) => others.push(("zstd --patch-from", program_of_zstd)),
        Err(error) => println!("no zstd on PATH ({error}): compared with {} alone", others[0].0),
    }
    others
}

#[test]
fn trained_raw_dictionary_interoperates() {
    let set = made().join("set");
    let path = set.join("json.dictionary");
    let hash = std::fs::read_to_string(set.join("json.dictionary.sha256")).unwrap();
    let dictionary = Dictionary::read(std::fs::read(&path).unwrap(), hash.trim()).unwrap();
    let records = std::fs::read_to_string(set.join("measured.jsonl")).unwrap();
    let record = records.lines().next().unwrap();
    for content in [record, &records[..300_000]] {
        let body = encode(Coding::Dcz, &content.to_owned().into(), 3, Some(&dictionary)).unwrap();
        let (header, frame) = body.split_at(HEADER_BYTES);
        for (name, other) in others() {
            assert_eq!(other("--decompress", &path, frame), content, "{name} reads ours");
            let theirs = other("--compress", &path, content.as_bytes());
            let body = Bytes::from([header, &theirs].concat());
            let read = decode(Coding::Dcz, &body, content.len(), Some(&dictionary)).unwrap();
            assert_eq!(read, content, "ours reads that of {name}");
        }
    }
}

#[test]
fn dictionary_cuts_records_to_two_fifths() {
    made();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let args = ["--only", "payload", "--rounds", "1", "--seconds", "0.01", "--json", program::path(&file)];
    let done = program::bench(&args).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let scenario = &report["scenarios"][0];
    let goal = &scenario["goals"][0];
    assert!(goal["text"].as_str().unwrap().starts_with("small records"), "{scenario:#}");
    assert_eq!(goal["met"], true, "{goal}");
    let [costs, fields] = &scenario["tables"].as_array().unwrap()[..] else { panic!("{scenario:#}") };
    let rows = costs["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4 * 2 * 5 + 2 * 2, "five codings of every size and form, a sixth of the small ones");
    for row in rows {
        let figures: Vec<f64> = row[1].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
        let [bytes, of_json, encode, decompress, decode] = figures[..] else { panic!("{row}") };
        let identity = row[0].as_str().unwrap().ends_with("identity");
        assert!(bytes > 100.0 && of_json <= 1.0 && encode > 0.0 && decode > 0.0, "{row}");
        assert!(identity == (decompress <= 0.0), "{row}");
    }
    assert!(
        fields["rows"].as_array().unwrap().iter().all(|row| row[1]
            .as_array()
            .unwrap()
            .iter()
            .all(|us| us.as_f64().unwrap() > 0.0)),
        "{fields:#}"
    );
    assert_eq!(scenario["plots"].as_array().unwrap().len(), 2);
}
