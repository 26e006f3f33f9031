//! A node that compresses for those who ask.

use super::*;
use crate::payload::coding::{Coding, decode};

const LARGE: &str = "/v1/contexts/large/limits";

fn view() -> &'static str {
    let rows = "{\"plan\":\"gold\"},".repeat(100);
    Box::leak(format!("[{rows}0]").into_boxed_str())
}

/// It would become smaller, but is small already.
fn small() -> &'static str {
    Box::leak(format!("[{}0]", "\"gold\",".repeat(100)).into_boxed_str())
}

async fn compressing() -> Node {
    let node = Node::with(compress);
    node.step(Event::Subscribing(RegionId(0)));
    node.step(Event::Subscribed(RegionId(0)));
    node.beat(120 * SECOND).await;
    node.put("large", 5, Some(view())).await;
    node.put("acme", 6, Some(small())).await;
    node
}

/// The answer to a batch of these keys.
async fn many(node: &Node, keys: &[String], lines: &[(&'static str, &'static str)]) -> Got {
    let body = serde_json::json!({ "keys": keys }).to_string().into();
    let mut headers =
        HeaderMap::from_iter([(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    headers
        .extend(lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))));
    let path_and_query = "/v1/batch/limits".to_owned();
    let path_len = path_and_query.len();
    let admitted = Admitted { method: Method::POST, path_and_query, path_len, headers, body };
    let (head, body) = respond(serve(&node.settings, admitted).await, &node.settings.fill.shared.names).into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&bytes).into_owned();
    Got { status: head.status.as_u16(), headers: head.headers, body, bytes }
}

#[tokio::test(start_paused = true)]
async fn compresses_batch_answers_whole_or_streamed() {
    let node = compressing().await;
    let keys: Vec<String> = (0..300).map(|key| format!("k{key}")).collect();
    for key in &keys {
        node.put(key, 5, Some(view())).await;
    }
    many(&node, &["nobody".to_owned()], &[]).await;
    // The first is read from the table and comes as it is there; the others are there at once.
    for (keys, is_coded) in [(&keys[..], true), (&keys[..3], true), (&["nobody".to_owned()][..], false)] {
        let coded = many(&node, keys, &[ZSTD]).await;
        assert_eq!(coded.header("content-encoding"), if is_coded { "zstd" } else { "" });
        let coding = if is_coded { Coding::Zstd } else { Coding::Identity };
        let content = decode(coding, &coded.bytes, 8 << 20, None).unwrap();
        assert!(!is_coded || content.len() > 10 * coded.bytes.len(), "{} of {}", coded.bytes.len(), content.len());
        let plain = many(&node, keys, &[("accept-encoding", "gzip")]).await;
        assert_eq!(plain.header("content-encoding"), "");
        assert!(parts(&content) == parts(&plain.bytes) && parts(&content).len() == keys.len());
    }
    node.stop().await;
}

const ZSTD: (&str, &str) = ("accept-encoding", "dcz, zstd;q=0.9, gzip;q=0.5");

#[tokio::test(start_paused = true)]
async fn compresses_view_once_under_own_etag() {
    let node = compressing().await;
    let plain = node.get(LARGE, &[]).await;
    assert_eq!(
        (plain.body.as_str(), plain.header("etag"), plain.header("vary")),
        (view(), "\"5\"", "accept-encoding")
    );
    for _ in 0..3 {
        let coded = node.get(LARGE, &[ZSTD]).await;
        assert_eq!(decode(Coding::Zstd, &coded.bytes, 1 << 20, None).unwrap(), view().as_bytes());
        let stated = ["content-encoding", "etag", "vary", "content-type", "x-record-version"];
        let expected = ["zstd", "\"5~zstd\"", "accept-encoding", "application/json", "5"];
        assert_eq!(stated.map(|name| coded.header(name)), expected);
        assert!(coded.is_hit());
        let head = node.send(Method::HEAD, LARGE, &[ZSTD]).await;
        assert_eq!(stated.map(|name| head.header(name)), expected);
    }
    assert_eq!(node.get(LARGE, &[("accept-encoding", "gzip")]).await.body, view());
    assert_eq!(node.reads(), 1, "one entry for all");
    let page = node.settings.fill.shared.metrics.render(&Default::default());
    assert!(page.contains("nearside_payload_work_seconds_count{work=\"compress-zstd\"} 1\n"));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn either_etag_revalidates_compressed_view() {
    let node = compressing().await;
    for (named, stated) in [("\"5\"", "\"5\""), ("\"5~zstd\"", "\"5~zstd\"")] {
        let known = node.get(LARGE, &[ZSTD, ("if-none-match", named)]).await;
        assert_eq!((known.status, known.header("etag"), known.header("content-encoding")), (304, stated, ""));
    }
    assert_eq!(node.get(LARGE, &[("if-none-match", "\"5~zstd\"")]).await.status, 200);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn small_absent_or_unrequested_stay_uncompressed() {
    let node = compressing().await;
    for (path, lines) in [
        (LIMITS, [ZSTD]),
        ("/v1/contexts/nobody/limits", [ZSTD]),
        (LARGE, [("accept-encoding", "gzip")]),
        (LARGE, [("accept-encoding", "zstd;q=0")]),
    ] {
        let got = node.get(path, &lines).await;
        assert_eq!(got.header("content-encoding"), "", "{path}");
    }
    let other = Node::heard().await;
    other.put("large", 5, Some(view())).await;
    let got = other.get(LARGE, &[ZSTD]).await;
    assert_eq!((got.header("content-encoding"), got.header("vary")), ("", ""), "it is off unless the region says so");
    node.stop().await;
    other.stop().await;
}

/// Key, status and body of each part.
fn parts(text: &[u8]) -> Vec<[serde_json::Value; 3]> {
    let answer: serde_json::Value = serde_json::from_slice(text).unwrap();
    let parts = answer["parts"].as_array().unwrap().iter();
    parts.map(|part| ["key", "status", "body"].map(|member| part[member].clone())).collect()
}
