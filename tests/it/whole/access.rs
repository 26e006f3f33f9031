//! Callers with tokens, at every port of the services and behind a sidecar: who gets what, and for how
//! long after a grant was withdrawn.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nearside::app::services::{
    Contents, Engine, RegionDuties, RunningService, ServiceOverrides, ServiceProcess, start,
};
use nearside::app::{self, App, Overrides};
use nearside::aws::clients::Sdk;
use nearside::config::services::{ServiceRole, load};
use nearside::model::time::Clock;
use nearside_lab::issuer::Issuer;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use url::Url;

use super::super::program::{self, TIMEOUT, path, read, text};
use super::certified::Certified;
use super::deployment::{service_file, sidecar_settings};
use super::percentile;
use crate::world::World;

const REGION: &str = "eu-west-1";
pub(super) const ISS: &str = "https://issuer.example";
pub(super) const CATALOGUE: &str = "https://catalogue.example";
pub(super) const REGIONS: &str = "https://regions.example";

/// Catalogue, views and a region that enforce grants.
pub(super) struct Guarded {
    pub(super) services: Vec<RunningService>,
    world: World,
    topic: String,
    pub(super) issuer: Issuer,
    pub(super) client: reqwest::Client,
    pub(super) catalogue: String,
    pub(super) node: String,
    pub(super) directory: TempDir,
    /// `http` or `https`.
    scheme: &'static str,
    /// CA certificates that a sidecar trusts.
    ca_file: Option<PathBuf>,
}

/// Ports for operators that are not for this machine alone, and who else may write grants.
#[derive(Clone, Copy, Default)]
pub(super) struct Reached<'l> {
    /// Address of every admin port; an ingester's is among them then.
    pub(super) at: Option<&'l str>,
    /// Lines of `[access]`.
    pub(super) access: &'l str,
    /// Tables behind it.
    pub(super) admins: &'l str,
}

#[derive(Debug, PartialEq)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// But for the date.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn word(&self) -> String {
        let document: Value = serde_json::from_str(&self.body).unwrap_or_default();
        document["type"].as_str().unwrap_or_default().rsplit(':').next().unwrap_or_default().to_owned()
    }

    pub(super) fn line(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn is_hit(&self) -> bool {
        self.line("cache-status").is_some_and(|line| line.contains("; hit"))
    }
}

pub(super) fn now() -> u64 {
    Clock::System.wall().as_millis() / 1_000
}

pub(super) fn keys_file(directory: &Path) -> PathBuf {
    directory.join("keys.json")
}

impl Guarded {
    async fn start(mode: &str) -> Self {
        Self::start_with(mode, None, "").await
    }

    /// All ports of which speak TLS, with a record that `jira` reads.
    pub(super) async fn over_tls(certified: &Certified) -> Self {
        record(Self::start_with("enforce", Some(certified), "").await).await
    }

    /// With TLS by `certified`, and these lines of `[access]`.
    pub(super) async fn start_with(mode: &str, certified: Option<&Certified>, own: &str) -> Self {
        Self::start_as(mode, certified, Reached { access: own, ..Reached::default() }).await
    }

