//! A test double: a whole sidecar without sockets, and three regions that answer by a script, all in
//! virtual time on one thread. The same script at the same times gives the same answers, and
//! nothing is left running after [`World::stop`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::cache::capacity::Memory;
use crate::cache::key::HashKey;
use crate::config::grants_version::GRANTS_VERSION;
use crate::config::read;
use crate::fill::effects::apply_actions;
use crate::fill::settings::Parts;
use crate::http::admission::Admitted;
use crate::http::bodies::ByteBudget;
use crate::http::exchange::{Failure, Origin, Outgoing, Reply};
use crate::model::ids::{RecordId, RegionId, Version};
use crate::model::stated_grants::{self, StatedGrants};
use crate::model::time::{Clock, Moment, Wall};
use crate::protocol::event::{Event, Says};
use crate::request::answer::respond;
use crate::request::serve::serve;
use crate::request::settings::Settings;
use crate::shape::cache_status::CACHE_STATUS;
use crate::tasks::Tasks;

pub(crate) const A: RegionId = RegionId(0);
pub(crate) const B: RegionId = RegionId(1);
pub(crate) const C: RegionId = RegionId(2);
pub(crate) const REGIONS: usize = 3;
pub(crate) const DEADLINE: Duration = Duration::from_secs(2);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Reaction of a region to a request, after its latency.
#[derive(Clone)]
pub(crate) enum Act {
    Say(Say),
    /// The first to callers that name Protobuf, the second to others.
    Either(Say, Say),
    /// Depends on the caller's `Authorization`; 401 to all others.
    By(Vec<(&'static str, Say)>),
    Fail(Failure),
    Hang,
    Panic,
    /// Answers once the gate is opened.
    Gate(Arc<Notify>, Say),
}

#[derive(Clone)]
pub(crate) struct Say {
    status: u16,
    versions: Vec<u64>,
    body: Bytes,
    headers: HeaderMap,
}

impl Say {
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        self
    }
}

impl Say {
    /// With this version of every record.
    pub(crate) fn at(self, version: u64) -> Self {
        Self { versions: vec![version], ..self }
    }

