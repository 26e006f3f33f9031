//! Cost of one change of the grants (R22): requests of many sidecars, with many hot keys, and reads of the
//! regions' tables. All in one process and in virtual time; nodes decide and look as real ones do.
//!
//! `NEARSIDE_SIDECARS=1000` measures a fleet: half a minute of a core, if the build is optimised.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use nearside::access::credentials::Credentials;
use nearside::access::gate::{Gate, GateParts, Turn};
use nearside::access::issuers::Issuers;
use nearside::access::record::{CONFIRMED, Confirmation, DOCUMENT, GRANTS};
use nearside::cache::capacity::Memory;
use nearside::cache::key::HashKey;
use nearside::config::read::from_toml;
use nearside::config::services::{ServiceRole, load};
use nearside::delegate_tables;
use nearside::engine::memory::MemoryStore;
use nearside::engine::{Condition, EngineError, Item, ItemKey, ItemWrite, Table, Tables, bucket};
use nearside::fill::effects::apply_actions;
use nearside::fill::settings::Parts;
use nearside::http::admission::Admitted;
use nearside::http::bodies::ByteBudget;
use nearside::http::exchange::{Failure, Origin, Outgoing, Reply};
use nearside::model::ids::{RegionId, Version};
use nearside::model::stated_grants::{StatedGrants, stated_version};
use nearside::model::time::{Clock, Wall};
use nearside::protocol::event::{Event, Says};
use nearside::region::grants::follow;
use nearside::request::answer::respond;
use nearside::request::serve::serve;
use nearside::request::settings::Settings;
use nearside::tasks::Tasks;
use nearside_lab::issuer::Issuer;
use serde_json::json;
use tempfile::TempDir;

const REGIONS: usize = 3;
const VIEWS: [&str; 2] = ["limits", "profile"];
const KEYS: usize = 100;
/// Sidecars unless more are asked for.
const SIDECARS: usize = 10;
/// Requests of one sidecar because of one change: one for each view and region.
const SHARE: usize = VIEWS.len() * REGIONS;
/// Time by which the document reaches each region after the first.
const LAGS: [Duration; REGIONS] = [Duration::ZERO, Duration::from_millis(700), Duration::from_secs(3)];
/// The calendar at the start, in Unix milliseconds.
const EPOCH: u64 = 1_800_000_000_000;
const ISS: &str = "https://issuer.example";
const AUDIENCE: &str = "https://regions.example";

/// A region's table, with a count of the reads of the document.
struct Counted {
    inner: MemoryStore,
    documents: AtomicUsize,
}

impl Tables for Counted {
    delegate_tables!(inner: write, query, last, scan);

    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.documents.fetch_add(usize::from(key.sort == DOCUMENT), Ordering::Relaxed);
        self.inner.get(table, key)
    }
}

/// The node of each region, and requests to it: all, and those that are conditional.
struct Nodes {
    gates: [Arc<Gate>; REGIONS],
    tables: [Arc<Counted>; REGIONS],
    asked: [AtomicUsize; REGIONS],
    conditional: AtomicUsize,
    clock: Clock,
}

impl Nodes {
    fn new(clock: &Clock, issuer: &Issuer, directory: &TempDir, tasks: &Tasks) -> Self {
        let [keys, file] = ["keys.json", "service.toml"].map(|name| directory.path().join(name));
        std::fs::write(&keys, issuer.jwks()).unwrap();
        let text = format!(
            "[engine]\nkind = \"memory\"\n[[region]]\nname = \"here\"\ntopic = \"arn:aws:sns:eu-west-1:123456789012:views\"\n[access]\nmode = \"enforce\"\n\
             catalogue_audience = \"https://catalogue.example\"\nregion_audience = \"{AUDIENCE}\"\n\
             [[access.issuer]]\niss = \"{ISS}\"\nkeys = \"{}\"\n",
            keys.display()
        );
        std::fs::write(&file, text).unwrap();
        let config = load(ServiceRole::Region, Some(&file), std::iter::empty()).unwrap().0.access;
        let gates = std::array::from_fn(|_| {
            let issuers = Issuers::open(&config, AUDIENCE, clock).unwrap();
            let (clock, tasks) = (clock.clone(), tasks.clone());
            Arc::new(Gate::new(&config, GateParts { issuers, deny: None, names: Vec::new(), clock, tasks }))
        });
        let tables = std::array::from_fn(|_| {
            Arc::new(Counted { inner: MemoryStore::new(clock.clone()), documents: AtomicUsize::new(0) })
        });
        Self { gates, tables, asked: Default::default(), conditional: AtomicUsize::new(0), clock: clock.clone() }
    }

