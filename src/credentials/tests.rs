//! The life of minted tokens: one mint for all, renewal, failures, refusals.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::StatusCode;

use super::scripted::{Issued, issued};
use crate::telemetry::metrics::credentials::{MintKind, MintOutcome};
use crate::telemetry::scripted::CountedLines;

const LIFE: Duration = Duration::from_mins(15);
const SECOND: Duration = Duration::from_secs(1);

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_share_one_mint() {
    let issued = issued(LIFE, false);
    let sent = join_all((0..1_000).map(|_| issued.sent(SECOND))).await;
    assert!(sent.iter().all(|sent| sent.as_deref() == Some("Bearer token-1")));
    assert_eq!(issued.script.asked(), 1);
    assert_eq!(issued.deps.metrics.mints(MintKind::Jwt, MintOutcome::Minted), 1);
    issued.stop().await;
}

#[tokio::test(start_paused = true)]
async fn token_is_renewed_at_half_its_life() {
    let issued = issued(LIFE, false);
    pass(404).await;
    assert_eq!(issued.sent(SECOND).await.as_deref(), Some("Bearer token-1"));
    pass(92).await;
    assert_eq!(issued.sent(SECOND).await.as_deref(), Some("Bearer token-2"));
    assert_eq!(issued.script.asked(), 2);
    issued.stop().await;
}

#[tokio::test(start_paused = true)]
async fn token_outlives_its_issuer_for_a_while() {
    let issued = issued(LIFE, false);
    pass(1).await;
    *issued.script.is_down.lock() = true;
    pass(867).await;
    assert_eq!(issued.sent(SECOND).await.as_deref(), Some("Bearer token-1"), "30 s before its end");
    assert!((8..20).contains(&issued.script.asked()), "it backs off: {}", issued.script.asked());
    pass(3).await;
    assert_eq!(issued.sent(SECOND).await, None);
    *issued.script.is_down.lock() = false;
    pass(61).await;
    assert_eq!(issued.sent(SECOND).await.as_deref(), Some("Bearer token-2"));
    issued.stop().await;
}

/// A request does not wait out its deadline while it is known that there is nothing to send.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_failing_issuer() {
    let issued = issued(LIFE, true);
    let start = tokio::time::Instant::now();
    assert_eq!(issued.sent(SECOND).await, None);
    assert_eq!(issued.sent(SECOND).await, None);
    assert!(start.elapsed() < Duration::from_millis(50), "{:?}", start.elapsed());
    issued.stop().await;
}

#[tokio::test(start_paused = true)]
async fn useless_life_is_a_failure() {
    let issued = issued(Duration::from_secs(5), false);
    assert_eq!(issued.sent(SECOND).await, None);
    let failure = issued.minter.minted().failure.unwrap().to_string();
    assert!(failure.contains("lives for 5 s"), "{failure}");
    issued.stop().await;
}