    /// Decided by this version of the grants.
    pub(crate) fn by(mut self, version: u64) -> Self {
        let line = stated_grants::line(version, "context").unwrap();
        self.headers.insert(GRANTS_VERSION, line);
        self
    }
}

impl From<Say> for Act {
    fn from(say: Say) -> Self {
        Self::Say(say)
    }
}

/// A 200 with this version of every record, repeated in its body.
pub(crate) fn shows(version: u64) -> Say {
    versions(&[version])
}

pub(crate) fn versions(versions: &[u64]) -> Say {
    let body = versions.iter().map(u64::to_string).collect::<Vec<_>>().join(",").into();
    Say { status: 200, versions: versions.to_vec(), body, headers: HeaderMap::new() }
}

pub(crate) fn body(body: impl Into<Bytes>) -> Say {
    Say { status: 200, versions: Vec::new(), body: body.into(), headers: HeaderMap::new() }
}

pub(crate) fn json(text: &str) -> Say {
    body(text.to_owned()).with("content-type", "application/json")
}

pub(crate) fn status(status: u16) -> Say {
    Say { status, versions: Vec::new(), body: Bytes::new(), headers: HeaderMap::new() }
}

/// A 404 with the version of the deletion.
pub(crate) fn tombstone(version: u64) -> Say {
    Say { versions: vec![version], ..status(404) }
}

pub(crate) struct Script {
    clock: Clock,
    acts: Mutex<[(Duration, Act); REGIONS]>,
    /// Reaction of regions below `/v2/` instead: the candidate of a route.
    candidate: Mutex<Option<Act>>,
    asked: Mutex<Vec<(RegionId, Moment, Arc<Outgoing>)>>,
}

impl Script {
    /// Attempts sent since the last call of [`World::asked`], without resetting that count.
    pub(crate) fn asked_so_far(&self) -> usize {
        self.asked.lock().len()
    }
}

impl Origin for Script {
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        // No two attempts are sent at the same moment.
        self.clock.suspend(Duration::from_nanos(100));
        self.asked.lock().push((region, self.clock.now(), request.clone()));
        let (after, mut act) = self.acts.lock()[region.index()].clone();
        if request.path_and_query.starts_with("/v2/") {
            act = self.candidate.lock().clone().unwrap_or(act);
        }
        let clock = self.clock.clone();
        let (sent, sent_wall) = (clock.now(), clock.wall());
        let reply = async move {
            tokio::time::sleep(after).await;
            let say = match act {
                Act::Say(say) => say,
                Act::Either(protobuf, json) => {
                    let accept = request.headers.get(header::ACCEPT).map(HeaderValue::as_bytes).unwrap_or_default();
                    if accept.starts_with(b"application/x-protobuf") { protobuf } else { json }
                }
                Act::By(callers) => {
                    let sent = request.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
                    let known = callers.into_iter().find(|(token, _)| Some(token.as_bytes()) == sent);
                    known.map_or_else(|| status(401), |(_, say)| say)
                }
                Act::Fail(failure) => return Err(failure),
                Act::Hang => std::future::pending().await,
                Act::Panic => panic!("a defect in an attempt"),
                Act::Gate(gate, say) => {
                    gate.notified().await;
                    say
                }
            };
            let mut headers = say.headers;
            let grants = StatedGrants::take(&mut headers, &GRANTS_VERSION);
            let known = request.headers.get(header::IF_NONE_MATCH);
            let (status, body) = if say.status == 200 && known.is_some() && known == headers.get(header::ETAG) {
                (304, Bytes::new())
            } else {
                (say.status, say.body)
            };
            Ok(Reply {
                region,
                status: StatusCode::from_u16(status).unwrap(),
                headers,
                body,
                versions: say.versions.into_iter().map(Version).collect(),
                sent,
                sent_wall,
                received: clock.now(),
                grants,
            })
        };
        let late = Err(Failure::Deadline { within, head: false });
        tokio::time::timeout(within, reply).map(|reply| reply.unwrap_or(late)).boxed()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// The body as it came.
    pub(crate) bytes: Bytes,
    pub(crate) headers: HeaderMap,
    pub(crate) line: String,
    pub(crate) cookies: Vec<String>,
}

impl Answer {
    /// The label that says why it cannot be called fresh.
    pub(crate) fn label(&self) -> Option<&str> {
        let detail = self.line.split("; ").find_map(|part| part.strip_prefix("detail="))?;
        (!["a", "b", "c"].contains(&detail)).then_some(detail)
    }

    /// A header's value; empty if it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn is_hit(&self) -> bool {
        self.line.contains("; hit")
    }

    pub(crate) fn is_stored(&self) -> bool {
        self.line.contains("; stored")
    }
}

/// A sidecar and its regions.
pub(crate) struct World {
    pub(crate) sidecar: Arc<Settings>,
    pub(crate) script: Arc<Script>,
}

impl World {
    /// Regions `a`, `b` and `c` without subscriptions; `/v1/contexts/{key}/{view}` shows
    /// `context:{key}`, and `/v1/pairs/{one}/{two}` shows two records.
    pub(crate) fn new(acts: [(u64, Act); REGIONS]) -> Self {
        Self::with("", acts)
    }

    /// `/v1/moved/{key}` shows `context:{key}`, and every region answers `say`.
    pub(crate) fn moved(settings: &str, say: Say) -> Self {
        let route =
            format!("[[service.route]]\npath = \"/v1/moved/{{key}}\"\nrecords = [\"context:{{key}}\"]\n{settings}\n");
        Self::with(&route, [10, 20, 30].map(|after| (after, say.clone().into())))
    }

