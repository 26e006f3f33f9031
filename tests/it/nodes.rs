//! A sidecar in front of two regions' nodes, over real sockets: it reads what was announced, and a
//! change that all hear of does not become a storm on the regions' tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use nearside::app::services::region::start_node;
use nearside::app::{self, App, Overrides};
use nearside::engine::memory::MemoryStore;
use nearside::engine::{
    Condition, EngineError, Item, ItemKey, ItemWrite, Page, ScanSegment, Table, Tables, WriteError, bucket,
};
use nearside::fill::effects::apply_actions;
use nearside::model::ids::{RegionId, Version};
use nearside::model::time::Clock;
use nearside::protocol::event::{Event, Says};
use nearside::region::node::{self, NodeSettings};
use nearside::request::settings::Settings;

/// Sidecars ask for one key at once.
const READERS: usize = 200;

/// A region's tables, with a count of the reads.
struct Counted(MemoryStore, AtomicUsize);

impl Tables for Counted {
    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.get(table, key)
    }

    fn write(&self, writes: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>> {
        self.0.write(writes)
    }

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        self.0.query(table, partition, after, limit)
    }

    fn last<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        through: &'a str,
    ) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.0.last(table, partition, through)
    }

    fn scan(
        &self,
        table: Table,
        segment: ScanSegment,
        after: Option<ItemKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, EngineError>> {
        self.0.scan(table, segment, after, limit)
    }
}

/// A node and its table.
struct Region {
    tables: Arc<Counted>,
    node: App,
}

impl Region {
    async fn start(name: &str) -> Self {
        Self::start_with(name, |_| {}).await
    }

    async fn start_with(name: &str, change: impl FnOnce(&mut nearside::config::Config)) -> Self {
        let settings = NodeSettings {
            region: name.to_owned(),
            topic: None,
            listen: ([127, 0, 0, 1], 0).into(),
            hosts: Vec::new(),
            admin: ([127, 0, 0, 1], 0).into(),
            views: vec!["limits".to_owned()],
        };
        let tables = Arc::new(Counted(MemoryStore::new(Clock::default()), AtomicUsize::new(0)));
        let mut config = node::config(&settings).unwrap();
        config.drain.linger = Duration::ZERO;
        change(&mut config);
        let node = start_node(config, tables.clone(), Arc::new(true.into()), Overrides::default()).await.unwrap();
        Self { tables, node }
    }

    async fn put(&self, version: u64) {
        let key = ItemKey::new(bucket::partition("limits", "acme"), "acme");
        let item = Item::new(key, version).with_body(format!("{{\"seats\":{version}}}"));
        self.tables.0.write(vec![ItemWrite::Put(Table::Contexts, item, Condition::Any)]).await.unwrap();
    }

    fn reads(&self) -> usize {
        self.tables.1.swap(0, Ordering::Relaxed)
    }
}

/// As if a topic had said it.
fn hear(app: &App, region: u8, version: u64) {
    let settings = &app.sidecar;
    let id = settings.fill.shared.keyed_hashes.record("limits", "acme").unwrap();
    let says = Says::Changed(id, Some(Version(version)));
    let (region, published) = (RegionId(region), settings.fill.shared.clock.wall());
    let event = Event::Message { region, published, queued: None, numbered: None, says };
    apply_actions(
        &settings.fill,
        settings.fill.shared.freshness.step(
            settings.fill.shared.clock.now(),
            settings.fill.shared.clock.wall(),
            event,
        ),
    );
}

async fn sidecar(regions: &[&Region]) -> App {
    sidecar_with(regions, "").await
}