/// Answers `status` to a request with the present token; returns what is sent after it.
async fn answered(issued: &Issued, status: StatusCode) -> Option<String> {
    let sent = issued.minter.usable(SECOND).await.unwrap();
    let newer = issued.minter.answered(&sent, status, SECOND).await?;
    Some(newer.bearer().to_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn refused_token_is_replaced() {
    let issued = issued(LIFE, false);
    assert_eq!(answered(&issued, StatusCode::UNAUTHORIZED).await.as_deref(), Some("Bearer token-2"));
    assert_eq!(issued.deps.metrics.discards(MintKind::Jwt), 1);
    issued.stop().await;
}

/// One region with wrong settings refuses every token: that is no reason for another.
#[tokio::test(start_paused = true)]
async fn accepted_token_survives_refusals() {
    let issued = issued(LIFE, false);
    assert_eq!(answered(&issued, StatusCode::OK).await, None);
    for _ in 0..100 {
        assert_eq!(answered(&issued, StatusCode::UNAUTHORIZED).await, None);
        pass(1).await;
    }
    assert_eq!(issued.script.asked(), 1);
    issued.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_answers_show_acceptance() {
    let issued = issued(LIFE, false);
    for status in [400, 403, 429, 500, 503] {
        assert_eq!(answered(&issued, StatusCode::from_u16(status).unwrap()).await, None);
    }
    assert_eq!(answered(&issued, StatusCode::UNAUTHORIZED).await.as_deref(), Some("Bearer token-2"));
    issued.stop().await;
    for status in [200, 304, 404, 410] {
        let issued = self::issued(LIFE, false);
        assert_eq!(answered(&issued, StatusCode::from_u16(status).unwrap()).await, None);
        assert_eq!(answered(&issued, StatusCode::UNAUTHORIZED).await, None, "{status}");
        issued.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_make_no_storm() {
    let issued = issued(LIFE, false);
    let sent = issued.minter.usable(SECOND).await.unwrap();
    let answers = (0..1_000).map(|_| issued.minter.answered(&sent, StatusCode::UNAUTHORIZED, SECOND));
    let newer = join_all(answers).await;
    assert!(
        newer.iter().flatten().all(|newer| newer.bearer() == "Bearer token-2") && newer.iter().all(Option::is_some)
    );
    assert_eq!(issued.script.asked(), 2);
    for _ in 0..300 {
        let _ = answered(&issued, StatusCode::UNAUTHORIZED).await;
        pass(1).await;
    }
    assert_eq!(issued.script.asked(), 6, "after 10, 20, 40 and 80 s");
    issued.stop().await;
}

/// The refusing region may be the one that is wrong.
#[tokio::test(start_paused = true)]
async fn refused_token_is_used_until_replaced() {
    let issued = issued(LIFE, false);
    let _ = issued.sent(SECOND).await;
    *issued.script.is_down.lock() = true;
    assert_eq!(answered(&issued, StatusCode::UNAUTHORIZED).await, None);
    assert_eq!(issued.sent(SECOND).await.as_deref(), Some("Bearer token-1"));
    *issued.script.is_down.lock() = false;
    pass(3).await;
    assert_eq!(issued.sent(SECOND).await.as_deref(), Some("Bearer token-2"));
    issued.stop().await;
}

#[tokio::test(start_paused = true)]
async fn wait_for_replacement_ends_in_time() {
    let issued = issued(LIFE, false);
    let sent = issued.minter.usable(SECOND).await.unwrap();
    let start = tokio::time::Instant::now();
    let within = Duration::from_millis(5);
    assert!(issued.minter.answered(&sent, StatusCode::UNAUTHORIZED, within).await.is_none());
    assert!(start.elapsed() <= within + Duration::from_millis(1));
    issued.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refusals_wait_for_no_failing_issuer() {
    let issued = issued(LIFE, false);
    let _ = issued.sent(SECOND).await;
    *issued.script.is_down.lock() = true;
    assert_eq!(answered(&issued, StatusCode::UNAUTHORIZED).await, None);
    let start = tokio::time::Instant::now();
    assert_eq!(answered(&issued, StatusCode::UNAUTHORIZED).await, None);
    assert!(start.elapsed() < Duration::from_millis(5), "{:?}", start.elapsed());
    issued.stop().await;
}

#[tokio::test(start_paused = true)]
async fn minting_ends_with_its_last_user() {
    let issued = issued(LIFE, false);
    let _ = issued.sent(SECOND).await;
    let (minter, script, deps) = (Arc::downgrade(&issued.minter), issued.script.clone(), issued.deps.clone());
    drop(issued);
    pass(5).await;
    assert!(minter.upgrade().is_none());
    assert_eq!(deps.tasks.running().get("mint").copied().unwrap_or_default(), 0);
    pass(1_000).await;
    assert_eq!(script.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn tokens_appear_in_no_line() {
    let lines = CountedLines::start();
    let issued = issued(LIFE, false);
    let sent = issued.minter.usable(SECOND).await.unwrap();
    let _ = answered(&issued, StatusCode::UNAUTHORIZED).await;
    *issued.script.is_down.lock() = true;
    pass(1_000).await;
    assert!(sent.bearer().is_sensitive() && !format!("{:?}", sent.bearer()).contains("token"));
    assert!(lines.with("were minted") > 0 && lines.with("no new credentials") > 0);
    assert_eq!(lines.with("token-"), 0);
    issued.stop().await;
}