    /// Builds it with more settings, as TOML.
    pub(crate) fn with(settings: &str, acts: [(u64, Act); REGIONS]) -> Self {
        fastrand::seed(7);
        let clock = Clock::simulated(Wall::from_millis(1_800_000_000_000));
        let acts = Mutex::new(acts.map(|(after, act)| (ms(after), act)));
        let script =
            Arc::new(Script { clock: clock.clone(), acts, candidate: Mutex::default(), asked: Mutex::default() });
        let mut text = String::from("service.name = \"contexts\"\n");
        for name in ["a", "b", "c"] {
            text += &format!("[[service.region]]\nname = \"{name}\"\nurl = \"http://127.0.0.1:1/{name}\"\n");
        }
        text += "[[service.route]]\npath = \"/v1/contexts/{key}/{view}\"\nrecords = [\"context:{key}\"]\n\
                 [[service.route]]\npath = \"/v1/pairs/{one}/{two}\"\n\
                 records = [\"context:{one}\", \"context:{two}\"]\n[announcements]\ntransport = \"off\"\n";
        if !settings.contains("deadline") {
            text += "[race]\ndeadline = \"2s\"\n";
        }
        let config = read::from_toml(&(text + settings)).unwrap();
        let (tasks, floor_slots) = (Tasks::new(), crate::protocol::limits::FLOOR_SLOTS);
        let (memory, bodies) = (Memory::AMPLE, ByteBudget::new(crate::http::limits::BODIES_BYTES));
        let parts =
            Parts { clock, origin: script.clone(), tasks, hash_key: HashKey::fixed(7), floor_slots, memory, bodies };
        Self { sidecar: Settings::new(config, parts).unwrap(), script }
    }

    pub(crate) fn set(&self, region: RegionId, after: u64, act: impl Into<Act>) {
        self.script.acts.lock()[region.index()] = (ms(after), act.into());
    }

    pub(crate) fn set_all(&self, after: u64, act: impl Into<Act>) {
        let act = act.into();
        [A, B, C].into_iter().for_each(|region| self.set(region, after, act.clone()));
    }

    /// Sets the reaction of every region below `/v2/` from now on.
    pub(crate) fn set_candidate(&self, act: impl Into<Act>) {
        *self.script.candidate.lock() = Some(act.into());
    }

    /// Reloads with other settings.
    pub(crate) fn reload(&mut self, change: impl FnOnce(&mut crate::config::Config)) {
        let mut config = self.sidecar.fill.config.clone();
        change(&mut config);
        self.sidecar = self.sidecar.renewed(config, self.script.clone()).unwrap();
    }

    /// The regions asked since the last call.
    pub(crate) fn asked(&self) -> Vec<RegionId> {
        self.requests().into_iter().map(|(region, ..)| region).collect()
    }

    /// Requests so far, each with its region and the time of sending.
    pub(crate) fn requests(&self) -> Vec<(RegionId, Moment, Arc<Outgoing>)> {
        std::mem::take(&mut *self.script.asked.lock())
    }

    pub(crate) fn now(&self) -> Moment {
        self.sidecar.fill.shared.clock.now()
    }

    pub(crate) fn step(&self, event: Event) {
        let sidecar = &self.sidecar;
        let actions = sidecar.fill.shared.freshness.step(
            sidecar.fill.shared.clock.now(),
            sidecar.fill.shared.clock.wall(),
            event,
        );
        apply_actions(&sidecar.fill, actions);
    }

    pub(crate) fn hear(&self, region: RegionId, says: Says) {
        let published = self.sidecar.fill.shared.clock.wall();
        self.step(Event::Message { region, published, queued: None, numbered: None, says });
    }

    pub(crate) fn record(&self, key: &str) -> RecordId {
        self.sidecar.fill.shared.keyed_hashes.record("context", key).unwrap()
    }

    /// `region` announces `version` of a record; 0 for a publisher that knows none.
    pub(crate) fn announce(&self, region: RegionId, key: &str, version: u64) {
        let version = Some(Version(version)).filter(|version| *version != Version::NONE);
        self.hear(region, Says::Changed(self.record(key), version));
    }

    pub(crate) fn delete(&self, region: RegionId, key: &str, version: u64) {
        let version = Some(Version(version)).filter(|version| *version != Version::NONE);
        self.hear(region, Says::Deleted(self.record(key), version));
    }