    pub(super) async fn start_as(mode: &str, certified: Option<&Certified>, reached: Reached<'_>) -> Self {
        let (directory, issuer) = (tempfile::tempdir().unwrap(), Issuer::new(ISS, "one"));
        let world = World::builder().regions(1).start().await.unwrap();
        let topic = world.aws.topics.create(REGION, "views").unwrap().to_owned();
        let aws = Url::parse(&world.aws.base).unwrap();
        std::fs::write(keys_file(directory.path()), issuer.jwks()).unwrap();
        let file = service_file(directory.path(), "kind = \"memory\"", &[(REGION, topic.as_str())]);
        let access = format!(
            "[access]\nmode = \"{mode}\"\ncatalogue_audience = \"{CATALOGUE}\"\nregion_audience = \"{REGIONS}\"\n{}\n\
             [[access.issuer]]\niss = \"{ISS}\"\nkeys = \"{}\"\n[[access.admin]]\niss = \"{ISS}\"\nsub = \"admin\"\n{}",
            reached.access,
            keys_file(directory.path()).display(),
            reached.admins
        );
        let tls = certified.map(Certified::setting).unwrap_or_default();
        let mut text = std::fs::read_to_string(&file).unwrap() + &access;
        for section in ["[catalogue]\n", "[views]\n", "[[region]]\n"] {
            // The views service has no callers.
            let without = tls.split_once(", client_ca").map(|(before, _)| format!("{before} }}\n"));
            let tls = without.filter(|_| section == "[views]\n").unwrap_or_else(|| tls.clone());
            text = text.replacen(section, &format!("{section}{tls}"), 1);
        }
        if let Some(admin) = reached.at {
            text = text.replace("admin = \"127.0.0.1:0\"", &format!("admin = \"{admin}\""));
        }
        std::fs::write(&file, text).unwrap();
        let (config, origins) = load(ServiceRole::Region, Some(&file), std::iter::empty()).unwrap();
        let engine = Engine::open(&config.engine, Sdk::new(Some(aws.clone())), &Clock::System).await.unwrap();
        let both = RegionDuties { ingest: true, node: true };
        let region = Box::new(config.regions[0].clone());
        let node = ServiceProcess::Region(region.clone(), both);
        let mut processes = vec![ServiceProcess::Catalogue, ServiceProcess::Views, node];
        if reached.at.is_some() {
            processes.push(ServiceProcess::Region(region, RegionDuties { node: false, ..both }));
        }
        let mut services = Vec::new();
        for process in processes {
            let contents = Contents::read(&config).unwrap();
            let (engine, topics) = (Some(engine.clone()), Some(aws.clone()));
            let instead = ServiceOverrides { engine, topics, ..ServiceOverrides::default() };
            services.push(Box::pin(start(process, config.clone(), contents, &origins, instead)).await.unwrap());
        }
        let [catalogue, node] = [0, 2].map(|at: usize| services[at].listen.unwrap().to_string());
        let plain = || reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let client = certified.map_or_else(plain, |certified| certified.client(true));
        let scheme = if certified.is_some() { "https" } else { "http" };
        let ca_file = certified.map(|certified| certified.path("ca.pem"));
        Self { services, world, topic, issuer, client, catalogue, node, directory, scheme, ca_file }
    }

    /// A token of this subject, for the port at this address.
    pub(super) fn token(&self, sub: &str, address: &str) -> String {
        self.issuer.token(sub, if address == self.catalogue { CATALOGUE } else { REGIONS }, now())
    }

    /// A page at a port of ours.
    pub(super) async fn get(&self, address: &str, path: &str) -> Reply {
        self.send("GET", address, path, None, "").await
    }

