//! Attempts with a minted token, and their answers to a 401.

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::stream::StreamExt;
use http::{HeaderMap, header};
use parking_lot::Mutex;

use super::*;
use crate::config::RaceMode;
use crate::credentials::scripted::{Issued, issued};
use crate::model::time::Wall;
use crate::race::scripted::{get, ms, regions, status};

const LIFE: Duration = Duration::from_mins(15);
const WITHIN: Duration = Duration::from_secs(2);
const A: RegionId = RegionId(0);
const B: RegionId = RegionId(1);

type Takes = Box<dyn Fn(RegionId, &str) -> bool + Send + Sync>;

/// Regions that take these tokens, and remember what they were sent.
struct Guarded {
    takes: Takes,
    sent: Mutex<Vec<(RegionId, String)>>,
}

impl Origin for Guarded {
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        _: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        let value = &request.headers[header::AUTHORIZATION];
        assert!(value.is_sensitive());
        let value = value.to_str().unwrap().to_owned();
        let is_taken = (self.takes)(region, &value);
        self.sent.lock().push((region, value));
        let (sent, received) = Default::default();
        let status = if is_taken { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
        let (headers, body, versions) = (HeaderMap::new(), Bytes::new(), Vec::new());
        let reply = Reply {
            region,
            status,
            headers,
            body,
            versions,
            sent,
            sent_wall: Wall::default(),
            received,
            grants: None,
        };
        async move {
            tokio::time::sleep(ms(5)).await;
            Ok(reply)
        }
        .boxed()
    }
}

struct World {
    issued: Issued,
    guarded: Arc<Guarded>,
    origin: Arc<dyn Origin>,
}

/// Regions `a`, `b` and `c`.
pub(super) fn named() -> Arc<Regions> {
    regions(RaceMode::All, 1, [(); 3].map(|()| (1, status(200)))).1
}

fn world(issued: Issued, takes: impl Fn(RegionId, &str) -> bool + Send + Sync + 'static) -> World {
    let guarded = Arc::new(Guarded { takes: Box::new(takes), sent: Mutex::default() });
    let credentials = MintedCredentials { header: header::AUTHORIZATION, minter: issued.minter.clone() };
    let origin = over(guarded.clone(), &named(), Some(&credentials));
    World { issued, guarded, origin }
}

impl World {
    async fn ask(&self, region: RegionId) -> Result<u16, Failure> {
        self.origin.ask(region, Arc::new(get()), WITHIN).await.map(|reply| reply.status.as_u16())
    }

    /// Tokens sent to a region since the last call.
    fn sent(&self, region: RegionId) -> Vec<String> {
        let sent = std::mem::take(&mut *self.guarded.sent.lock());
        sent.into_iter().filter(|(to, _)| *to == region).map(|(_, token)| token).collect()
    }

    async fn stop(self) {
        drop(self.origin);
        self.issued.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_carry_minted_token() {
    let world = world(issued(LIFE, false), |_, _| true);
    assert_eq!(world.ask(A).await, Ok(200));
    let mut streamed = world.origin.open(A, Arc::new(get()), WITHIN).await.ok().unwrap();
    assert!(streamed.status == 200 && streamed.body.next().await.is_some());
    assert_eq!(world.sent(A), ["Bearer token-1", "Bearer token-1"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_without_token() {
    let world = world(issued(LIFE, true), |_, _| true);
    assert_eq!(world.ask(A).await, Err(Failure::NoCredential));
    assert_eq!(world.origin.open(A, Arc::new(get()), WITHIN).await.err(), Some(Failure::NoCredential));
    assert!(world.sent(A).is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refused_attempt_is_sent_once_more() {
    let world = world(issued(LIFE, false), |_, token| token == "Bearer token-2");
    assert_eq!(world.ask(A).await, Ok(200));
    assert_eq!(world.sent(A), ["Bearer token-1", "Bearer token-2"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn attempt_is_sent_twice_at_most() {
    let world = world(issued(LIFE, false), |_, _| false);
    assert_eq!(world.ask(A).await, Ok(401));
    assert_eq!(world.sent(A), ["Bearer token-1", "Bearer token-2"]);
    assert_eq!(world.ask(A).await, Ok(401));
    assert_eq!(world.sent(A), ["Bearer token-2"], "moments after the last discard");
    world.stop().await;
}

/// A region with another audience, say, refuses all that others take.
#[tokio::test(start_paused = true)]
async fn misconfigured_region_makes_no_mints() {
    let world = world(issued(LIFE, false), |region, _| region == B);
    assert_eq!(world.ask(B).await, Ok(200));
    let answers = join_all((0..1_000).map(|_| world.ask(A))).await;
    assert!(answers.into_iter().all(|answer| answer == Ok(401)));
    assert_eq!((world.issued.script.asked(), world.sent(A).len()), (1, 1_000));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refusal_stands_when_minting_fails() {
    let world = world(issued(LIFE, false), |_, token| token != "Bearer token-1");
    assert!(world.issued.sent(WITHIN).await.is_some());
    *world.issued.script.is_down.lock() = true;
    assert_eq!(world.ask(A).await, Ok(401));
    assert_eq!(world.sent(A), ["Bearer token-1"]);
    world.stop().await;
}
