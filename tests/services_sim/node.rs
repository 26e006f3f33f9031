//! A node, as the product builds it: the settings over the region's table, fed by the region's topic.
//! Only what carries requests and messages (sockets, SNS, SQS) is left out.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use http_body_util::BodyExt;
use tokio::sync::{Mutex, mpsc};

use nearside::aws::remembered::Remembered;
use nearside::aws::verify::Verified;
use nearside::cache::capacity::Memory;
use nearside::cache::key::HashKey;
use nearside::engine::Tables;
use nearside::fill::effects::apply_actions;
use nearside::fill::settings::Parts;
use nearside::http::admission::Admitted;
use nearside::http::bodies::ByteBudget;
use nearside::model::ids::RegionId;
use nearside::model::time::Clock;
use nearside::protocol::event::{Action, Event};
use nearside::region::node::{NodeSettings, config, watch_completeness};
use nearside::region::origin::TableOrigin;
use nearside::request::answer::respond;
use nearside::request::serve::serve;
use nearside::request::settings::Settings;
use nearside::shape::cache_status::CACHE_STATUS;
use nearside::sidecar::announcements::apply::Applier;
use nearside::tasks::Tasks;

use super::deliveries::Queue;
use super::gate::Gate;
use super::made::VIEWS;
use super::plan::between;

/// The only region that a node knows.
const OWN: RegionId = RegionId(0);
const TICK: Duration = Duration::from_secs(1);
/// Records without an entry that are remembered: few, so that some are forgotten.
const FLOOR_SLOTS: usize = 512;

/// A request as a sidecar sends it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) view: String,
    pub(crate) key: String,
    pub(crate) floor: Option<u64>,
    pub(crate) no_cache: bool,
    /// The version of what the caller has.
    pub(crate) has: Option<u64>,
}

/// Outcome of a request.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    /// 0 where none is stated.
    pub(crate) version: u64,
    pub(crate) age: Duration,
    pub(crate) line: String,
    pub(crate) body: Bytes,
}

impl Got {
    pub(crate) fn is_hit(&self) -> bool {
        self.line.contains("; hit")
    }

    /// Greatest age that it states for itself.
    pub(crate) fn bound(&self) -> Option<Duration> {
        let stated = self.line.split(';').find_map(|part| part.trim_start().strip_prefix("bound="))?;
        stated.parse().ok().map(Duration::from_secs)
    }
}

pub(crate) struct Node {
    settings: Arc<Settings>,
    applier: Applier,
    complete: Arc<AtomicBool>,
    table: Arc<dyn Tables>,
    queue: Arc<Queue>,
    /// After how long the topic is to be subscribed to anew.
    resubscribe: Mutex<mpsc::UnboundedReceiver<Duration>>,
}

impl Node {
    /// One that knows nothing.
    pub(crate) fn new(region: usize, table: Arc<dyn Tables>, queue: Arc<Queue>, clock: Clock) -> Self {
        let config = config(&NodeSettings {
            region: format!("region-{region}"),
            topic: None,
            listen: ([127, 0, 0, 1], 0).into(),
            hosts: Vec::new(),
            admin: ([127, 0, 0, 1], 0).into(),
            views: VIEWS.iter().map(|(view, _)| (*view).to_owned()).collect(),
        });
        let config = config.expect("plain names");
        let complete = Arc::new(AtomicBool::new(false));
        let origin = Arc::new(TableOrigin::new(&config, table.clone(), complete.clone(), clock.clone()));
        let parts = Parts {
            clock: clock.clone(),
            origin,
            tasks: Tasks::new(),
            hash_key: HashKey::fixed(7),
            floor_slots: FLOOR_SLOTS,
            memory: Memory::AMPLE,
            bodies: ByteBudget::new(nearside::http::limits::BODIES_BYTES),
        };
        let settings = Settings::new(config, parts).expect("no credentials are read");
        let (tell, resubscribe) = mpsc::unbounded_channel();
        let is_new = settings.fill.shared.set_effects(Box::new(move |action| {
            if let Action::Resubscribe(_, after) = action {
                let _ = tell.send(after);
            }
        }));
        assert!(is_new, "it has no effects yet");
        let (freshness, acting) = (settings.fill.shared.freshness.clone(), settings.clone());
        let applier = Applier::new(
            Box::new(move |now, wall, event| freshness.step(now, wall, event)),
            settings.fill.shared.keyed_hashes.clone(),
            Arc::new(Remembered::new()),
            clock,
            settings.fill.shared.metrics.clone(),
            settings.fill.shared.observed.clone(),
            Box::new(move |actions| apply_actions(&acting.fill, actions)),
        );
        Self { settings, applier, complete, table, queue, resubscribe: Mutex::new(resubscribe) }
    }

