//! A test double of the regions: each answers by a script, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;

use super::region::Regions;
use crate::config::grants_version::GRANTS_VERSION;
use crate::config::{self, RaceMode};
use crate::http::bodies::ByteBudget;
use crate::http::exchange::{Failure, Origin, Outgoing, Reply};
use crate::http::limits::BODIES_BYTES;
use crate::model::ids::{RegionId, Version};
use crate::model::stated_grants::StatedGrants;
use crate::model::time::{Clock, Wall};
use crate::telemetry::metrics::Metrics;

pub(crate) const DEADLINE: Duration = Duration::from_secs(2);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Reaction of a scripted region to a request.
#[derive(Clone)]
pub(crate) enum Act {
    Say { status: u16, version: Option<u64>, body: &'static str, headers: HeaderMap },
    Fail(Failure),
    Hang,
}

pub(crate) fn shows(version: u64) -> Act {
    Act::Say { status: 200, version: Some(version), body: "x", headers: HeaderMap::new() }
}

pub(crate) fn body(body: &'static str) -> Act {
    Act::Say { status: 200, version: None, body, headers: HeaderMap::new() }
}

pub(crate) fn status(status: u16) -> Act {
    Act::Say { status, version: None, body: "", headers: HeaderMap::new() }
}

pub(crate) fn retry_after(status: u16, value: &'static str) -> Act {
    let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, HeaderValue::from_static(value))]);
    Act::Say { status, version: None, body: "", headers }
}

pub(crate) struct Script {
    pub(crate) clock: Clock,
    pub(crate) acts: Mutex<Vec<(Duration, Act)>>,
    pub(crate) asked: Mutex<Vec<RegionId>>,
}

impl Origin for Script {
    fn ask(
        &self,
        region: RegionId,
        _: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        self.asked.lock().push(region);
        let (after, act) = self.acts.lock()[region.index()].clone();
        let clock = self.clock.clone();
        let reply = async move {
            let (sent, sent_wall) = (clock.now(), clock.wall());
            tokio::time::sleep(after).await;
            match act {
                Act::Hang => std::future::pending().await,
                Act::Fail(failure) => Err(failure),
                Act::Say { status, version, body, mut headers } => Ok(Reply {
                    grants: StatedGrants::take(&mut headers, &GRANTS_VERSION),
                    region,
                    status: StatusCode::from_u16(status).unwrap(),
                    headers,
                    body: Bytes::from_static(body.as_bytes()),
                    versions: version.into_iter().map(Version).collect(),
                    sent,
                    sent_wall,
                    received: clock.now(),
                }),
            }
        };
        let late = Err(Failure::Deadline { within, head: false });
        tokio::time::timeout(within, reply).map(|reply| reply.unwrap_or(late)).boxed()
    }
}

/// Three scripted regions, the first of which is the primary.
pub(crate) fn regions(mode: RaceMode, permits: usize, acts: [(u64, Act); 3]) -> (Arc<Script>, Arc<Regions>) {
    let clock = Clock::simulated(Wall::from_millis(1_800_000_000_000));
    let acts = Mutex::new(acts.map(|(after, act)| (ms(after), act)).to_vec());
    let script = Arc::new(Script { clock: clock.clone(), acts, asked: Mutex::default() });
    let race = config::RaceConfig { mode, deadline: DEADLINE, permits, ..Default::default() };
    let names = ["a", "b", "c"].map(String::from).to_vec();
    let regions =
        Regions::of(names, &race, script.clone(), clock, Arc::new(Metrics::default()), ByteBudget::new(BODIES_BYTES));
    (script, regions)
}

pub(crate) fn get() -> Outgoing {
    let path_and_query = "/v1/x".into();
    Outgoing { method: Method::GET, path_and_query, headers: HeaderMap::new(), body: Bytes::new() }
}
