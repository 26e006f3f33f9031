//! Misconfigurations of newcomers, made on a running sidecar: each is named, with what to write
//! instead, by `/status` and by `nearside doctor`, within half a minute; of a healthy set-up
//! nothing of the kind is said.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue};
use nearside::admin::findings::report::{LineState, ReportLine};
use nearside::app::doctor::{DoctorOrder, examine};
use nearside::app::{self, App, Overrides};
use nearside::config::{Config, read};
use nearside::model::time::Clock;
use nearside::tasks::Tasks;
use nearside_lab::REGION_NAMES;
use serde_json::{Value, json};

use crate::stage::Stage;
use crate::world::World;

pub(crate) mod account;
pub(crate) mod service;
mod table;

use self::account::Account;
use self::service::{Behaviour, Publishers, Service};
use self::table::{HEALTHY, MISCONFIGURATIONS};

/// Between two requests of the callers, two heartbeats, two looks.
const EVERY: Duration = Duration::from_millis(300);
/// Between two changes of the record.
const CHANGE_EVERY: Duration = Duration::from_millis(1_200);
/// Longest time until a misconfiguration is named.
const WITHIN: Duration = Duration::from_secs(30);
/// Time for which doctors listen.
const LISTEN: Duration = Duration::from_secs(20);
/// Number of set-ups that run at once.
const AT_ONCE: usize = 16;
/// Longer than any test: the world's own publishers say nothing.
const NEVER: Duration = Duration::from_secs(86_400);

