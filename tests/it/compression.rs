//! Regions that compress, on real sockets: by HTTP/1.1 in the clear, and over TLS with a dictionary.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use nearside::payload::coding::{Coding, Dictionary, DictionaryError, available_dictionary, encode};
use nearside::tasks::Tasks;
use nearside_lab::chaos_server::port::{self, Port};

use super::certificates::{self, Authority};
use super::program::{self, Program, text};

const TAG: &str = "\"t\"";

fn record(key: &str) -> Bytes {
    format!("{{\"key\":\"{key}\",\"rows\":[{}0]}}", "{\"plan\":\"gold\"},".repeat(3000)).into()
}

fn coded(body: &Bytes, coding: Coding) -> Bytes {
    encode(coding, body, 3, None).unwrap()
}

/// Answer of a region for a key, in the coding that is its habit.
fn answer(request: &Request<Incoming>, region: usize) -> Response<Full<Bytes>> {
    let accepted = request.headers().get("accept-encoding").map_or("", |line| line.to_str().unwrap());
    let key = request.uri().path().rsplit('/').next().unwrap_or_default();
    let body = record(key);
    let habit = [("zstd", Coding::Zstd), ("gzip", Coding::Gzip), ("", Coding::Identity)][region];
    let (word, sent) = match (key, region) {
        _ if request.headers().get("if-none-match").is_some_and(|tag| tag == TAG) => {
            let response = Response::builder().status(304).header("etag", TAG).header("x-record-version", "7");
            return response.header("content-encoding", habit.0).body(Full::default()).unwrap();
        }
        ("bomb", 0) => ("zstd", coded(&vec![b' '; 9 << 20].into(), Coding::Zstd)),
        ("damaged", 0) => ("zstd", coded(&body, Coding::Zstd).slice(..50)),
        ("unasked", 0) => ("br", body.clone()),
        ("several", 0) => ("gzip, zstd", coded(&coded(&body, Coding::Gzip), Coding::Zstd)),
        _ if accepted.contains(habit.0) => (habit.0, coded(&body, habit.1)),
        _ => ("", body.clone()),
    };
    let mut response = Response::builder().header("etag", TAG).header("vary", "Accept-Encoding");
    // Who is not to be believed states a version that nobody else has.
    let version = if sent != body && ["bomb", "damaged"].contains(&key) && region == 0 { "99" } else { "7" };
    response = response.header("x-record-version", version).header("content-digest", "sha-256=:AAAA:");
    if !word.is_empty() {
        response = response.header("content-encoding", word);
    }
    response.body(Full::new(sent)).unwrap()
}

struct Regions {
    tasks: Tasks,
    ports: Vec<Port>,
}

impl Regions {
    fn start() -> Self {
        let tasks = Tasks::new();
        let ports: Vec<Port> = (0..3).map(|_| Port::hold(0).unwrap()).collect();
        for (region, port) in ports.iter().enumerate() {
            let serving =
                port::serve(port.listen().unwrap(), tasks.clone(), "connection", move |request| async move {
                    answer(&request, region)
                });
            tasks.spawn("region", serving);
        }
        Self { tasks, ports }
    }

    fn settings(&self, compression: &str) -> String {
        let urls: Vec<_> = self.ports.iter().map(|port| format!("http://{}", port.address())).collect();
        let regions: Vec<_> = ["a", "b", "c"].into_iter().zip(&urls).map(|(name, url)| (name, &**url, "")).collect();
        with(&program::settings("contexts", &regions, REST), compression)
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        self.tasks.stopping().cancel();
    }
}

const REST: &str = "[announcements]\ntransport = \"off\"\n[drain]\nlinger = \"0s\"\n";

/// The settings with another line of the route.
fn with(settings: &str, line: &str) -> String {
    let records = "records = [\"context:{key}\"]\n";
    settings.replacen(records, &format!("{records}{line}"), 1)
}

fn dictionary_line(file: &str, hash: &str) -> String {
    format!("dictionary = {{ file = \"{file}\", hash = \"{hash}\" }}\n")
}

async fn get(program: &Program, key: &str, name: &str, value: &str) -> reqwest::Response {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let url = format!("http://{}/v1/contexts/{key}", program.tcp);
    client.get(url).header(name, value).send().await.unwrap()
}

/// Response without the headers that differ from answer to answer.
async fn whole(response: reqwest::Response) -> (u16, Vec<(String, String)>, Bytes) {
    let differs = ["date", "age", "cache-status"];
    let lines = response.headers().iter().filter(|(name, _)| !differs.contains(&name.as_str()));
    let mut lines: Vec<_> = lines.map(|(name, line)| (name.to_string(), line.to_str().unwrap().to_owned())).collect();
    lines.sort();
    (response.status().as_u16(), lines, response.bytes().await.unwrap())
}

#[tokio::test]
async fn compression_never_changes_callers_bytes() {
    let regions = Regions::start();
    let (plain, packed) = tokio::join!(async { Program::start(&regions.settings("")).await }, async {
        Program::start(&regions.settings("compression = \"zstd\"\n")).await
    });
    let expected = whole(get(&plain, "good", "accept-encoding", "identity").await).await;
    let expected = (expected.0, without_digest(expected.1), expected.2);
    assert_eq!((expected.0, &expected.2), (200, &record("good")));
    for accepted in ["identity", "zstd", "gzip, br"] {
        for _ in 0..2 {
            let (status, lines, body) = whole(get(&packed, "good", "accept-encoding", accepted).await).await;
            assert_eq!((status, without_digest(lines)), (expected.0, expected.1.clone()), "{accepted}");
            assert!(body == expected.2, "{accepted}");
        }
    }
    assert_eq!(get(&packed, "good", "if-none-match", TAG).await.status().as_u16(), 304);
    // The tag is what regions are asked with, and their 304 says nothing of codings.
    let again = whole(get(&packed, "good", "cache-control", "no-cache").await).await;
    assert_eq!((again.0, without_digest(again.1)), (expected.0, expected.1));
    assert!(again.2 == expected.2);
    let passed = get(&packed, "good", "range", "bytes=0-1").await;
    assert_eq!(passed.headers().get("content-encoding"), None, "it is asked for by its caller");
}