    /// `region` announces this version of the grants.
    pub(crate) fn announce_grants(&self, region: RegionId, version: u64) {
        self.hear(region, Says::Grants(Some(version)));
    }

    pub(crate) fn floor(&self, key: &str) -> u64 {
        let (id, freshness) = (self.record(key), &self.sidecar.fill.shared.freshness);
        let floor = freshness.pin(id).snapshot().floor.0;
        freshness.release(id);
        floor
    }

    /// Subscribes region `a` and lets it announce for two minutes: from then on, whatever states
    /// versions is CONFIRMED.
    pub(crate) async fn live(&self) {
        self.step(Event::Subscribing(A));
        self.step(Event::Subscribed(A));
        self.pass(120 * SECOND).await;
    }

    /// Lets time pass as in a healthy world: the first region's topic sends a heartbeat every
    /// second.
    pub(crate) async fn pass(&self, span: Duration) {
        let until = self.now() + span;
        self.hear(A, heartbeat());
        while self.now() < until {
            tokio::time::sleep((until - self.now()).min(SECOND)).await;
            self.hear(A, heartbeat());
            self.step(Event::Tick);
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        get_from(self.sidecar.clone(), path.to_owned(), HeaderMap::new()).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str) -> Answer {
        send_from(self.sidecar.clone(), method, path.to_owned(), HeaderMap::new()).await
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, headers: HeaderMap) -> Answer {
        send_from(self.sidecar.clone(), method, path.to_owned(), headers).await
    }

    pub(crate) async fn get_with(&self, path: &str, name: &'static str, value: &'static str) -> Answer {
        let headers = HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))]);
        get_from(self.sidecar.clone(), path.to_owned(), headers).await
    }

    /// A reader in its own task; aborting the handle means that the caller hangs up.
    pub(crate) fn begin(&self, path: &str) -> JoinHandle<Option<Answer>> {
        self.begin_with(path, HeaderMap::new())
    }

    pub(crate) fn begin_with(&self, path: &str, headers: HeaderMap) -> JoinHandle<Option<Answer>> {
        self.sidecar.fill.shared.tasks.spawn("reader", get_from(self.sidecar.clone(), path.to_owned(), headers))
    }

    pub(crate) fn running(&self, name: &str) -> usize {
        self.sidecar.fill.shared.tasks.running().get(name).copied().unwrap_or_default()
    }

    /// Checks that nothing is left: no fill is counted, and no task had to be dropped.
    pub(crate) async fn stop(self) {
        assert_eq!(self.sidecar.fill.shared.tasks.drain(60 * SECOND).await, Vec::<&str>::new());
        assert_eq!(self.sidecar.fill.shared.fills.under_way(), 0);
        assert_eq!(self.sidecar.fill.shared.fills.in_flight(), 0);
    }
}

fn heartbeat() -> Says {
    Says::Heartbeat { path: false, ingested_through: None, signing_off: false }
}

async fn get_from(sidecar: Arc<Settings>, path_and_query: String, headers: HeaderMap) -> Answer {
    send_from(sidecar, Method::GET, path_and_query, headers).await
}

async fn send_from(sidecar: Arc<Settings>, method: Method, path_and_query: String, headers: HeaderMap) -> Answer {
    let path_len = path_and_query.find('?').unwrap_or(path_and_query.len());
    let admitted = Admitted { method, path_and_query, path_len, headers, body: Bytes::new() };
    let outcome = serve(&sidecar, admitted).await;
    let response = respond(outcome, &sidecar.fill.shared.names);
    let line = response.headers()[CACHE_STATUS].to_str().unwrap().to_owned();
    let cookies = response.headers().get_all(header::SET_COOKIE).iter();
    let cookies = cookies.map(|cookie| cookie.to_str().unwrap().to_owned()).collect();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    Answer { status, body: String::from_utf8_lossy(&bytes).into_owned(), bytes, headers, line, cookies }
}

/// A caller with its own token.
pub(crate) fn token(value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(value))])
}