    /// Follows each region's copy, for as long as it is polled.
    async fn follow(&self) {
        let nodes = self.gates.iter().zip(&self.tables);
        join_all(nodes.map(|(gate, table)| follow(&**table, gate, &self.clock))).await;
    }

    /// Has a document arrive at a region.
    async fn arrive(&self, region: usize, version: u64, views: &[&str]) {
        let jira = json!({"who": [{"iss": ISS, "sub": "jira"}], "views": VIEWS});
        let other = json!({"who": [{"iss": ISS, "sub": "other"}], "views": views});
        let document = json!({"format": 1, "consumers": {"jira": jira, "other": other}}).to_string();
        let [key, confirmed] = [DOCUMENT, CONFIRMED].map(|of| ItemKey::new(bucket::partition(GRANTS, of), of));
        let note = Confirmation { at: self.clock.wall(), version }.note();
        let items = [Item::new(key, version).with_body(document), Item::new(confirmed, version).with_note(note)];
        let puts = items.map(|item| ItemWrite::Put(Table::Contexts, item, Condition::Any));
        self.tables[region].write(puts.into()).await.unwrap();
        self.gates[region].note_announced();
    }

    /// Requests to each region since the last call.
    fn asked(&self) -> [usize; REGIONS] {
        self.asked.each_ref().map(|asked| asked.swap(0, Ordering::Relaxed))
    }
}

struct ToNodes(Arc<Nodes>);

impl Origin for ToNodes {
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        _: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        let nodes = self.0.clone();
        // No two attempts are sent at the same moment.
        nodes.clock.suspend(Duration::from_nanos(100));
        let (sent, sent_wall) = (nodes.clock.now(), nodes.clock.wall());
        nodes.asked[region.index()].fetch_add(1, Ordering::Relaxed);
        let is_conditional = request.headers.contains_key(header::IF_NONE_MATCH);
        nodes.conditional.fetch_add(usize::from(is_conditional), Ordering::Relaxed);
        async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let gate = &nodes.gates[region.index()];
            let newest = stated_version(&request.headers, &HeaderName::from_static("x-grants-version"));
            if newest.is_some_and(|newest| newest > gate.version() && gate.may_look_for(newest)) {
                gate.look().await;
            }
            let version = gate.version();
            let (path, credentials) = (&request.path_and_query, Credentials::of(&request.headers, None));
            let ruling = gate.admit_to_view(&mut None, &Method::GET, path, credentials, Turn::First).settled().await;
            let status = match ruling {
                Ok(()) if is_conditional => StatusCode::NOT_MODIFIED,
                Ok(()) => StatusCode::OK,
                Err(_) => StatusCode::FORBIDDEN,
            };
            let headers = HeaderMap::from_iter([(header::ETAG, HeaderValue::from_static("\"1\""))]);
            let body = if status == StatusCode::OK { Bytes::from_static(b"x") } else { Bytes::new() };
            let view = path.rsplit('/').next().unwrap_or_default().into();
            let (versions, grants) = (vec![Version(1)], Some(StatedGrants { version, view }));
            let received = nodes.clock.now();
            Ok(Reply { region, status, headers, body, versions, sent, sent_wall, received, grants })
        }
        .boxed()
    }
}

fn sidecar(nodes: &Arc<Nodes>, token: &std::path::Path, number: usize) -> Arc<Settings> {
    let mut text = String::from("service.name = \"contexts\"\n");
    for region in 0..REGIONS {
        text += &format!("[[service.region]]\nname = \"r{region}\"\nurl = \"http://127.0.0.1:1/{region}\"\n");
    }
    for view in VIEWS {
        text += &format!(
            "[[service.route]]\npath = \"/v1/contexts/{{key}}/{view}\"\nrecords = [\"{view}:{{key}}\"]\n\
             identity = \"sidecar\"\ncredentials = {{ file = \"{}\", prefix = \"Bearer \" }}\n",
            token.display()
        );
    }
    text += "[announcements]\ntransport = \"off\"\n[cache]\nttl = \"1h\"\nsoft_ttl = \"30m\"\n";
    let parts = Parts {
        clock: nodes.clock.clone(),
        origin: Arc::new(ToNodes(nodes.clone())),
        tasks: Tasks::new(),
        hash_key: HashKey::fixed(number as u64),
        floor_slots: 512,
        memory: Memory::AMPLE,
        bodies: ByteBudget::new(nearside::http::limits::BODIES_BYTES),
    };
    Settings::new(from_toml(&text).unwrap(), parts).unwrap()
}

