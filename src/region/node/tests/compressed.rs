//! A node that compresses for those who ask.

use super::*;
use crate::payload::coding::{Coding, decode};

const LARGE: &str = "/v1/contexts/large/limits";

fn view() -> &'static str {
    let rows = "{\"plan\":\"gold\"},".repeat(100);
    Box::leak(format!("[{rows}0]").into_boxed_str())
}

async fn compressing() -> Node {
    let node = Node::with(compress);
    node.step(Event::Subscribing(RegionId(0)));
    node.step(Event::Subscribed(RegionId(0)));
    node.beat(120 * SECOND).await;
    node.put("large", 5, Some(view())).await;
    node.put("acme", 6, Some("{\"seats\":9}")).await;
    node
}

const ZSTD: (&str, &str) = ("accept-encoding", "dcz, zstd;q=0.9, gzip;q=0.5");

#[tokio::test(start_paused = true)]
async fn a_view_is_compressed_once_for_all_who_ask_for_it_and_has_a_tag_of_its_own() {
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
    let page = node.core.metrics.render(&Default::default());
    assert!(page.contains("nearside_payload_work_seconds_count{work=\"compress-zstd\"} 1\n"));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn either_tag_of_a_view_is_known_to_who_asks_for_it_compressed() {
    let node = compressing().await;
    for (named, stated) in [("\"5\"", "\"5\""), ("\"5~zstd\"", "\"5~zstd\"")] {
        let known = node.get(LARGE, &[ZSTD, ("if-none-match", named)]).await;
        assert_eq!((known.status, known.header("etag"), known.header("content-encoding")), (304, stated, ""));
    }
    assert_eq!(node.get(LARGE, &[("if-none-match", "\"5~zstd\"")]).await.status, 200);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_small_or_not_there_or_asked_for_otherwise_is_as_it_is() {
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