    /// Lives until it is dropped.
    pub(crate) async fn live(&self, gate: &Gate) {
        tokio::select! {
            biased;
            () = watch_completeness(&*self.table, &self.complete) => {}
            () = self.subscribe(gate) => {}
            () = self.hear(gate) => {}
            () = self.tick(gate) => {}
        }
    }

    fn step(&self, event: Event) {
        let clock = &self.settings.fill.shared.clock;
        apply_actions(
            &self.settings.fill,
            self.settings.fill.shared.freshness.step(clock.now(), clock.wall(), event),
        );
    }

    async fn subscribe(&self, gate: &Gate) {
        let mut wanted = self.resubscribe.lock().await;
        loop {
            self.step(Event::Subscribing(OWN));
            tokio::time::sleep(between(Duration::from_millis(50), Duration::from_millis(450))).await;
            gate.awake().await;
            self.step(Event::Subscribed(OWN));
            // At times it takes effect later than SNS says.
            let holds_in = if fastrand::u8(..8) == 0 { 6_000 } else { 100 };
            tokio::time::sleep(between(Duration::ZERO, Duration::from_millis(holds_in))).await;
            self.queue.subscribe();
            let Some(after) = wanted.recv().await else { return };
            self.queue.remove();
            tokio::time::sleep(after).await;
        }
    }

    async fn hear(&self, gate: &Gate) {
        loop {
            let delivery = self.queue.next().await;
            gate.awake().await;
            let (message, published, message_id) = (delivery.message, delivery.published, delivery.id);
            self.applier.apply(OWN, Verified::Notification { message, published, message_id }, Some(published));
        }
    }

    async fn tick(&self, gate: &Gate) {
        loop {
            tokio::time::sleep(TICK).await;
            gate.awake().await;
            self.step(Event::Tick);
        }
    }

    pub(crate) async fn answer(&self, asked: &Asked) -> Got {
        let mut headers = HeaderMap::new();
        headers
            .extend(asked.floor.map(|floor| (HeaderName::from_static("x-record-floor"), HeaderValue::from(floor))));
        if asked.no_cache {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        if let Some(has) = asked.has {
            let tag = HeaderValue::try_from(format!("\"{has}\"")).expect("digits");
            headers.insert(header::IF_NONE_MATCH, tag);
        }
        let path_and_query = format!("/v1/contexts/{}/{}", asked.key, asked.view);
        let path_len = path_and_query.len();
        let admitted = Admitted { method: Method::GET, path_and_query, path_len, headers, body: Bytes::new() };
        let response = respond(serve(&self.settings, admitted).await, &self.settings.fill.shared.names);
        let (head, body) = response.into_parts();
        Got {
            status: head.status.as_u16(),
            version: text(&head.headers, "x-record-version")
                .parse()
                .ok()
                .or_else(|| text(&head.headers, "etag").trim_matches('"').parse().ok())
                .unwrap_or_default(),
            age: Duration::from_secs(text(&head.headers, "age").parse().unwrap_or_default()),
            line: text(&head.headers, CACHE_STATUS.as_str()).to_owned(),
            body: body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default(),
        }
    }

    /// Nothing of it runs on.
    pub(crate) async fn end(&self) {
        self.queue.remove();
        self.settings.fill.shared.tasks.drain(Duration::ZERO).await;
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