fn hear(sidecar: &Arc<Settings>, region: usize, version: u64) {
    let shared = &sidecar.fill.shared;
    let (published, says) = (shared.clock.wall(), Says::Grants(Some(version)));
    let event = Event::Message { region: RegionId(region as u8), published, queued: None, numbered: None, says };
    apply_actions(&sidecar.fill, shared.freshness.step(shared.clock.now(), published, event));
}

/// Every hot key of every view, read at every sidecar at once.
async fn read_all(sidecars: &[Arc<Settings>]) {
    let reads = sidecars.iter().flat_map(|sidecar| {
        (0..KEYS).flat_map(move |key| VIEWS.map(move |view| (sidecar, format!("/v1/contexts/k{key}/{view}"))))
    });
    let reads = reads.map(async |(sidecar, path_and_query)| {
        let path_len = path_and_query.len();
        let headers = HeaderMap::new();
        let admitted = Admitted { method: Method::GET, path_and_query, path_len, headers, body: Bytes::new() };
        respond(serve(sidecar, admitted).await, &sidecar.fill.shared.names).status()
    });
    let statuses = join_all(reads).await;
    assert!(statuses.iter().all(|status| *status == StatusCode::OK), "{:?}", statuses.first());
}

/// Two documents that mean the same to the sidecars: each is a change.
async fn change(nodes: &Arc<Nodes>, sidecars: &[Arc<Settings>]) -> [usize; REGIONS] {
    for sidecar in sidecars {
        hear(sidecar, 0, EPOCH);
    }
    read_all(sidecars).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    nodes.asked();
    read_all(sidecars).await;
    assert_eq!(nodes.asked(), [0; REGIONS], "what is stored is served without a change");
    nodes.conditional.store(0, Ordering::Relaxed);
    nodes.tables.iter().for_each(|table| table.documents.store(0, Ordering::Relaxed));
    let version = nodes.clock.wall().as_millis();
    let arriving = async {
        let began = nodes.clock.now();
        for (region, lag) in LAGS.into_iter().enumerate() {
            tokio::time::sleep(lag.saturating_sub(nodes.clock.now() - began)).await;
            nodes.arrive(region, version, &["limits"]).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            sidecars.iter().for_each(|sidecar| hear(sidecar, region, version));
        }
    };
    let reading = async {
        for wait in [20, 200, 1_000, 3_000, 25_000] {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            read_all(sidecars).await;
        }
    };
    tokio::join!(arriving, reading);
    nodes.asked()
}

#[tokio::test(start_paused = true)]
async fn change_costs_each_sidecar_its_share() {
    let count = std::env::var("NEARSIDE_SIDECARS").ok().and_then(|count| count.parse().ok()).unwrap_or(SIDECARS);
    let (clock, issuer, tasks) = (Clock::simulated(Wall::from_millis(EPOCH)), Issuer::new(ISS, "one"), Tasks::new());
    let directory = tempfile::tempdir().unwrap();
    let nodes = Arc::new(Nodes::new(&clock, &issuer, &directory, &tasks));
    for region in 0..REGIONS {
        nodes.arrive(region, EPOCH, &[]).await;
    }
    let token = directory.path().join("token");
    std::fs::write(&token, issuer.token("jira", AUDIENCE, EPOCH / 1_000)).unwrap();
    let sidecars: Vec<_> = (0..count).map(|number| sidecar(&nodes, &token, number)).collect();
    let asked = tokio::select! {
        () = nodes.follow() => unreachable!("it never ends"),
        asked = change(&nodes, &sidecars) => asked,
    };
    let documents = nodes.tables.each_ref().map(|table| table.documents.load(Ordering::Relaxed));
    println!("{count} sidecars: {asked:?} requests to the regions, {documents:?} reads of the document");
    assert_eq!(asked, [count * SHARE / REGIONS; REGIONS]);
    assert_eq!(nodes.conditional.load(Ordering::Relaxed), count * SHARE);
    // Once because of the announcement; where it came late, once more for sidecars that knew of it.
    assert_eq!(documents, [1, 2, 2]);
    for sidecar in sidecars {
        assert_eq!(sidecar.fill.shared.tasks.drain(Duration::from_secs(60)).await, Vec::<&str>::new());
    }
}
