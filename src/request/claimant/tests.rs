//! `identity = "verified"`, and `granted` with issuers: who shares with whom, and for how long.

use std::time::Duration;

use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::config::read::from_toml;
use crate::http::admission::Admitted;
use crate::http::exchange::Failure;
use crate::lab::issuer::Issuer;
use crate::request::answer::respond;
use crate::request::scripted::{A, Act, Answer, REGIONS, SECOND, Say, World, shows, status, token};
use crate::request::serve::serve;

const X: &str = "/v1/contexts/x/full";
const Y: &str = "/v1/contexts/y/full";
const ISS: &str = "https://issuer.example";
const AUDIENCE: &str = "https://regions.example";
/// The calendar at the start, in seconds.
const NOW: u64 = 1_800_000_000;

/// A world whose sidecar verifies tokens of one issuer.
struct Verifying {
    world: World,
    issuer: Issuer,
    directory: TempDir,
}

impl Verifying {
    /// With these lines of the first route.
    fn with(route: &str) -> Self {
        let (issuer, directory) = (Issuer::new(ISS, "one"), tempfile::tempdir().unwrap());
        let keys = directory.path().join("keys.json");
        std::fs::write(&keys, issuer.jwks()).unwrap();
        let settings = format!(
            "[access]\naudience = \"{AUDIENCE}\"\n[[access.issuer]]\niss = \"{ISS}\"\nkeys = \"{}\"\n",
            keys.display()
        );
        let mut world = World::with(&settings, [1, 2, 3].map(|after| (after, tagged(5).into())));
        let text = format!(
            "service.name = \"contexts\"\n[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n\
             [[service.route]]\npath = \"/v1/contexts/{{key}}/{{view}}\"\nrecords = [\"context:{{key}}\"]\n{route}\n\
             [announcements]\ntransport = \"off\"\n{settings}"
        );
        let read = from_toml(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
        world.reload(|config| config.service.routes[0] = read.service.routes[0].clone());
        Self { world, issuer, directory }
    }

    async fn live(route: &str) -> Self {
        let it = Self::with(route);
        it.world.live().await;
        it
    }

    /// A caller's line with the claims that every token has, and `more`.
    fn caller(&self, more: Value) -> &'static str {
        self.ends(600, more)
    }

    /// [`Verifying::caller`], with a token that ends so many seconds from now.
    fn ends(&self, seconds: u64, more: Value) -> &'static str {
        let now = self.world.sidecar.fill.shared.clock.wall().as_millis() / 1_000;
        let mut claims = json!({"iss": ISS, "sub": "one", "aud": AUDIENCE, "iat": now, "exp": now + seconds});
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("Bearer {}", self.issuer.of_claims(&claims)).leak()
    }

    async fn read(&self, caller: &'static str) -> Answer {
        self.read_at(X, caller).await
    }

    async fn read_at(&self, path: &str, caller: &'static str) -> Answer {
        self.world.ask(Method::GET, path, token(caller)).await
    }

    /// Statuses of the parts of a batch.
    async fn many(&self, caller: &'static str) -> Vec<u64> {
        let mut headers = token(caller);
        headers.insert("content-type", "application/json".parse().unwrap());
        let (method, path_and_query) = (Method::POST, "/v1/batch/full".to_owned());
        let body = json!({"keys": ["x", "y"]}).to_string().into();
        let admitted = Admitted { method, path_len: path_and_query.len(), path_and_query, headers, body };
        let response = respond(serve(&self.world.sidecar, admitted).await, &self.world.sidecar.fill.shared.names);
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        document["parts"].as_array().unwrap().iter().map(|part| part["status"].as_u64().unwrap()).collect()
    }

    /// Asks, and lets the race end.
    async fn fill(&self, caller: &'static str) {
        assert_eq!(self.read(caller).await.status, 200);
        tokio::time::sleep(SECOND).await;
        self.world.asked();
    }
}

fn tagged(version: u64) -> Say {
    shows(version).with("etag", "\"5\"").with("vary", "authorization")
}

const BY_TENANT: &str = "identity = \"verified\"\nclaims = [\"tenant\"]";