async fn sidecar_with(regions: &[&Region], route: &str) -> App {
    let mut text = "[service]\nname = \"contexts\"\n[listen]\ntcp = \"127.0.0.1:0\"\n[admin]\nlisten = \
                    \"127.0.0.1:0\"\n[announcements]\ntransport = \"off\"\n[drain]\nlinger = \"0s\"\n\
                    [[service.route]]\npath = \"/v1/contexts/{key}/limits\"\nrecords = [\"limits:{key}\"]\n"
        .to_owned();
    text += route;
    for (place, region) in regions.iter().enumerate() {
        let port = region.node.tcp.unwrap();
        text += &format!("[[service.region]]\nname = \"r{place}\"\nurl = \"http://{port}\"\n");
    }
    let config = nearside::config::read::from_toml(&text).unwrap();
    app::start_with(config, Overrides::default()).await.unwrap()
}

async fn read(client: &reqwest::Client, app: &App) -> (u16, String, String) {
    let url = format!("http://{}/v1/contexts/acme/limits", app.tcp.unwrap());
    let response = client.get(url).send().await.unwrap();
    // The node's own member comes first.
    let lines = response.headers().get_all("cache-status");
    let own = lines.iter().next_back().unwrap().to_str().unwrap().to_owned();
    (response.status().as_u16(), response.text().await.unwrap(), own)
}

#[tokio::test]
async fn change_reaches_sidecars_for_few_reads() {
    let (one, two) = (Region::start("r0").await, Region::start("r1").await);
    one.put(5).await;
    two.put(5).await;
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    // Each of them is a process of its own elsewhere.
    let mut sidecars = Vec::new();
    for _ in 0..4 {
        sidecars.push(sidecar(&[&one, &two]).await);
    }
    for app in &sidecars {
        let (status, body, _) = read(&client, app).await;
        assert_eq!((status, body.as_str()), (200, "{\"seats\":5}"));
    }
    assert!(one.reads() <= 1 && two.reads() <= 1, "the nodes have it, for all readers");
    // The first region ingests and announces; the other is behind, its node has received nothing.
    one.put(6).await;
    hear(&one.node, 0, 6);
    sidecars.iter().for_each(|app| hear(app, 0, 6));
    let readers = (0..READERS).map(|reader| read(&client, &sidecars[reader % sidecars.len()]));
    for (status, body, line) in join_all(readers).await {
        assert_eq!((status, body.as_str()), (200, "{\"seats\":6}"), "{line}");
        assert!(!line.contains("below-floor"), "{line}");
    }
    let reads = (one.reads(), two.reads());
    assert!((1..=2).contains(&reads.0), "one for all: {reads:?}");
    // A node that is behind reads again for each who asks for more than it has, one at a time.
    assert!(reads.1 <= 2 * sidecars.len(), "{reads:?}");
    for app in sidecars.into_iter().chain([one.node, two.node]) {
        app.stop().await;
    }
}

/// All keys of one batch, and what each node was asked for them.
#[tokio::test]
async fn batch_is_one_request_per_node() {
    let (one, two) = (Region::start("r0").await, Region::start("r1").await);
    let regions = [&one, &two];
    for region in regions {
        for key in ["acme", "globex", "a/b", "\u{fc}"] {
            let item = Item::new(ItemKey::new(bucket::partition("limits", key), key), 5)
                .with_body("{\"seats\": 5.0}".to_owned());
            region.tables.0.write(vec![ItemWrite::Put(Table::Contexts, item, Condition::Any)]).await.unwrap();
        }
    }
    let app = sidecar_with(&regions, "batch = \"/v1/many\"\nupstream_batch = \"/v1/batch/limits\"\n").await;
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let base = format!("http://{}/v1", app.tcp.unwrap());
    let post = client.post(format!("{base}/many")).header("content-type", "application/json");
    let post = post.body("{\"keys\":[\"acme\",\"nobody\",\"a/b\",\"\u{fc}\",\"acme\"]}");
    let answer = post.send().await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    let text = answer.text().await.unwrap();
    assert_eq!(text.matches("\"version\":5,\"etag\":\"\\\"5\\\"\"").count(), 4, "{text}");
    assert_eq!(text.matches("\"body\":{\"seats\": 5.0}").count(), 4, "{text}");
    assert!(text.contains("{\"key\":\"nobody\",\"status\":404,"), "{text}");
    for region in regions {
        let page = region.node.sidecar.fill.shared.metrics.render(&Default::default());
        assert!(page.contains("nearside_batches_total 1\n"), "one request to each node");
        assert_eq!(region.reads(), 4, "each key once");
    }
    // What came in a batch is what a GET brings: the node's own lines too.
    let mut heads = Vec::new();
    for key in ["acme", "globex"] {
        let answer = client.get(format!("{base}/contexts/{key}/limits")).send().await.unwrap();
        let mut lines: Vec<_> = answer.headers().iter().map(|(name, _)| name.as_str().to_owned()).collect();
        lines.sort();
        heads.push((lines, answer.text().await.unwrap()));
    }
    heads[0].0.retain(|name| name != "age");
    heads[1].0.retain(|name| name != "age");
    assert_eq!(heads[0], heads[1], "filled by a batch, and by a GET");
    assert!(one.reads() <= 1 && two.reads() <= 1, "the second was not stored");
}

