//! Background fills over a whole sidecar with scripted regions, in simulated time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::*;
use crate::app::{self, App, Overrides};
use crate::config::read;
use crate::fill::effects::apply_actions;
use crate::http::admission::Admitted;
use crate::http::exchange::{Failure, Origin, Outgoing, Reply};
use crate::model::ids::{RegionId, Version};
use crate::model::time::{Clock, Wall};
use crate::protocol::event::{Event, Says, Scope};
use crate::request::answer::Outcome;
use crate::shape::shown::Shown;

const REGIONS: usize = 3;
const SECOND: Duration = Duration::from_secs(1);

/// Regions that answer at once, each with one version for every record.
struct Script {
    clock: Clock,
    versions: [AtomicU64; REGIONS],
    attempts: AtomicUsize,
}

impl Origin for Script {
    fn ask(&self, region: RegionId, _: Arc<Outgoing>, _: Duration) -> BoxFuture<'static, Result<Reply, Failure>> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        let version = self.versions[region.index()].load(Ordering::SeqCst);
        let stated = (HeaderName::from_static("x-record-version"), HeaderValue::from(version));
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let reply = Reply {
            region,
            status: StatusCode::OK,
            headers: HeaderMap::from_iter([stated]),
            body: Bytes::from(version.to_string()),
            versions: vec![Version(version)],
            sent: now,
            sent_wall: wall,
            received: now,
            grants: None,
        };
        async move { Ok(reply) }.boxed()
    }
}

struct World {
    app: App,
    script: Arc<Script>,
}

impl World {
    /// Three regions at version 1, the first one's topic LIVE.
    async fn start() -> Self {
        let clock = Clock::simulated(Wall::from_millis(1_800_000_000_000));
        let versions = [const { AtomicU64::new(1) }; REGIONS];
        let script = Arc::new(Script { clock: clock.clone(), versions, attempts: AtomicUsize::new(0) });
        let mut text = String::from("service.name = \"contexts\"\n");
        for name in ["a", "b", "c"] {
            text += &format!("[[service.region]]\nname = \"{name}\"\nurl = \"http://127.0.0.1:1/{name}\"\n");
        }
        text += "[[service.route]]\npath = \"/v1/contexts/{key}\"\nrecords = [\"context:{key}\"]\n\
                 [listen]\ntcp = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
                 [announcements]\ntransport = \"off\"\n[freshness]\nworst_lag = \"10m\"\n[drain]\nlinger = \"0s\"\ndeadline = \"5s\"\n";
        let origin = Some(script.clone() as Arc<dyn Origin>);
        let app =
            app::start_with(read::from_toml(&text).unwrap(), Overrides { clock, origin, ..Overrides::default() })
                .await;
        let world = Self { app: app.unwrap(), script };
        world.step(Event::Subscribed(RegionId(0)));
        world.hear(RegionId(0), Says::Unrouted);
        world
    }

    fn sidecar(&self) -> &Arc<crate::request::settings::Settings> {
        &self.app.sidecar
    }

    fn step(&self, event: Event) {
        let sidecar = self.sidecar();
        let actions = sidecar.fill.shared.freshness.step(
            sidecar.fill.shared.clock.now(),
            sidecar.fill.shared.clock.wall(),
            event,
        );
        apply_actions(&sidecar.fill, actions);
    }

    fn hear(&self, region: RegionId, says: Says) {
        let published = self.sidecar().fill.shared.clock.wall();
        self.step(Event::Message { region, published, queued: None, numbered: None, says });
    }

    fn record(&self, key: &str) -> RecordId {
        self.sidecar().fill.shared.keyed_hashes.record("context", key).unwrap()
    }

    fn announce(&self, region: u8, key: &str, version: u64) {
        self.hear(RegionId(region), Says::Changed(self.record(key), Some(Version(version))));
    }

    fn ingest(&self, versions: [u64; REGIONS]) {
        for (cell, version) in self.script.versions.iter().zip(versions) {
            cell.store(version, Ordering::SeqCst);
        }
    }

    /// Attempts since the last call.
    fn attempts(&self) -> usize {
        self.script.attempts.swap(0, Ordering::SeqCst)
    }

    async fn read(&self, key: &str) -> Shown {
        let path_and_query = format!("/v1/contexts/{key}");
        let path_len = path_and_query.len();
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        let admitted = Admitted { method: Method::GET, path_and_query, path_len, headers, body };
        match crate::request::serve::serve(self.sidecar(), admitted).await {
            Outcome::Shown(shown) => shown,
            _ => panic!("a representation is shown"),
        }
    }

    /// Lets time pass as in a healthy world: the first region's topic sends a heartbeat every
    /// second.
    async fn pass(&self, span: Duration) {
        let until = self.sidecar().fill.shared.clock.now() + span;
        while self.sidecar().fill.shared.clock.now() < until {
            let left = until - self.sidecar().fill.shared.clock.now();
            tokio::time::sleep(left.min(SECOND)).await;
            self.hear(RegionId(0), Says::Unrouted);
        }
    }