#[tokio::test(start_paused = true)]
async fn callers_with_equal_claims_share() {
    let it = Verifying::live(BY_TENANT).await;
    let [one, other] = ["one", "other"].map(|sub| it.caller(json!({"sub": sub, "tenant": "acme", "jti": sub})));
    let stranger = it.caller(json!({"tenant": "globex"}));
    it.fill(one).await;
    for caller in [one, other] {
        assert!(it.read(caller).await.is_hit());
    }
    assert_eq!(it.world.asked(), []);
    assert!(!it.read(stranger).await.is_hit());
    let requests = it.world.requests();
    assert_eq!(requests.len(), REGIONS);
    assert!(requests.iter().all(|(_, _, request)| request.headers["authorization"] == stranger));
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_named_claim_tells_apart() {
    for (claims, differing, is_shared) in [
        ("[\"tenant\", \"scope\"]", json!({"scope": "write"}), false),
        ("[\"tenant\", \"scope\"]", json!({"sub": "other", "jti": "2"}), true),
        ("[\"all\"]", json!({"sub": "other"}), false),
        ("[\"all\"]", json!({"more": [1]}), false),
        ("[\"all\"]", json!({"jti": "2", "exp": NOW + 700, "nbf": NOW}), true),
    ] {
        let it = Verifying::live(&format!("identity = \"verified\"\nclaims = {claims}")).await;
        let own = json!({"tenant": "acme", "scope": "read"});
        let mut more = own.clone();
        more.as_object_mut().unwrap().extend(differing.as_object().unwrap().clone());
        it.fill(it.caller(own)).await;
        let answer = it.read(it.caller(more)).await;
        assert_eq!((answer.status, answer.is_hit()), (200, is_shared), "{claims}: {differing}");
        it.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn unverified_callers_are_passed_on() {
    let it = Verifying::live(BY_TENANT).await;
    it.fill(it.caller(json!({"tenant": "acme"}))).await;
    let forged = Issuer::new(ISS, "one").of_claims(&json!({"iss": ISS, "sub": "one", "tenant": "acme",
        "aud": AUDIENCE, "iat": NOW, "exp": NOW + 600}));
    let callers: [&'static str; 5] = [
        format!("Bearer {forged}").leak(),
        it.caller(json!({"tenant": "acme", "aud": "https://other.example"})),
        it.caller(json!({"tenant": "acme", "exp": NOW + 10})),
        it.caller(json!({"tenant": "acme", "iss": "https://other.example"})),
        "Basic b25lOnR3bw==",
    ];
    for caller in callers {
        for _ in 0..2 {
            let answer = it.read(caller).await;
            assert_eq!((answer.status, answer.is_hit(), answer.is_stored()), (200, false, false), "{caller}");
            let asked = it.world.requests();
            assert_eq!(asked.len(), 1, "{caller}");
            assert_eq!(asked[0].2.headers["authorization"], caller, "regions verify it for themselves");
        }
    }
    let without = it.world.get(X).await;
    assert!(!without.is_hit() && !without.is_stored());
    let notes = it.world.sidecar.fill.shared.observed.seen();
    let route = &it.world.sidecar.fill.config.service.routes[0].path.text;
    let why = &notes.routes[route].passed.unproven;
    assert_eq!(why["the token is refused: its signature does not hold"].0, 2);
    assert_eq!(why.values().map(|(count, _)| count).sum::<u64>(), 11, "{why:?}");
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn expiry_is_compared_at_each_request() {
    let it = Verifying::live(BY_TENANT).await;
    let [short, long] = [40, 600].map(|seconds| it.ends(seconds, json!({"tenant": "acme"})));
    it.fill(short).await;
    assert!(it.read(short).await.is_hit());
    // Its `exp`, and the skew that is allowed.
    it.world.pass(71 * SECOND).await;
    it.world.asked();
    let late = it.read(short).await;
    assert!(!late.is_hit() && !late.is_stored());
    assert_eq!(it.world.asked().len(), 1);
    assert!(it.read(long).await.is_hit(), "another token of the same claims goes on");
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn withdrawn_key_ends_its_callers() {
    let it = Verifying::live(BY_TENANT).await;
    let caller = it.caller(json!({"tenant": "acme"}));
    it.fill(caller).await;
    assert!(it.read(caller).await.is_hit());
    let other = Issuer::new(ISS, "two").jwks();
    std::fs::write(it.directory.path().join("keys.json"), other).unwrap();
    it.world.pass(11 * SECOND).await;
    assert!(!it.read(caller).await.is_hit());
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unusable_file_of_keys_is_shown() {
    let it = Verifying::live(BY_TENANT).await;
    let (shared, file) = (it.world.sidecar.shared.clone(), it.directory.path().join("keys.json"));
    for (content, is_shown) in [("<html>".to_owned(), true), (it.issuer.jwks(), false)] {
        std::fs::write(&file, content).unwrap();
        it.world.pass(11 * SECOND).await;
        let failure = shared.verifier.as_ref().unwrap().issuers().states()[0].failure.clone();
        assert_eq!(failure.is_some(), is_shown, "{failure:?}");
    }
    it.world.stop().await;
}

/// X is stored for a set of claims, and due to be asked for again with the token of one of its callers.
async fn due() -> (Verifying, &'static str, &'static str) {
    let it = Verifying::live(BY_TENANT).await;
    let [one, other] = ["one", "other"].map(|sub| it.ends(3_600, json!({"sub": sub, "tenant": "acme"})));
    it.fill(one).await;
    it.world.pass(Duration::from_secs(270)).await;
    it.world.asked();
    (it, one, other)
}

#[tokio::test(start_paused = true)]
async fn set_of_claims_is_rechecked_once() {
    let (it, one, other) = due().await;
    for caller in [other, one, one] {
        assert!(it.read(caller).await.is_hit());
    }
    tokio::time::sleep(SECOND).await;
    let requests = it.world.requests();
    assert_eq!(requests.len(), REGIONS);
    assert!(requests.iter().all(|(_, _, request)| request.headers["authorization"] == other));
    it.world.pass(Duration::from_secs(200)).await;
    it.world.asked();
    assert!(it.read(one).await.is_hit());
    assert_eq!(it.world.asked(), []);
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refusal_ends_what_is_stored() {
    let (it, one, other) = due().await;
    it.world.set_all(1, status(403));
    assert!(it.read(one).await.is_hit());
    tokio::time::sleep(SECOND).await;
    for caller in [other, one] {
        assert_eq!(it.read(caller).await.status, 403);
    }
    // One region's word does not beat another's.
    it.world.set_all(1, tagged(5));
    it.world.pass(10 * SECOND).await;
    it.world.set(A, 1, status(403));
    assert_eq!(it.read(other).await.status, 200);
    tokio::time::sleep(SECOND).await;
    assert!(it.read(one).await.is_hit());
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refusal_of_one_path_ends_no_other() {
    let (it, one, other) = due().await;
    assert_eq!(it.read_at(Y, other).await.status, 200);
    tokio::time::sleep(SECOND).await;
    it.world.set_all(1, status(403));
    assert!(it.read(one).await.is_hit());
    tokio::time::sleep(SECOND).await;
    assert_eq!(it.read(other).await.status, 403);
    assert!(it.read_at(Y, one).await.is_hit(), "what was refused is another path");
    // And an answer for another path gives none back.
    it.world.pass(10 * SECOND).await;
    it.world.set_all(1, tagged(5));
    assert_eq!(it.read_at("/v1/contexts/z/full", one).await.status, 200);
    it.world.set_all(1, status(403));
    assert_eq!(it.read(one).await.status, 403);
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refusal_for_one_caller_is_unshared() {
    for (name, value) in [("vary", "*"), ("vary", "user-agent"), ("cache-control", "no-store")] {
        let (it, one, other) = due().await;
        it.world.set_all(1, status(403).with(name, value));
        assert!(it.read(one).await.is_hit());
        tokio::time::sleep(SECOND).await;
        it.world.set_all(1, tagged(5));
        let answer = it.read(other).await;
        assert_eq!(answer.status, 200, "{name}: {value}");
        it.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_other_answer_confirms_anybody() {
    for code in [302, 405, 418, 451] {
        let (it, one, other) = due().await;
        it.world.pass(Duration::from_secs(31)).await;
        it.world.set_all(1, status(code));
        for caller in [one, other, one] {
            assert_eq!(it.read(caller).await.status, code);
            tokio::time::sleep(SECOND).await;
        }
        // Nor does an outage bring it back.
        it.world.set_all(1, Act::Fail(Failure::Connect));
        assert_ne!(it.read(other).await.status, 200, "{code}");
        it.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn odd_request_of_one_ends_nothing() {
    let (it, one, other) = due().await;
    for code in [400, 431] {
        it.world.set_all(1, status(code));
        assert!(it.read(one).await.is_hit());
        tokio::time::sleep(SECOND).await;
        let answer = it.read(other).await;
        assert_eq!((answer.status, answer.is_hit()), (200, true), "{code}");
    }
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_regions_no_store_ends_nothing() {
    let (it, one, other) = due().await;
    it.world.set(A, 0, tagged(5).with("cache-control", "no-store"));
    for caller in [one, other, one] {
        assert!(it.read(caller).await.is_hit());
        tokio::time::sleep(SECOND).await;
    }
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unstorable_reply_ends_what_is_stored() {
    for (say, code) in [
        (status(404).with("cache-control", "no-store"), 404),
        (status(410).with("vary", "*"), 410),
        (tagged(5).with("cache-control", "no-store"), 200),
        (tagged(5).with("vary", "authorization, user-agent"), 200),
    ] {
        let (it, one, other) = due().await;
        it.world.set_all(1, say);
        assert!(it.read(one).await.is_hit());
        tokio::time::sleep(SECOND).await;
        for caller in [other, one] {
            let answer = it.read(caller).await;
            assert_eq!((answer.status, answer.is_hit()), (code, false), "{}", answer.line);
        }
        it.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn unreadable_statement_of_grants_is_unshared() {
    let it = Verifying::live(BY_TENANT).await;
    let [one, other] = ["one", "other"].map(|sub| it.caller(json!({"sub": sub, "tenant": "acme"})));
    for stated in ["1764043200000", "abc", "1764043200000; a; b"] {
        it.world.set_all(1, tagged(5).with("x-grants-version", stated));
        for caller in [one, other] {
            let answer = it.read(caller).await;
            assert!(!answer.is_hit() && !answer.is_stored(), "{stated}: {}", answer.line);
        }
    }
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn missing_claim_proves_nothing() {
    for claims in ["[\"tenent\"]", "[\"realm.tenant\"]", "[\"tenant\", \"scope\"]", "[\"big\"]"] {
        let it = Verifying::live(&format!("identity = \"verified\"\nclaims = {claims}")).await;
        let own = json!({"tenant": "acme", "realm": {"tenant": "acme"}, "big": 18_446_744_073_709_551_616.0_f64});
        for _ in 0..2 {
            let answer = it.read(it.caller(own.clone())).await;
            assert_eq!((answer.status, answer.is_hit(), answer.is_stored()), (200, false, false), "{claims}");
        }
        let notes = it.world.sidecar.fill.shared.observed.seen();
        let why = &notes.routes["/v1/contexts/{key}/{view}"].passed.unproven;
        assert!(why.keys().all(|why| why.contains("claim `")), "{why:?}");
        it.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn older_answer_gives_nothing_back() {
    let (it, one, other) = due().await;
    it.world.set_all(5_000, tagged(5));
    it.world.set(A, 1_500, status(403));
    // Due: asked in the background, and answered late.
    assert!(it.read(one).await.is_hit());
    tokio::time::sleep(Duration::from_millis(100)).await;
    it.world.set_all(1, status(403));
    let insisting = HeaderMap::from_iter([
        ("authorization".parse().unwrap(), other.parse().unwrap()),
        ("cache-control".parse().unwrap(), "no-cache".parse().unwrap()),
    ]);
    let insisted: Answer = it.world.ask(Method::GET, X, insisting).await;
    assert_eq!(insisted.status, 403);
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(it.read(one).await.status, 403);
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn revoked_token_ends_no_other() {
    let (it, one, other) = due().await;
    it.world.set_all(1, Act::By(vec![(other, tagged(5))]));
    assert!(it.read(one).await.is_hit());
    tokio::time::sleep(SECOND).await;
    assert_eq!(it.read(one).await.status, 401);
    assert_eq!(it.read(other).await.status, 200);
    tokio::time::sleep(SECOND).await;
    assert!(it.read(other).await.is_hit());
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn outage_is_bridged_for_known_claims() {
    let (it, one, _) = due().await;
    it.world.pass(Duration::from_secs(31)).await;
    it.world.set_all(1, Act::Fail(Failure::Connect));
    let stranger = it.caller(json!({"tenant": "globex"}));
    assert!(it.read(one).await.line.contains("grants-unproven") || it.read(one).await.is_hit());
    assert_eq!(it.read(stranger).await.status, 502);
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn background_asks_with_claims_of_entry() {
    let it = Verifying::live(BY_TENANT).await;
    let [acme, globex] = ["acme", "globex"].map(|tenant| it.ends(3_600, json!({"tenant": tenant})));
    for caller in [acme, globex] {
        it.fill(caller).await;
    }
    it.world.set_all(1, Act::By(vec![(acme, tagged(6)), (globex, tagged(6))]));
    it.world.announce(A, "x", 6);
    tokio::time::sleep(SECOND).await;
    let requests = it.world.requests();
    for caller in [acme, globex] {
        let own = requests.iter().filter(|(_, _, request)| request.headers["authorization"] == caller);
        assert_eq!(own.count(), REGIONS, "{caller}");
        assert_eq!(it.read(caller).await.body, "6");
    }
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn background_uses_newest_token_of_claims() {
    let it = Verifying::live(BY_TENANT).await;
    let [first, second] = [100, 3_600].map(|seconds| it.ends(seconds, json!({"tenant": "acme"})));
    it.fill(first).await;
    assert_eq!(it.read_at(Y, first).await.status, 200);
    // The entry of Y keeps the first token; the second has asked for something else since.
    it.world.pass(Duration::from_secs(140)).await;
    assert_eq!(it.read_at("/v1/contexts/z/full", second).await.status, 200);
    assert!(it.read_at(Y, second).await.is_hit());
    tokio::time::sleep(SECOND).await;
    it.world.asked();
    it.world.set_all(1, shows(6));
    it.world.announce(A, "y", 6);
    tokio::time::sleep(SECOND).await;
    let requests = it.world.requests();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|(_, _, request)| request.headers["authorization"] == second));
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn grants_of_subjects_are_unshared() {
    for (claims, is_stored) in [("[\"tenant\"]", false), ("[\"tenant\", \"sub\"]", true)] {
        let it = Verifying::live(&format!("identity = \"verified\"\nclaims = {claims}")).await;
        it.world.set_all(1, tagged(5).by(7));
        let caller = it.caller(json!({"tenant": "acme"}));
        assert_eq!(it.read(caller).await.status, 200);
        tokio::time::sleep(SECOND).await;
        assert_eq!(it.read(caller).await.is_hit(), is_stored, "{claims}");
        it.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn permit_belongs_to_verified_subject() {
    let it = Verifying::live("identity = \"granted\"").await;
    it.world.set_all(1, shows(5).with("etag", "\"5\"").by(7));
    let [token, newer, stranger] =
        [json!({"jti": "1"}), json!({"jti": "2"}), json!({"sub": "other"})].map(|more| it.caller(more));
    it.fill(token).await;
    assert!(it.read(newer).await.is_hit(), "a new token costs no request");
    assert_eq!(it.world.asked(), []);
    assert_eq!(it.read(stranger).await.status, 200);
    assert_eq!(it.world.asked().len(), REGIONS);
    // What is not verified here may be elsewhere, and its permit is its own.
    it.fill("Bearer opaque").await;
    assert!(it.read("Bearer opaque").await.is_hit());
    assert_eq!(it.world.asked(), []);
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cold_callers_share_one_race() {
    let it = Verifying::live(BY_TENANT).await;
    let callers: Vec<_> = (0..20).map(|at| it.caller(json!({"tenant": "acme", "jti": at}))).collect();
    let readers: Vec<_> = callers.iter().map(|caller| it.world.begin_with(X, token(caller))).collect();
    for reader in readers {
        assert_eq!(reader.await.unwrap().unwrap().status, 200);
    }
    assert!(it.world.asked().len() <= 2 * REGIONS, "by one caller, or by the next after a race");
    it.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn batches_go_by_claims() {
    let it = Verifying::live(&format!("{BY_TENANT}\nbatch = \"/v1/batch/{{view}}\"")).await;
    let [one, other] = ["one", "other"].map(|sub| it.caller(json!({"sub": sub, "tenant": "acme"})));
    assert_eq!(it.many(one).await, [200, 200]);
    tokio::time::sleep(SECOND).await;
    assert_eq!(it.world.asked().len(), 2 * REGIONS);
    assert_eq!(it.many(other).await, [200, 200]);
    assert_eq!(it.world.asked(), []);
    let forged = Issuer::new(ISS, "one").token("one", AUDIENCE, NOW + 120);
    for caller in [format!("Bearer {forged}").leak(), "Basic b25lOnR3bw=="] {
        assert_eq!(it.many(caller).await, [200, 200], "{caller}");
        assert_eq!(it.world.asked().len(), 2, "each of one region");
    }
    it.world.stop().await;
}