/// A misconfiguration, and what is said of it.
struct Misconfiguration {
    /// Name in a failure's message.
    name: &'static str,
    /// The finding that it makes.
    check: &'static str,
    /// Parts of its text: the cause, then the next step.
    says: [&'static str; 2],
    make: fn(&mut SetUp),
}

/// Set-up that a newcomer has made.
#[derive(Clone)]
struct SetUp {
    /// Settings by name, as the file has them.
    settings: BTreeMap<&'static str, String>,
    /// The regions' topics; what the file says of one, if not that.
    topics: Vec<Option<String>>,
    /// Each region's URL in the file, if not the true one; `{}` stands for that.
    urls: Vec<&'static str>,
    /// Lines of the route.
    route: Vec<String>,
    /// Behaviour of each region.
    behaviours: Vec<Behaviour>,
    /// Change that each region's publisher makes to its honest announcement.
    says: fn(usize, Value) -> Option<Value>,
    /// And of its heartbeat.
    beats: fn(usize, Value) -> Option<Value>,
    /// Whose topic each region publishes on.
    publishes_on: Vec<usize>,
    /// Path and headers of the callers' requests.
    path: &'static str,
    headers: HeaderMap,
    /// Lead of the sidecar's clock, milliseconds.
    ahead_ms: i64,
    /// Whose policies stand before AWS.
    account: Option<Account>,
    /// True if somebody takes queues their policies.
    revokes_policies: bool,
}

impl SetUp {
    fn healthy() -> Self {
        let settings = [
            ("listen.tcp", r#""127.0.0.1:0""#),
            ("admin.listen", r#""127.0.0.1:0""#),
            ("drain.linger", r#""0s""#),
            ("drain.deadline", r#""5s""#),
            ("freshness.audit_period", r#""0s""#),
            ("cache.ttl", r#""6s""#),
            ("freshness.worst_lag", r#""5s""#),
            ("cache.soft_ttl", r#""1s""#),
        ];
        Self {
            settings: settings.map(|(name, value)| (name, value.to_owned())).into(),
            topics: vec![None; 3],
            urls: vec!["{}"; 3],
            route: vec![
                r#"path = "/v1/contexts/{key}/{view}""#.to_owned(),
                r#"records = ["context:{key}"]"#.to_owned(),
            ],
            behaviours: vec![Behaviour::default(); 3],
            says: |_, says| Some(says),
            beats: |_, says| Some(says),
            publishes_on: vec![0, 1, 2],
            path: "/v1/contexts/acme/limits",
            headers: HeaderMap::new(),
            ahead_ms: 0,
            account: None,
            revokes_policies: false,
        }
    }

    fn set(&mut self, name: &'static str, value: &str) {
        self.settings.insert(name, value.to_owned());
    }

    /// Callers send this.
    fn send(&mut self, name: &'static str, value: &'static str) {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }

    fn all(&mut self, change: impl Fn(&mut Behaviour)) {
        self.behaviours.iter_mut().for_each(change);
    }

    fn config(&self, world: &World, service: &Service, topics: &[String], endpoint: &str) -> Config {
        let mut settings = self.settings.clone();
        settings.entry("announcements.endpoint_url").or_insert(format!("\"{endpoint}\""));
        settings.entry("announcements.insecure_sns_signer").or_insert(format!("\"{}\"", world.aws.base));
        let mut text = String::new();
        settings.iter().filter(|(_, value)| !value.is_empty()).for_each(|(name, value)| {
            writeln!(text, "{name} = {value}").unwrap();
        });
        for (place, topic) in topics.iter().enumerate() {
            let (name, url) = (&world.regions[place].name, self.urls[place].replace("{}", &service.url(place)));
            let topic = self.topics[place].as_ref().unwrap_or(topic);
            writeln!(text, "[[service.region]]\nname = \"{name}\"\nurl = \"{url}\"\ntopic = \"{topic}\"").unwrap();
        }
        writeln!(text, "[[service.route]]\n{}", self.route.join("\n")).unwrap();
        read::from_toml(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
    }
}

/// A set-up that runs: its service changes and announces, its callers ask.
struct Running {
    world: World,
    app: App,
    driver: Tasks,
    http: reqwest::Client,
    config: Config,
    clock: Clock,
}

impl Running {
    async fn start(set_up: &SetUp) -> Self {
        let count = set_up.behaviours.len();
        let world = World::builder().regions(count).heartbeat(NEVER).start().await.unwrap();
        let service = Service::start(&set_up.behaviours);
        let topics: Vec<String> =
            (0..count).map(|place| world.aws.topics.create(&world.regions[place].name, "changes").unwrap()).collect();
        let driver = Tasks::new();
        let endpoint = set_up.account.map(|account| account.serve(&world.aws.base, &driver));
        let config = set_up.config(&world, &service, &topics, endpoint.as_deref().unwrap_or(&world.aws.base));
        let clock = Clock::simulated(Clock::System.wall());
        clock.step_wall(set_up.ahead_ms);
        let app = app::start_with(config.clone(), Overrides { clock: clock.clone(), ..Overrides::default() });
        let app = app.await.unwrap();
        let http = client();
        let published_on = set_up.publishes_on.iter().map(|place| topics[*place].clone()).collect();
        let publishers = Arc::new(Publishers::new(published_on, set_up.says, set_up.beats));
        let driven = drive(set_up.clone(), service, publishers, world.aws.clone(), http.clone(), app.tcp);
        let stopping = driver.stopping();
        driver.spawn("driver", async move { stopping.run_until_cancelled(driven).await });
        Self { world, app, driver, http, config, clock }
    }

    async fn status(&self) -> Value {
        status_of(&self.app, &self.http).await
    }

    /// Findings of a doctor that listens meanwhile.
    async fn doctor(&self, set_up: &SetUp) -> Vec<ReportLine> {
        let order =
            DoctorOrder { paths: vec![set_up.path.to_owned()], headers: set_up.headers.clone(), listen: LISTEN };
        let instead = Overrides { clock: self.clock.clone(), ..Overrides::default() };
        examine(self.config.clone(), order, instead).await.unwrap()
    }

    async fn stop(self) {
        self.driver.drain(Duration::from_secs(2)).await;
        self.app.stop().await;
        self.world.stop(Duration::from_secs(2)).await;
    }
}

/// Client with a connection for each request: a kept one may be closed just as it is used again.
fn client() -> reqwest::Client {
    let builder = reqwest::Client::builder().no_proxy().tls_certs_only([]).pool_max_idle_per_host(0);
    builder.timeout(WITHIN).build().unwrap()
}

async fn status_of(app: &App, http: &reqwest::Client) -> Value {
    let reply = http.get(format!("http://{}/status", app.admin)).send().await.unwrap();
    serde_json::from_slice(&reply.bytes().await.unwrap()).unwrap()
}

/// Changes, heartbeats and callers, for as long as it is let.
async fn drive(
    set_up: SetUp,
    service: Service,
    publishers: Arc<Publishers>,
    world: nearside_lab::aws::Aws,
    http: reqwest::Client,
    tcp: Option<std::net::SocketAddr>,
) {
    let (path, url) = (set_up.path, tcp.map(|tcp| format!("http://{tcp}{}", set_up.path)));
    let key = path.split('/').nth(3).unwrap_or_default();
    let mut rounds = 0_u32;
    loop {
        if rounds.is_multiple_of((CHANGE_EVERY.as_millis() / EVERY.as_millis()) as u32) {
            service.change(&world, key, &publishers);
            // One that nobody reads.
            service.change(&world, "unread", &publishers);
        }
        if set_up.revokes_policies {
            revoke_policies(&world);
        }
        publishers.beat(&world, set_up.behaviours.iter().map(|behaviour| behaviour.lag));
        if let Some(url) = &url {
            let _ = http.get(url).headers(set_up.headers.clone()).send().await;
        }
        tokio::time::sleep(EVERY).await;
        rounds += 1;
    }
}

/// Leaves each queue a policy that lets nobody send, as tools do that tidy up accounts.
fn revoke_policies(world: &nearside_lab::aws::Aws) {
    for region in REGION_NAMES {
        for queue in world.queues.names(region, "").iter().filter_map(|name| world.queues.find(region, name)) {
            queue.set_attributes([("Policy".to_owned(), r#"{"Statement":[]}"#.to_owned())].into());
        }
    }
}

fn is_it(finding: &Value, misconfiguration: &Misconfiguration) -> bool {
    let text = ["subject", "saw", "advice"].map(|part| finding[part].as_str().unwrap_or_default()).join(" ");
    finding["check"] == misconfiguration.check && misconfiguration.says.iter().all(|part| text.contains(part))
}

/// Differences from what was due; nothing when both named it.
async fn try_out(misconfiguration: &Misconfiguration) -> Option<String> {
    let mut set_up = SetUp::healthy();
    (misconfiguration.make)(&mut set_up);
    let running = Running::start(&set_up).await;
    let reported = async {
        let mut last = Value::Null;
        let looking = async {
            loop {
                last = running.status().await;
                let found = last["findings"].as_array().cloned().unwrap_or_default();
                if found.iter().any(|finding| is_it(finding, misconfiguration)) {
                    return;
                }
                tokio::time::sleep(EVERY).await;
            }
        };
        let named = tokio::time::timeout(WITHIN, looking).await;
        named.err().map(|_| format!("/status: {:#} {:#} {:#}", last["findings"], last["reasons"], last["regions"]))
    };
    let (reported, lines) = tokio::join!(reported, running.doctor(&set_up));
    running.stop().await;
    let by_doctor = lines.iter().any(|line| line.state == LineState::Wrong && is_it(&json!(line), misconfiguration));
    let missed = reported.or_else(|| (!by_doctor).then(|| format!("doctor: {lines:#?}")));
    missed.map(|missed| format!("{}: not named by {missed}", misconfiguration.name))
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_setup_errors_are_named_quickly() {
    assert!(MISCONFIGURATIONS.len() >= 50, "{}", MISCONFIGURATIONS.len());
    let only = std::env::var("ONLY").unwrap_or_default();
    let tried =
        MISCONFIGURATIONS.iter().filter(|misconfiguration| misconfiguration.name.contains(&only)).map(try_out);
    let missed: Vec<_> = stream::iter(tried).buffer_unordered(AT_ONCE).collect().await;
    let missed: Vec<String> = missed.into_iter().flatten().collect();
    assert!(missed.is_empty(), "{} of {}:\n{}", missed.len(), MISCONFIGURATIONS.len(), missed.join("\n\n"));
}

/// Runs a healthy set-up; what is wrongly said of it.
async fn look(name: &str, make: fn(&mut SetUp)) -> Option<String> {
    let mut set_up = SetUp::healthy();
    make(&mut set_up);
    let running = Running::start(&set_up).await;
    let lines = running.doctor(&set_up).await;
    let status = running.status().await;
    running.stop().await;
    let wrong: Vec<_> = lines.into_iter().filter(|line| line.state == LineState::Wrong).collect();
    let found = status["findings"].as_array().is_none_or(|found| !found.is_empty());
    (found || !wrong.is_empty()).then(|| format!("{name}: {:#} {wrong:#?}", status["findings"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_healthy_setups_report_nothing() {
    assert!(HEALTHY.len() >= 10, "{}", HEALTHY.len());
    let looks = HEALTHY.iter().map(|(name, make)| look(name, *make));
    let said: Vec<_> = stream::iter(looks).buffer_unordered(AT_ONCE).collect().await;
    let said: Vec<String> = said.into_iter().flatten().collect();
    assert!(said.is_empty(), "{}", said.join("\n\n"));
}

/// The world of `nearside-lab dev`, as its story treats it.
#[tokio::test(flavor = "multi_thread")]
async fn demo_environment_reports_nothing() {
    let stage = Stage::builder().start().await;
    stage.live().await;
    for round in 0..20 {
        stage.world.catalogue.put("tenant-1", format!("{{\"round\":{round}}}")).unwrap();
        for key in 1..8 {
            assert_eq!(stage.get(&format!("/v1/contexts/tenant-{key}/limits")).await.status, 200);
        }
        tokio::time::sleep(EVERY).await;
    }
    let status = status_of(&stage.app, &client()).await;
    assert_eq!(status["findings"], json!([]), "{:#}", status["findings"]);
    stage.stop().await;
}
