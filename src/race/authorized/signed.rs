//! Attempts that are signed: each for its own region, by that region's clock, with keys that are new
//! when they are refused.

use std::collections::HashSet;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use parking_lot::Mutex;

use super::tests::named;
use super::*;
use crate::credentials::scripted::{Issued, issued_keys};
use crate::model::time::{Clock, Wall};
use crate::race::scripted::{get, ms};

const LIFE: Duration = Duration::from_mins(15);
const WITHIN: Duration = Duration::from_secs(2);
/// Difference of times that AWS tolerates.
const TOLERATED: Duration = Duration::from_mins(5);
const A: RegionId = RegionId(0);
const B: RegionId = RegionId(1);

/// Gateways of AWS, whose clocks are this far behind the sidecar's.
struct Gateways {
    clock: Clock,
    behind: Duration,
    /// Keys that have ended.
    ended: Mutex<HashSet<String>>,
    sent: Mutex<Vec<(RegionId, String)>>,
}

impl Gateways {
    fn now(&self) -> Wall {
        Wall::from_millis(self.clock.wall().as_millis() - self.behind.as_millis() as u64)
    }

    /// The error type, if this is refused.
    fn judge(&self, authorization: &str, date: &HeaderValue) -> Option<&'static str> {
        let now = self.now();
        let stated = self.stamps().find(|(stamp, _)| date == stamp).map(|(_, at)| at);
        let off = stated.map(|at| at.since(now).max(now.since(at)));
        let key = authorization.split_once("Credential=").unwrap().1.split('/').next().unwrap();
        if off.is_none_or(|off| off > TOLERATED) {
            Some("InvalidSignatureException")
        } else if self.ended.lock().contains(key) {
            Some("ExpiredTokenException")
        } else {
            None
        }
    }

    /// The seconds around now, as signatures state them.
    fn stamps(&self) -> impl Iterator<Item = (String, Wall)> {
        let second = self.clock.wall().as_millis() / 1_000;
        (second - 2_000..second + 2_000).map(|second| {
            let at = Wall::from_millis(second * 1_000);
            let stamp = humantime::format_rfc3339_seconds(at.to_system_time()).to_string();
            (stamp.replace(['-', ':'], ""), at)
        })
    }
}

impl Origin for Gateways {
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        _: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        let value = request.headers[header::AUTHORIZATION].to_str().unwrap().to_owned();
        let refused = self.judge(&value, &request.headers["x-amz-date"]);
        self.sent.lock().push((region, value));
        let mut headers = HeaderMap::new();
        let date = httpdate::fmt_http_date(self.now().to_system_time());
        headers.insert(header::DATE, HeaderValue::try_from(date).unwrap());
        if let Some(kind) = refused {
            headers.insert(HeaderName::from_static("x-amzn-errortype"), HeaderValue::from_static(kind));
        }
        let status = if refused.is_some() { StatusCode::FORBIDDEN } else { StatusCode::OK };
        let (sent, received) = Default::default();
        let (body, versions, sent_wall) = (Bytes::new(), Vec::new(), Wall::default());
        let reply = Reply { region, status, headers, body, versions, sent, sent_wall, received, grants: None };
        async move {
            tokio::time::sleep(ms(5)).await;
            Ok(reply)
        }
        .boxed()
    }

    fn base(&self, region: RegionId) -> Option<String> {
        Some(format!("https://{}.example.com/live", region.index()))
    }
}

struct World {
    issued: Issued,
    gateways: Arc<Gateways>,
    origin: Arc<dyn Origin>,
}

fn world(behind: Duration) -> World {
    let issued = issued_keys(LIFE, "execute-api");
    let (clock, ended, sent) = (issued.deps.clock.clone(), Mutex::default(), Mutex::default());
    let gateways = Arc::new(Gateways { clock, behind, ended, sent });
    let credentials = MintedCredentials { header: header::AUTHORIZATION, minter: issued.minter.clone() };
    let origin = over(gateways.clone(), &named(), Some(&credentials));
    World { issued, gateways, origin }
}

impl World {
    async fn ask(&self, region: RegionId) -> u16 {
        self.origin.ask(region, Arc::new(get()), WITHIN).await.ok().unwrap().status.as_u16()
    }

    fn sent(&self) -> Vec<(RegionId, String)> {
        std::mem::take(&mut *self.gateways.sent.lock())
    }

    async fn stop(self) {
        drop(self.origin);
        self.issued.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_are_signed_for_their_region() {
    let world = world(Duration::ZERO);
    assert_eq!([world.ask(A).await, world.ask(B).await], [200, 200]);
    for ((region, value), scope) in world.sent().iter().zip(["eu-west-1", "us-east-1"]) {
        assert!(value.contains(&format!("Credential=AKIA1/20270115/{scope}/execute-api/aws4_request")), "{region:?}");
    }
    world.stop().await;
}

/// AWS takes signatures of 5 minutes around its own time.
#[tokio::test(start_paused = true)]
async fn clock_minutes_off_is_corrected_once() {
    for (behind, refused) in [(90, 0), (600, 1)] {
        let world = world(Duration::from_secs(behind));
        for _ in 0..100 {
            assert_eq!(world.ask(A).await, 200, "{behind} s");
        }
        assert_eq!(world.sent().len(), 100 + refused, "{behind} s");
        assert_eq!(world.ask(B).await, 200, "another region's clock may be right");
        assert_eq!(world.sent().len(), 1 + refused, "{behind} s");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn ended_keys_are_replaced() {
    let world = world(Duration::ZERO);
    world.gateways.ended.lock().insert("AKIA1".to_owned());
    assert_eq!(world.ask(A).await, 200);
    let sent: Vec<_> = world.sent().into_iter().map(|(_, value)| value.contains("Credential=AKIA2/")).collect();
    assert_eq!(sent, [false, true]);
    world.stop().await;
}
