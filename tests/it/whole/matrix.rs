//! G6 as a table: every kind of credential at every way in, straight and behind sidecars. Each answer
//! is compared with the rule in [`expected`], and with all others for what it gives away.

mod credentials;
mod expected;
mod judge;
mod requests;

use std::collections::BTreeSet;
use std::path::Path;

use nearside::app::App;
use serde_json::{Value, json};

use super::super::program::TIMEOUT;
use super::access::{CATALOGUE, Guarded, ISS, REGIONS, Reply, keys_file, now};
use super::certified::Certified;
use credentials::{Credential, Proof};
use expected::Who;
use judge::{Case, Judge, Way};
use requests::{Port, Request, VIEW};

/// Content that nobody without a grant may see.
const TENANT: &str = r#"{"users": 987654, "shard": "s1"}"#;

fn consumers() -> Value {
    json!({
        "jira": {"who": [{"iss": ISS, "sub": "jira:*"}, {"spiffe": "spiffe://corp/jira/*"}],
                 "views": ["limits", "prices"]},
        "writer": {"who": [{"iss": ISS, "sub": "writer"}, {"dns": "writer.example"}], "write": ["tenant", "shard"]},
        "other": {"who": [{"iss": ISS, "sub": "other"}], "views": ["profile"], "write": ["shard"]},
        "halted": {"who": [{"iss": ISS, "sub": "halted"}], "views": ["limits"], "write": ["tenant"],
                   "may": ["operate"]},
        "barred": {"who": [{"iss": ISS, "sub": "barred"}], "views": ["limits"], "write": ["tenant"]},
    })
}

fn denied() -> String {
    let tokens = ["jira:leaver", "retired"].map(|sub| format!("token {ISS} {sub}\n"));
    format!("consumer barred\nspiffe spiffe://corp/jira/leaver\n{}", tokens.concat())
}

/// Services with a record, and the versions of what there is.
struct Stage {
    guarded: Guarded,
    certified: Certified,
    /// `ETag` of the view, and of the record.
    tags: [String; 2],
    grants: String,
    /// A client of sidecars.
    plain: reqwest::Client,
}

/// A credential, and the clients that have its certificate.
struct Caller {
    credential: Credential,
    clients: [(Way, reqwest::Client); 2],
}

impl Stage {
    async fn set() -> Self {
        let certified = Certified::new();
        certified.vouch_by(&certified);
        certified.write("denied", &denied());
        let own = format!(
            "deny_file = \"{}\"\n[[access.admin]]\niss = \"{ISS}\"\nsub = \"retired\"\n",
            certified.path("denied").display()
        );
        let guarded = Guarded::start_with("enforce", Some(&certified), &own).await;
        guarded.grant(&consumers(), &["halted"]).await;
        let record = "/v1/records/tenant/acme";
        let writing =
            async { while guarded.ask("writer", "PUT", &guarded.catalogue, record, TENANT).await.status == 403 {} };
        tokio::time::timeout(TIMEOUT, writing).await.unwrap();
        guarded.until("jira:api", &guarded.node, VIEW, 200).await;
        let view = guarded.ask("jira:api", "GET", &guarded.node, VIEW, "").await;
        let record = guarded.ask("writer", "GET", &guarded.catalogue, record, "").await;
        let tags = [view, record].map(|reply| reply.line("etag").unwrap().to_owned());
        let grants = guarded.ask("admin", "GET", &guarded.catalogue, "/v1/grants", "").await;
        let grants = grants.line("x-record-version").unwrap().to_owned();
        let plain = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(TIMEOUT).build().unwrap();
        Self { guarded, certified, tags, grants, plain }
    }

    fn address(&self, port: Port) -> String {
        match port {
            Port::Node => self.guarded.node.clone(),
            Port::Catalogue => self.guarded.catalogue.clone(),
            Port::NodePages => self.guarded.services[2].admin.to_string(),
            Port::CataloguePages => self.guarded.services[0].admin.to_string(),
        }
    }

    fn filled(&self, case: &Case<'_>, text: &str) -> String {
        let who = if let Proof::Is(who) = case.proof { who } else { Who::Nobody };
        let text = text.replace("{who}", &format!("{who:?}").to_lowercase()).replace("{n}", &case.number.to_string());
        text.replace("{tag}", &self.tags[0]).replace("{record}", &self.tags[1])
    }

    /// Sends the request, with everything filled in that is its sender's own.
    async fn send(&self, client: &reqwest::Client, base: &str, case: &Case<'_>) -> Reply {
        let Case { request, credential, .. } = case;
        let audience = if request.port == Port::Catalogue { CATALOGUE } else { REGIONS };
        let method = reqwest::Method::from_bytes(request.method.as_bytes()).unwrap();
        let mut builder = client.request(method, format!("{base}{}", self.filled(case, request.path)));
        for (name, value) in credential.lines(audience) {
            builder = builder.header(*name, value);
        }
        for (name, value) in request.lines {
            builder = builder.header(*name, self.filled(case, value));
        }
        if !request.body.is_empty() {
            builder = builder.header("content-type", "application/json").body(self.filled(case, request.body));
        }
        let answer = builder.send().await.unwrap_or_else(|error| panic!("{case}: {error:?}"));
        let status = answer.status().as_u16();
        let lines = answer.headers().iter().filter(|(name, _)| !["date", "connection"].contains(&name.as_str()));
        let mut headers: Vec<_> =
            lines.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
        headers.sort_unstable();
        Reply { status, headers, body: answer.text().await.unwrap() }
    }