/// A page's count of this kind of work on bodies.
fn work(settings: &Settings, kind: &str) -> u64 {
    let page = settings.fill.shared.metrics.render(&Default::default());
    let name = format!("nearside_payload_work_seconds_count{{work=\"{kind}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

/// One node compresses, the other does not, and a caller of the sidecar sees nothing of it. Many
/// records are compressed together where all callers may read them, and nowhere else.
#[tokio::test]
async fn nodes_compress_for_asking_sidecars() {
    let (one, two) = (Region::start_with("r0", node::compress).await, Region::start("r1").await);
    let regions = [&one, &two];
    let view = format!("{{\"seats\": [{}5.0]}}", "5.0,".repeat(2000));
    for region in regions {
        for key in ["acme", "globex", "initech"] {
            let item = Item::new(ItemKey::new(bucket::partition("limits", key), key), 5).with_body(view.clone());
            region.tables.0.write(vec![ItemWrite::Put(Table::Contexts, item, Condition::Any)]).await.unwrap();
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "secret").unwrap();
    let settings = "batch = \"/v1/many\"\nupstream_batch = \"/v1/batch/limits\"\ncompression = \"zstd\"\n";
    let shared = format!("{settings}identity = \"sidecar\"\ncredentials = {{ file = \"{}\" }}\n", token.display());
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    for (settings, batches) in [(settings, 0), (shared.as_str(), 1)] {
        let app = sidecar_with(&regions, settings).await;
        let settings = app.sidecar.clone();
        let url = format!("http://{}/v1/contexts/acme/limits", app.tcp.unwrap());
        let first = client.get(&url).header("accept-encoding", "zstd").send().await.unwrap();
        assert_eq!(first.headers()["etag"], "\"5\"");
        assert_eq!(first.headers().get("content-encoding"), None);
        assert!(first.text().await.unwrap() == view);
        let known = client.get(&url).header("if-none-match", "\"5\"").send().await.unwrap();
        assert_eq!(known.status().as_u16(), 304);
        // The loser of the race is read to its end.
        while work(&settings, "decompress-zstd") < 1 {
            tokio::task::yield_now().await;
        }
        let many = client.post(format!("http://{}/v1/many", app.tcp.unwrap())).header("accept-encoding", "zstd");
        let many = many.header("content-type", "application/json");
        let many = many.body("{\"keys\":[\"globex\",\"initech\",\"acme\"]}").send().await.unwrap();
        assert_eq!(many.headers().get("content-encoding"), None, "a sidecar compresses nothing");
        assert_eq!(many.text().await.unwrap().matches(&view).count(), 3);
        while work(&settings, "decompress-zstd") < 1 + batches {
            tokio::task::yield_now().await;
        }
        app.stop().await;
        assert_eq!(work(&settings, "decompress-zstd"), 1 + batches, "one node compresses, single records or all");
    }
    for region in [one, two] {
        region.node.stop().await;
    }
}