    pub(super) async fn send(
        &self,
        method: &str,
        address: &str,
        path: &str,
        token: Option<&str>,
        body: &str,
    ) -> Reply {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.client.request(method, format!("{}://{address}{path}", self.scheme));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if !body.is_empty() {
            request = request.header("content-type", "application/json").body(body.to_owned());
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let lines = answer.headers().iter().filter(|(name, _)| *name != "date");
        let headers = lines.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
        Reply { status, headers, body: answer.text().await.unwrap() }
    }

    /// As this subject.
    pub(super) async fn ask(&self, sub: &str, method: &str, address: &str, path: &str, body: &str) -> Reply {
        let token = self.token(sub, address);
        self.send(method, address, path, Some(&token), body).await
    }

    pub(super) async fn grant(&self, consumers: &Value, stopped: &[&str]) {
        let document = json!({"format": 1, "stopped": stopped, "consumers": consumers}).to_string();
        let reply = self.ask("admin", "PUT", &self.catalogue, "/v1/grants", &document).await;
        assert!(matches!(reply.status, 200 | 201), "{reply:?}");
    }

    /// Asks until the answer has this status; the time that took.
    pub(super) async fn until(&self, sub: &str, address: &str, path: &str, status: u16) -> Duration {
        let began = Clock::System.now();
        let asking = async { while self.ask(sub, "GET", address, path, "").await.status != status {} };
        tokio::time::timeout(TIMEOUT, asking).await.unwrap_or_else(|_| panic!("{path} never was {status}"));
        Clock::System.now() - began
    }

    /// Asks a sidecar until it refuses, or answers from its store with 200; the time that took.
    async fn until_at(&self, sidecar: &str, status: u16) -> Duration {
        let began = Clock::System.now();
        let asking = async {
            loop {
                let reply = self.send("GET", sidecar, VIEW, None, "").await;
                assert_eq!(reply.line("x-grants-version"), None, "{reply:?}");
                if reply.status == status && (status != 200 || reply.is_hit()) {
                    return;
                }
            }
        };
        tokio::time::timeout(TIMEOUT, asking).await.unwrap();
        Clock::System.now() - began
    }

    /// A sidecar of the region whose own credentials are those of `sub`.
    pub(super) async fn sidecar(&self, sub: &str) -> App {
        let file = self.directory.path().join(format!("{sub}.token"));
        std::fs::write(&file, self.token(sub, &self.node)).unwrap();
        let own = format!(
            "identity = \"sidecar\"\ncredentials = {{ file = \"{}\", prefix = \"Bearer \" }}\n",
            file.display()
        );
        self.sidecar_with(&own, "").await
    }

    /// A sidecar of the region with these lines of its route, and of the region's `tls`.
    pub(super) async fn sidecar_with(&self, own: &str, tls: &str) -> App {
        let mut settings =
            sidecar_settings(&self.world.aws.base, &[(REGION, self.topic.as_str(), self.node.clone())]);
        if let Some(file) = &self.ca_file {
            settings = settings.replace("url = \"http:", "url = \"https:");
            settings += &format!("tls = {{ ca_file = \"{}\"{tls} }}\n", file.display());
        }
        let settings = settings.replacen("[listen]\n", &format!("{own}[listen]\n"), 1);
        app::start_with(read(&settings), Overrides::default()).await.unwrap()
    }

    pub(super) async fn stop(self) {
        for service in self.services.into_iter().rev() {
            assert_eq!(service.stop().await.late, Vec::<&str>::new());
        }
    }
}

fn consumers() -> Value {
    json!({
        "writer": {"who": [{"iss": ISS, "sub": "writer"}], "write": ["tenant", "shard"]},
        "jira": {"who": [{"iss": ISS, "sub": "jira:*"}], "views": ["limits"]},
        "other": {"who": [{"iss": ISS, "sub": "other"}], "views": ["profile"], "write": ["shard"]},
    })
}

pub(super) const VIEW: &str = "/v1/contexts/acme/limits";
pub(super) const TENANT: &str = r#"{"users": 5, "shard": "s1"}"#;

async fn with_a_record(mode: &str) -> Guarded {
    record(Guarded::start(mode).await).await
}

/// Has a record written that `jira` may read.
async fn record(guarded: Guarded) -> Guarded {
    guarded.grant(&consumers(), &[]).await;
    let catalogue = guarded.catalogue.clone();
    let written = async {
        while guarded.ask("writer", "PUT", &catalogue, "/v1/records/tenant/acme", TENANT).await.status == 403 {}
    };
    tokio::time::timeout(TIMEOUT, written).await.unwrap();
    guarded.until("jira:api", &guarded.node, VIEW, 200).await;
    guarded
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn withdrawal_arrives_as_a_change_does() {
    let guarded = with_a_record("enforce").await;
    let (node, catalogue) = (guarded.node.as_str(), guarded.catalogue.as_str());
    let mut withdrawn = consumers();
    withdrawn["jira"]["views"] = json!([]);
    for _ in 0..5 {
        guarded.grant(&withdrawn, &[]).await;
        let took = guarded.until("jira:api", node, VIEW, 403).await;
        assert!(took < Duration::from_secs(5), "{took:?}");
        guarded.grant(&consumers(), &[]).await;
        guarded.until("jira:api", node, VIEW, 200).await;
    }
    // An incident: it may do nothing at all.
    guarded.grant(&consumers(), &["writer"]).await;
    guarded.until("writer", catalogue, "/v1/records/tenant/acme", 403).await;
    guarded.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sidecar_reads_by_its_own_token() {
    let guarded = with_a_record("enforce").await;
    let [jira, other] = [guarded.sidecar("jira:api").await, guarded.sidecar("other").await];
    let [granted, refused] = [&jira, &other].map(|sidecar| sidecar.tcp.unwrap().to_string());
    let reply = guarded.send("GET", &granted, VIEW, None, "").await;
    assert_eq!((reply.status, reply.body.as_str()), (200, r#"{"users":5}"#));
    let reply = guarded.send("GET", &refused, VIEW, None, "").await;
    assert_eq!((reply.status, reply.word().as_str()), (403, "not-granted"));
    // A refusal is not kept.
    let mut granting = consumers();
    granting["other"]["views"] = json!(["limits"]);
    guarded.grant(&granting, &[]).await;
    let answered = async { while guarded.send("GET", &refused, VIEW, None, "").await.status != 200 {} };
    tokio::time::timeout(TIMEOUT, answered).await.unwrap();
    for sidecar in [jira, other] {
        assert_eq!(sidecar.stop().await.late, Vec::<&str>::new());
    }
    guarded.stop().await;
}

/// R22, over sockets and topics. `NEARSIDE_WITHDRAWALS=1000` measures it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn withdrawal_ends_what_a_sidecar_stored() {
    let guarded = with_a_record("enforce").await;
    let sidecar = guarded.sidecar("jira:api").await;
    let address = sidecar.tcp.unwrap().to_string();
    let reply = guarded.ask("jira:api", "GET", &guarded.node, VIEW, "").await;
    let stated = reply.line("x-grants-version").unwrap();
    assert!(stated.ends_with("; limits"), "{stated}");
    guarded.until_at(&address, 200).await;
    let mut withdrawn = consumers();
    withdrawn["jira"]["views"] = json!([]);
    let count = std::env::var("NEARSIDE_WITHDRAWALS").ok().and_then(|count| count.parse().ok()).unwrap_or(3);
    let (mut at_node, mut at_sidecar) = (Vec::new(), Vec::new());
    for _ in 0..count {
        // Its token ends ten minutes after it was made.
        let token = guarded.directory.path().join("jira:api.token");
        std::fs::write(token, guarded.token("jira:api", &guarded.node)).unwrap();
        guarded.grant(&withdrawn, &[]).await;
        let node = guarded.until("jira:api", &guarded.node, VIEW, 403);
        let (node, stored) = tokio::join!(node, guarded.until_at(&address, 403));
        assert!(node < Duration::from_secs(5) && stored < Duration::from_secs(10), "{node:?}, {stored:?}");
        at_node.push(node);
        at_sidecar.push(stored);
        guarded.grant(&consumers(), &[]).await;
        guarded.until_at(&address, 200).await;
    }
    for (place, took) in [("node", &mut at_node), ("sidecar's caller", &mut at_sidecar)] {
        let (p50, p99) = (percentile(took, 50), percentile(took, 99));
        println!("{count} withdrawals at the {place}: p50 {p50:?}, p99 {p99:?}");
    }
    assert_eq!(sidecar.stop().await.late, Vec::<&str>::new());
    guarded.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observing_services_refuse_nobody() {
    let guarded = Guarded::start("observe").await;
    let put = guarded.send("PUT", &guarded.catalogue, "/v1/records/tenant/acme", None, TENANT).await;
    assert_eq!(put.status, 201, "{put:?}");
    let read = async { while guarded.send("GET", &guarded.node, VIEW, None, "").await.status != 200 {} };
    tokio::time::timeout(TIMEOUT, read).await.unwrap();
    let metrics = guarded.client.get(format!("http://{}/metrics", guarded.services[2].admin)).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let docs = include_str!("../../../docs/metrics.md");
    for name in ["nearside_access_requests_total", "nearside_grants_age_seconds"] {
        let is_there = metrics.lines().any(|line| line.starts_with(name));
        assert!(is_there && docs.contains(&format!("| `{name}` |")), "{name}");
    }
    let admin = format!("http://{}", guarded.services[2].admin);
    let (code, shown) = grants_command(&guarded, &["report", &admin]).await;
    assert!(code == Some(0) && shown.contains("observes no grants yet"), "{shown}");
    assert!(shown.contains("requests of - for limits: no-credential"), "{shown}");
    let counted = metrics.lines().find(|line| line.contains("access_requests") && line.contains("no-credential"));
    assert!(counted.is_some_and(|line| !line.ends_with(" 0")), "{counted:?}");
    guarded.stop().await;
}

/// Status lines that one connection gets for the same request over and over, until it ends.
async fn until_it_ends(address: &str, path: &str, token: &str) -> Vec<String> {
    let mut stream = BufReader::new(TcpStream::connect(address).await.unwrap());
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    let mut answers = Vec::new();
    while stream.write_all(request.as_bytes()).await.is_ok() {
        let (mut lines, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return answers;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            length = line.strip_prefix("content-length: ").map_or(length, |length| length.parse().unwrap());
            lines.push(line);
        }
        answers.push(lines.remove(0));
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_connection_ends() {
    let guarded = Guarded::start("enforce").await;
    for (address, path) in [(&guarded.node, VIEW), (&guarded.catalogue, "/v1/types")] {
        let forged = Issuer::new(ISS, "one").token(
            "jira:api",
            if *address == guarded.catalogue { CATALOGUE } else { REGIONS },
            now(),
        );
        for (token, most) in [("opaque", 16), (forged.as_str(), 4)] {
            let answers = tokio::time::timeout(TIMEOUT, until_it_ends(address, path, token)).await.unwrap();
            assert_eq!(answers, vec!["http/1.1 401 unauthorized".to_owned(); most], "{path}");
        }
    }
    guarded.stop().await;
}

/// An answer as it came over the wire, but for its date.
async fn bytes_of(address: &str, target: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("{target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    let lines = format!("Authorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n");
    stream.write_all((head + &lines).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let lines = answer.split_inclusive('\n').filter(|line| !line.to_ascii_lowercase().starts_with("date:"));
    lines.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_equal_in_bytes() {
    let guarded = with_a_record("enforce").await;
    let at_node = ["acme/limits", "nobody/limits", "acme/no-such-view", "a%zz/limits"].map(|path| {
        ["GET", "HEAD", "PUT"].map(|method| (&guarded.node, "other", format!("{method} /v1/contexts/{path}")))
    });
    let at_catalogue = ["tenant/acme", "tenant/nobody", "no-such-type/acme", "_grants/grants"].map(|path| {
        ["GET", "HEAD", "PUT"].map(|method| (&guarded.catalogue, "jira:api", format!("{method} /v1/records/{path}")))
    });
    for [first, others @ ..] in [at_node, at_catalogue] {
        for other in others {
            for ((address, sub, target), (_, _, other)) in first.iter().zip(other) {
                let token = guarded.token(sub, address);
                let [one, two] = [bytes_of(address, target, &token).await, bytes_of(address, &other, &token).await];
                assert!(one.starts_with("HTTP/1.1 403 "), "{target}: {one}");
                // A node repeats the name of the view that was sent.
                assert_eq!(two.replace("no-such-view", "limits"), one, "{other}");
            }
        }
    }
    guarded.stop().await;
}

/// A file of grants: jira, which reads these views.
fn jira_with(views: &[&str]) -> String {
    json!({"consumers": {"jira": {"who": [{"iss": ISS, "sub": "jira:*"}], "views": views}}}).to_string()
}

/// Runs `nearside grants` against the catalogue, as the admin.
async fn grants_command(guarded: &Guarded, args: &[&str]) -> (Option<i32>, String) {
    let token = guarded.directory.path().join("admin.token");
    std::fs::write(&token, guarded.token("admin", &guarded.catalogue)).unwrap();
    let catalogue = format!("http://{}", guarded.catalogue);
    let all = [&["grants"], args, &["--catalogue", &catalogue, "--token-file", path(&token)]].concat();
    let mut command = program::command(&all);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.code(), text(&output.stdout).to_owned() + text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_are_applied_stopped_and_rolled_back() {
    let guarded = Guarded::start("enforce").await;
    let folder = guarded.directory.path().join("grants");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("jira.json");
    std::fs::write(folder.join("jira.yaml"), "consumers: {}").unwrap();
    let apply = ["apply", path(&folder)];
    let (code, shown) = grants_command(&guarded, &apply).await;
    assert!(code == Some(2) && shown.contains("no `*.json` in it; nothing was changed"), "{shown}");
    std::fs::write(&file, jira_with(&["limits"])).unwrap();
    let (code, shown) = grants_command(&guarded, &[&apply[..], &["--dry-run"]].concat()).await;
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("+ jira reads limits") && shown.contains("nothing was changed"), "{shown}");
    let (code, shown) = grants_command(&guarded, &["show"]).await;
    assert!(code == Some(1) && shown.contains("there are no grants yet"), "{shown}");
    let (code, shown) = grants_command(&guarded, &apply).await;
    assert!(code == Some(0) && shown.contains("regions have it within seconds"), "{shown}");
    let first: u64 =
        shown.lines().find_map(|line| line.strip_prefix("version ")?.split(';').next()?.parse().ok()).unwrap();
    guarded.until("jira:api", &guarded.node, VIEW, 404).await;
    let (code, shown) = grants_command(&guarded, &["stop", "jira"]).await;
    assert!(code == Some(0) && shown.contains("- jira reads limits"), "{shown}");
    guarded.until("jira:api", &guarded.node, VIEW, 403).await;
    // What is applied gives a stopped consumer nothing back.
    let views: Vec<String> = (0..12).map(|number| format!("v{number}")).collect();
    let views: Vec<&str> = views.iter().map(String::as_str).collect();
    std::fs::write(&file, jira_with(&views)).unwrap();
    let (code, shown) = grants_command(&guarded, &apply).await;
    assert!(code == Some(0) && shown.starts_with("jira is stopped until"), "{shown}");
    let (code, shown) = grants_command(&guarded, &apply).await;
    assert!(code == Some(0) && shown.contains("nothing changes"), "{shown}");
    let (code, shown) = grants_command(&guarded, &["resume", "jira"]).await;
    assert!(code == Some(0) && shown.contains("+ jira reads v11"), "{shown}");
    std::fs::write(&file, jira_with(&[])).unwrap();
    let (code, shown) = grants_command(&guarded, &apply).await;
    assert!(code == Some(2) && shown.contains("--expect-lost 12"), "{shown}");
    let (code, shown) = grants_command(&guarded, &["rollback", &first.to_string()]).await;
    assert!(code == Some(0) && shown.contains("- jira reads v0") && shown.contains("+ jira reads limits"), "{shown}");
    let (_, shown) = grants_command(&guarded, &["history"]).await;
    assert_eq!(shown.lines().count(), 5, "{shown}");
    std::fs::write(&file, r#"{"consumers": {"jira": {"views": ["Limits"]}}}"#).unwrap();
    let (code, shown) = grants_command(&guarded, &apply).await;
    assert!(
        code == Some(2) && shown.contains("consumers.jira.who: ") && shown.contains("consumers.jira.views[0]: "),
        "{shown}"
    );
    guarded.stop().await;
}