/// The digest is of the coded bytes where the first reply had a coding.
fn without_digest(lines: Vec<(String, String)>) -> Vec<(String, String)> {
    lines.into_iter().filter(|(name, _)| name != "content-digest").collect()
}

#[tokio::test]
async fn undecodable_region_loses_and_is_logged() {
    let regions = Regions::start();
    let program = Program::start(&regions.settings("compression = \"zstd\"\n")).await;
    for (key, why) in [("bomb", "too-large"), ("damaged", "damaged"), ("unasked", "unasked"), ("several", "several")]
    {
        let (status, _, body) = whole(get(&program, key, "accept", "*/*").await).await;
        assert_eq!((status, body), (200, record(key)), "{key}");
        let counted = format!("nearside_undecodable_replies_total{{why=\"{why}\"}} ");
        loop {
            // The slowest region's answer is read to its end.
            let (_, page) = program::get(&format!("http://{}/metrics", program.admin)).await;
            if page.lines().any(|line| line.strip_prefix(&counted).is_some_and(|count| count != "0")) {
                break;
            }
        }
        let (status, _, body) = whole(get(&program, key, "cache-control", "no-cache").await).await;
        assert_eq!((status, body), (200, record(key)), "{key}: no floor heard of it");
    }
    program.line(|line| line["message"] == "a region's compressed reply cannot be used").await;
}

#[tokio::test]
async fn tls_region_compresses_with_pinned_dictionary() {
    let authority = Authority::new();
    let file = authority.path("contexts.dict");
    std::fs::write(&file, record("any")).unwrap();
    let Err(DictionaryError::OtherHash { found }) = Dictionary::read(record("any"), &"0".repeat(64)) else {
        panic!()
    };
    let dictionary = Dictionary::read(record("any"), &found).unwrap();
    let expected = available_dictionary(&dictionary);
    let region = certificates::Region::answering(&authority, false, move |request| {
        let lines = request.headers();
        let body = record(request.uri().path().rsplit('/').next().unwrap());
        let accepted = lines["accept-encoding"].to_str().unwrap();
        let knows = lines.get("available-dictionary") == Some(&expected) && accepted.starts_with("dcz,");
        let response = Response::builder().header("x-record-version", "1").header("vary", "available-dictionary");
        if knows {
            let sent = encode(Coding::Dcz, &body, 3, Some(&dictionary)).unwrap();
            assert!(sent.len() < 150, "{} of {}", sent.len(), body.len());
            response.header("content-encoding", "dcz").body(Full::new(sent)).unwrap()
        } else {
            response.body(Full::new(body)).unwrap()
        }
    })
    .await;
    let settings = with(&region.settings(&certificates::ca(&authority)), "compression = \"zstd\"\n");
    let path = program::path(&file);
    let program = Program::start(&with(&settings, &dictionary_line(path, &found))).await;
    let answer = get(&program, "one", "available-dictionary", ":AAAA:").await;
    assert_eq!(answer.headers().get("content-encoding"), None);
    assert_eq!(answer.bytes().await.unwrap(), record("one"));
    let (_, page) = program::get(&format!("http://{}/metrics", program.admin)).await;
    assert!(page.contains("nearside_payload_work_seconds_count{work=\"decompress-dcz\"} 1\n"));
    // Another file under that name is refused, and what ran goes on.
    let done =
        program.reload(&with(&settings, &dictionary_line(path, &found.replace(['0', '1', '2', '3'], "f")))).await;
    assert_eq!(done["outcome"], "refused", "{done}");
    assert_eq!(get(&program, "two", "accept", "*/*").await.bytes().await.unwrap(), record("two"));
}

#[tokio::test]
async fn insecure_or_missing_dictionary_is_reported() {
    let regions = Regions::start();
    let directory = tempfile::tempdir().unwrap();
    let (file, dictionary) = (directory.path().join("nearside.toml"), directory.path().join("contexts.dict"));
    std::fs::write(&dictionary, "gold").unwrap();
    let hash = "0".repeat(64);
    let there = dictionary_line(program::path(&dictionary), &hash);
    let absent = dictionary_line("/no/such.dict", &hash);
    for (scheme, line, reported) in [
        ("http", format!("compression = \"zstd\"\n{there}"), "a dictionary is used over https alone"),
        ("https", format!("compression = \"zstd\"\n{there}"), "service.route.dictionary.hash: the hash of"),
        ("https", format!("compression = \"zstd\"\n{absent}"), "/no/such.dict cannot be read"),
        ("https", there, "a dictionary is used with zstd alone"),
    ] {
        std::fs::write(&file, regions.settings(&line).replace("http://", &format!("{scheme}://"))).unwrap();
        let output = program::run(&["run", "--config", program::path(&file)]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(reported), "{reported}: {said}");
        assert!(said.contains("nearside.toml:"), "the line: {said}");
    }
}
