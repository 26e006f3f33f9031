//! A sidecar whose regions are LIVE and answer at once: what the benchmarks and the test of
//! allocations measure.
//!
//! Before it: nothing. After it: requests, or announcements. No network: a reply is scripted, and
//! always the same; no announcement comes but the caller's own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nearside::cache::capacity::Memory;
use nearside::cache::key::HashKey;
use nearside::config::{Config, read};
use nearside::fill::settings::Parts;
use nearside::http::bodies::ByteBudget;
use nearside::http::exchange::{Failure, Origin, Outgoing, Reply};
use nearside::http::limits::BODIES_BYTES;
use nearside::model::ids::{RegionId, Version};
use nearside::model::stated_grants::StatedGrants;
use nearside::model::time::Clock;
use nearside::protocol::event::{Event, Says};
use nearside::protocol::limits::FLOOR_SLOTS;
use nearside::request::settings::Settings;
use nearside::tasks::Tasks;

/// The regions' topics, of the first region first.
pub(crate) const TOPICS: [&str; 3] = [
    "arn:aws:sns:eu-west-1:000000000000:contexts",
    "arn:aws:sns:us-east-1:000000000000:contexts",
    "arn:aws:sns:us-west-2:000000000000:contexts",
];
/// Length of a region's body.
pub(crate) const BODY_BYTES: usize = 1024;

/// Settings with so many regions (three at the most), one route, and what else is to be set.
pub(crate) fn config(regions: usize, more: &str) -> Config {
    config_of(regions, "", more)
}

/// Settings as of [`config`], with further ones of the route.
pub(crate) fn config_of(regions: usize, route: &str, more: &str) -> Config {
    let regions: String = (0..regions).map(|place| {
        let (topic, port) = (TOPICS[place], place + 1);
        format!(
            "[[service.region]]\nname = \"region-{port}\"\nurl = \"http://127.0.0.1:{port}\"\ntopic = \"{topic}\"\n"
        )
    }).collect();
    let text = format!(
        r#"
service.name = "contexts"
{regions}
[[service.route]]
path = "/v1/contexts/{{key}}/{{view}}"
records = ["context:{{key}}"]
{route}
[announcements]
transport = "off"
{more}"#
    );
    read::from_toml(&text).expect("the settings above are valid")
}

/// A region that answers at once, with 1 KiB unless said otherwise, and the usual headers.
pub(crate) struct Ready {
    clock: Clock,
    headers: HeaderMap,
    body: Bytes,
    grants: Option<StatedGrants>,
}

impl Ready {
    /// All regions, on the machine's clock.
    pub(crate) fn new() -> Self {
        let lines = [
            (header::CONTENT_TYPE, "application/json"),
            (header::ETAG, "\"5\""),
            (header::CACHE_CONTROL, "max-age=60"),
            (header::DATE, "Fri, 15 Jan 2027 08:00:00 GMT"),
        ];
        let headers = lines.map(|(name, value)| (name, HeaderValue::from_static(value))).into_iter().collect();
        Self { clock: Clock::System, headers, body: Bytes::from(vec![b'x'; BODY_BYTES]), grants: None }
    }

    /// All regions, with this body.
    #[allow(dead_code, reason = "not every benchmark has a body of its own")]
    pub(crate) fn with(body: Vec<u8>) -> Self {
        Self { body: body.into(), ..Self::new() }
    }

    /// All regions, which say by which grants they decided (R22).
    #[allow(dead_code, reason = "not every benchmark has permits")]
    pub(crate) fn granting() -> Self {
        Self { grants: Some(StatedGrants { version: 1, view: "context".into() }), ..Self::new() }
    }
}

impl Origin for Ready {
    fn ask(&self, region: RegionId, _: Arc<Outgoing>, _: Duration) -> BoxFuture<'static, Result<Reply, Failure>> {
        let (now, sent_wall) = (self.clock.now(), self.clock.wall());
        let (headers, body) = (self.headers.clone(), self.body.clone());
        let versions = vec![Version(5)];
        let reply = Reply {
            region,
            status: StatusCode::OK,
            headers,
            body,
            versions,
            sent: now,
            sent_wall,
            received: now,
            grants: self.grants.clone(),
        };
        async move { Ok(reply) }.boxed()
    }
}

/// A sidecar of these settings, LIVE.
#[allow(dead_code, reason = "not every benchmark has one without sockets")]
pub(crate) fn sidecar(config: Config) -> Arc<Settings> {
    over(config, Arc::new(Ready::new()))
}

/// Makes a sidecar over other regions.
#[allow(dead_code, reason = "not every benchmark has one without sockets")]
pub(crate) fn over(config: Config, origin: Arc<dyn Origin>) -> Arc<Settings> {
    let clock = Clock::System;
    let (hash_key, floor_slots, memory) = (HashKey::fixed(7), FLOOR_SLOTS, Memory::AMPLE);
    let bodies = ByteBudget::new(BODIES_BYTES);
    let parts = Parts { clock, origin, tasks: Tasks::new(), hash_key, floor_slots, memory, bodies };
    let sidecar = Settings::new(config, parts).expect("there are no credentials to read");
    go_live(&sidecar);
    sidecar
}

/// Makes every region LIVE.
pub(crate) fn go_live(sidecar: &Settings) {
    for region in regions(sidecar) {
        for event in [Event::Subscribing(region), Event::Subscribed(region)] {
            sidecar.fill.shared.freshness.step(
                sidecar.fill.shared.clock.now(),
                sidecar.fill.shared.clock.wall(),
                event,
            );
        }
    }
    speak(sidecar);
}

/// Renews every region's lease: any message does.
pub(crate) fn speak(sidecar: &Settings) {
    for region in regions(sidecar) {
        let published = sidecar.fill.shared.clock.wall();
        let message = Event::Message { region, published, queued: None, numbered: None, says: Says::Unrouted };
        sidecar.fill.shared.freshness.step(sidecar.fill.shared.clock.now(), published, message);
    }
}

fn regions(sidecar: &Settings) -> impl Iterator<Item = RegionId> {
    (0..).map(RegionId).take(sidecar.fill.config.service.regions.len())
}