    /// Clients of both protocols, with this certificate.
    fn clients(&self, certificate: Option<&Path>) -> [(Way, reqwest::Client); 2] {
        [Way::Http2, Way::Http1].map(|way| {
            let builder = self.certified.builder(certificate).timeout(TIMEOUT);
            let builder = if way == Way::Http1 { builder.http1_only() } else { builder };
            (way, builder.build().unwrap())
        })
    }

    /// One request with each credential, at a service's own port. All that have no certificate come over
    /// the same connections, one after the other.
    async fn ask_straight(&self, request: &Request, callers: &[Caller], judge: &mut Judge) {
        let base = format!("https://{}", self.address(request.port));
        for (number, Caller { credential, clients }) in callers.iter().enumerate() {
            // Two of three credentials over HTTP/1.1, which the other ports speak alone.
            let (way, client) = &clients[usize::from(request.port != Port::Node || number % 3 > 0)];
            let case = Case { request, credential, number, way: *way, proof: credential.proof() };
            judge.judge(&case, &self.send(client, &base, &case).await);
        }
    }

    /// One request with each credential, at a sidecar.
    async fn ask_through(&self, (way, sidecar): &(Way, App), request: &Request, all: &[Caller], judge: &mut Judge) {
        let base = format!("http://{}", sidecar.tcp.unwrap());
        for (number, Caller { credential, .. }) in all.iter().enumerate() {
            // Its own credential is that of a reader.
            let is_own = *way == Way::OwnSidecar && request.is_routed_read();
            let proof = if is_own { Proof::Is(Who::Jira) } else { credential.passed_proof() };
            let case = Case { request, credential, number, way: *way, proof };
            judge.judge(&case, &self.send(&self.plain, &base, &case).await);
        }
    }

    /// Sidecars of each identity.
    async fn sidecars(&self) -> [(Way, App); 4] {
        let batched = "batch = \"/v1/batch/limits\"\n";
        let file = self.certified.path("own.token");
        std::fs::write(&file, self.guarded.token("jira:sidecar", &self.guarded.node)).unwrap();
        let own = format!(
            "{batched}identity = \"sidecar\"\ncredentials = {{ file = \"{}\", prefix = \"Bearer \" }}\n",
            file.display()
        );
        let [own, exact] = [self.guarded.sidecar_with(&own, "").await, self.guarded.sidecar_with(batched, "").await];
        let sharing = self.guarded.sidecar_with(&format!("{batched}identity = \"granted\"\n"), "").await;
        let issuer = format!(
            "{batched}identity = \"verified\"\nclaims = [\"sub\"]\n[access]\naudience = \"{REGIONS}\"\nother_audiences = [\"{CATALOGUE}\"]\n\
             [[access.issuer]]\niss = \"{ISS}\"\nkeys = \"{}\"\n",
            keys_file(self.guarded.directory.path()).display()
        );
        let verifying = self.guarded.sidecar_with(&issuer, "").await;
        [
            (Way::OwnSidecar, own),
            (Way::ExactSidecar, exact),
            (Way::SharingSidecar, sharing),
            (Way::VerifyingSidecar, verifying),
        ]
    }

    async fn page(&self, sub: &str, path: &str) -> Value {
        let reply = self.guarded.ask(sub, "GET", &self.guarded.catalogue, path, "").await;
        serde_json::from_str(&reply.body).unwrap()
    }

    /// Asserts that nobody changed anything without a grant.
    async fn assert_unchanged(&self, written: &[usize]) {
        let grants = self.guarded.ask("admin", "GET", &self.guarded.catalogue, "/v1/grants", "").await;
        assert_eq!(grants.line("x-record-version"), Some(self.grants.as_str()));
        for (record_type, expected) in
            [("tenant", &["acme", "batch", "written"][..]), ("shard", &["b", "batch", "other", "writer"])]
        {
            let page = self.page("writer", &format!("/v1/records/{record_type}")).await;
            let records = page["records"].as_array().unwrap().iter();
            let keys: BTreeSet<_> = records.map(|record| record["key"].as_str().unwrap()).collect();
            assert_eq!(keys, expected.iter().copied().collect(), "{record_type}");
        }
        let page = self.page("writer", "/v1/records/tenant/written/history").await;
        let versions = page["versions"].as_array().unwrap().iter();
        let users: Vec<_> = versions.map(|version| version["body"]["users"].as_u64().unwrap() as usize).collect();
        assert_eq!(users, written);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_credential_at_every_way_in() {
    let stage = Stage::set().await;
    let mut judge = Judge::new(&stage.grants);
    let sidecars = stage.sidecars().await;
    let shared = stage.clients(None);
    let all = credentials::all(&stage.guarded.issuer, &stage.certified, now());
    let callers = all.into_iter().map(|credential| {
        let clients = match &credential.certificate {
            Some(file) => stage.clients(Some(file)),
            None => shared.clone(),
        };
        Caller { credential, clients }
    });
    let callers: Vec<_> = callers.collect();
    let requests = requests::all();
    for request in &requests {
        stage.ask_straight(request, &callers, &mut judge).await;
        for sidecar in sidecars.iter().filter(|_| request.port == Port::Node) {
            stage.ask_through(sidecar, request, &callers, &mut judge).await;
        }
    }
    judge.report(callers.len(), requests.len());
    let written: Vec<_> =
        (0..callers.len()).filter(|at| callers[*at].credential.proof() == Proof::Is(Who::Writer)).collect();
    stage.assert_unchanged(&written).await;
    for (_, sidecar) in sidecars {
        assert_eq!(sidecar.stop().await.late, Vec::<&str>::new());
    }
    stage.guarded.stop().await;
}