    fn rechecks(&self) -> usize {
        self.sidecar().fill.shared.tasks.running().get("recheck").copied().unwrap_or_default()
    }

    async fn stop(self) {
        assert_eq!(self.app.stop().await.late, Vec::<&str>::new());
    }
}

fn version(shown: &Shown) -> Vec<u8> {
    shown.entry.body().to_vec()
}

#[tokio::test(start_paused = true)]
async fn repeated_announcements_cause_one_refetch() {
    let world = World::start().await;
    world.read("x").await;
    assert_eq!(world.attempts(), REGIONS);
    world.ingest([2; REGIONS]);
    for region in 0..3 {
        world.announce(region, "x", 2);
        world.pass(SECOND).await;
    }
    assert_eq!(world.attempts(), REGIONS, "one race");
    let shown = world.read("x").await;
    assert_eq!((version(&shown), shown.line.hit, world.attempts()), (b"2".to_vec(), true, 0));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn already_served_version_is_not_refetched() {
    let world = World::start().await;
    world.ingest([2; REGIONS]);
    assert_eq!(version(&world.read("x").await), b"2");
    world.attempts();
    for region in 0..3 {
        world.announce(region, "x", 2);
    }
    world.pass(SECOND).await;
    assert_eq!(world.attempts(), 0, "it is as fresh as it was");
    assert!(world.read("x").await.line.hit);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn faster_reader_spares_refetch() {
    let world = World::start().await;
    world.read("x").await;
    world.attempts();
    world.ingest([2; REGIONS]);
    world.announce(0, "x", 2);
    assert_eq!(version(&world.read("x").await), b"2");
    world.pass(SECOND).await;
    assert_eq!(world.attempts(), REGIONS, "the reader's race alone");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unread_entries_wait_for_reader() {
    let world = World::start().await;
    world.read("x").await;
    world.pass(62 * SECOND).await;
    world.attempts();
    world.ingest([2; REGIONS]);
    world.announce(0, "x", 2);
    world.pass(SECOND).await;
    assert_eq!(world.attempts(), 0);
    assert_eq!(version(&world.read("x").await), b"2");
    world.stop().await;
}

/// R18.
#[tokio::test(start_paused = true)]
async fn full_reload_refetches_within_budget() {
    let world = World::start().await;
    for key in 0..2 * limits::PENDING_REFETCHES {
        world.read(&key.to_string()).await;
    }
    // The budget is a share of what readers asked for lately, which is nothing.
    world.pass(3 * SECOND).await;
    world.attempts();
    world.ingest([2; REGIONS]);
    for _ in 0..5 {
        world.hear(RegionId(0), Says::Reload(Scope::All));
    }
    let waiting = world.sidecar().fill.shared.tasks.running()["refetch"];
    assert!(waiting <= limits::PENDING_REFETCHES, "{waiting} wait");
    assert_eq!(version(&world.read("7").await), b"2", "a reader waits for nobody");
    world.pass(SECOND).await;
    let attempts = world.attempts() - REGIONS;
    // The jitter may cross the end of a second, and each second has a budget of its own.
    let budget = 2 * REGIONS * crate::race::limits::BACKGROUND_ATTEMPTS_PER_SECOND as usize;
    assert!(attempts > 0 && attempts <= budget, "{attempts} attempts");
    assert_eq!(world.sidecar().fill.shared.fills.pending.refetches.available_permits(), limits::PENDING_REFETCHES);
    world.stop().await;
}

/// R5, promise 3: rechecks come after 50 ms, doubling to a minute. When they are rarer than the
/// soft TTL, readers ask too, and that must not restart the rechecks.
#[tokio::test(start_paused = true)]
async fn provisional_entry_has_one_recheck() {
    let world = World::start().await;
    world.ingest([2, 2, 1]);
    let mut races = Vec::new();
    for _ in 0..100 {
        world.read("x").await;
        assert!(world.rechecks() <= 1, "{} at once", world.rechecks());
        world.pass(SECOND).await;
        races.push(world.attempts() / REGIONS);
    }
    // The recheck at 51 s, a reader 30 s later; the next recheck would come at 111 s.
    assert_eq!(races[52..].iter().sum::<usize>(), 1, "{races:?}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn announcement_starts_rechecks_at_once() {
    let world = World::start().await;
    world.ingest([2, 2, 1]);
    world.read("x").await;
    for _ in 0..20 {
        world.pass(SECOND).await;
        world.read("x").await;
    }
    world.ingest([3, 3, 1]);
    world.announce(0, "x", 3);
    world.pass(Duration::from_millis(30)).await;
    assert_eq!(version(&world.read("x").await), b"3");
    world.attempts();
    world.ingest([3; REGIONS]);
    world.pass(Duration::from_millis(100)).await;
    assert_eq!(world.attempts(), REGIONS, "the older rechecks would have waited for seconds");
    world.pass(SECOND).await;
    assert_eq!((world.attempts(), world.rechecks()), (0, 0), "all agree: settled");
    world.stop().await;
}
