//! Ports under a simulated calendar: whom they let in, and for how long they remember it.

mod certificates;

use std::path::PathBuf;

use http::{HeaderValue, Request, header};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::access::token::TokenError;
use crate::config::services::{AdminConfig, AdminIdentity, IssuerConfig, KeysSource};
use crate::lab::issuer::Issuer;
use crate::tasks::Tasks;

const ISS: &str = "https://issuer.example";
const REGIONS: &str = "https://regions.example";
const NOW: u64 = 1_800_000_000;

struct Guarded {
    clock: Clock,
    issuer: Issuer,
    keys: PathBuf,
    gate: Arc<Gate>,
    _directory: TempDir,
}

fn config(keys: PathBuf, mode: AccessMode) -> AccessConfig {
    AccessConfig {
        mode,
        catalogue_audience: "https://catalogue.example".to_owned(),
        region_audience: REGIONS.to_owned(),
        operate_audience: String::new(),
        max_lifetime: Duration::from_secs(86_400),
        max_age: Duration::from_secs(3_600),
        max_key_age: Duration::from_secs(86_400),
        deny_file: None,
        when_unknown: WhenUnknown::Serve,
        issuers: vec![IssuerConfig {
            iss: ISS.to_owned(),
            keys: KeysSource::File(keys),
            ca_file: None,
            subject: "sub".to_owned(),
        }],
        admins: vec![AdminConfig { who: AdminIdentity::Token { iss: ISS.to_owned(), sub: "admin".to_owned() } }],
    }
}

fn gate_of(mode: AccessMode, change: impl FnOnce(&mut AccessConfig)) -> Guarded {
    let directory = tempfile::tempdir().unwrap();
    let (keys, issuer) = (directory.path().join("keys.json"), Issuer::new(ISS, "one"));
    std::fs::write(&keys, issuer.jwks()).unwrap();
    let mut config = config(keys.clone(), mode);
    change(&mut config);
    let clock = Clock::simulated(Wall::from_millis(NOW * 1_000));
    let issuers = Issuers::open(&config, REGIONS, &clock).unwrap();
    let deny = config.deny_file.as_deref().map(|file| DenyFile::open(file).unwrap());
    let names = vec!["limits".to_owned()];
    let parts = GateParts { issuers, deny, names, clock: clock.clone(), tasks: Tasks::new() };
    let gate = Arc::new(Gate::new(&config, parts));
    Guarded { clock, issuer, keys, gate, _directory: directory }
}

fn guarded() -> Guarded {
    let guarded = gate_of(AccessMode::Enforce, |_| {});
    guarded.grant(1, &["limits"]);
    guarded
}

impl Guarded {
    fn grant(&self, version: u64, views: &[&str]) {
        let who = json!([{"iss": ISS, "sub": "jira"}]);
        let document = json!({"format": 1, "consumers": {"jira": {"who": who, "views": views}}});
        self.gate.take(Grants::read(document.to_string().as_bytes(), version).unwrap());
    }

    fn token(&self, sub: &str) -> String {
        self.issuer.token(sub, REGIONS, NOW)
    }

    /// Asks for a view with these lines, on a connection that remembers `known`.
    /// Failure of the issuer's keys a minute from now.
    async fn key_failure(&self) -> Option<String> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        self.gate.issuers().states().remove(0).failure
    }

    async fn ask_on(&self, known: &mut Option<Arc<Known>>, lines: &[String], view: &str) -> Result<(), Denial> {
        let mut request = Request::get(format!("/v1/contexts/acme/{view}")).body(()).unwrap();
        for line in lines {
            request.headers_mut().append(header::AUTHORIZATION, HeaderValue::try_from(line).unwrap());
        }
        let credentials = Credentials::of(request.headers(), None);
        let (method, path) = (request.method(), request.uri().path());
        self.gate.admit_to_view(known, method, path, credentials, Turn::First).settled().await
    }

    async fn ask(&self, token: &str, view: &str) -> Result<(), Denial> {
        self.ask_on(&mut None, &[format!("Bearer {token}")], view).await
    }
}

#[tokio::test]
async fn grant_opens_its_view_alone() {
    let guarded = guarded();
    let token = guarded.token("jira");
    assert_eq!(guarded.ask(&token, "limits").await, Ok(()));
    assert_eq!(guarded.ask(&token, "profile").await, Err(Denial::NotGranted));
    assert_eq!(guarded.ask(&guarded.token("other"), "limits").await, Err(Denial::NotGranted));
    // There is nothing at such a path, which who is known may learn.
    assert_eq!(guarded.ask(&guarded.token("other"), "limit%73").await, Ok(()));
    assert_eq!(guarded.ask_on(&mut None, &[], "limit%73").await, Err(Denial::NoCredential));
    let counted = [AccessOutcome::Granted, AccessOutcome::Elsewhere, AccessOutcome::NotGranted];
    assert_eq!(counted.map(|outcome| guarded.gate.counts().count(outcome)), [1, 1, 2]);
}

#[tokio::test]
async fn one_good_token_is_needed() {
    let guarded = guarded();
    let token = format!("Bearer {}", guarded.token("jira"));
    assert_eq!(guarded.ask_on(&mut None, &[], "limits").await, Err(Denial::NoCredential));
    assert_eq!(guarded.ask_on(&mut None, &[token.clone(), token.clone()], "limits").await, Err(Denial::NoCredential));
    assert_eq!(guarded.ask_on(&mut None, &["Basic amlyYQ==".to_owned()], "limits").await, Err(Denial::NoCredential));
    assert_eq!(guarded.ask("a.b.c", "limits").await, Err(Denial::BadCredential(TokenError::Malformed)));
    let foreign = Issuer::new("https://other.example", "one").token("jira", REGIONS, NOW);
    assert_eq!(guarded.ask(&foreign, "limits").await, Err(Denial::BadCredential(TokenError::Issuer)));
    let forged = Issuer::new(ISS, "one").token("jira", REGIONS, NOW);
    assert_eq!(guarded.ask(&forged, "limits").await, Err(Denial::BadCredential(TokenError::Signature)));
    let newer = Issuer::new(ISS, "two").token("jira", REGIONS, NOW);
    assert_eq!(guarded.ask(&newer, "limits").await, Err(Denial::KeysUnknown));
}

#[tokio::test(start_paused = true)]
async fn remembered_token_expires() {
    let guarded = guarded();
    let (lines, mut known) = ([format!("Bearer {}", guarded.token("jira"))], None);
    assert_eq!(guarded.ask_on(&mut known, &lines, "limits").await, Ok(()));
    guarded.clock.suspend(Duration::from_secs(629));
    assert_eq!(guarded.ask_on(&mut known, &lines, "limits").await, Ok(()));
    guarded.clock.suspend(Duration::from_secs(2));
    let expired = Err(Denial::BadCredential(TokenError::Expired));
    assert_eq!(guarded.ask_on(&mut known, &lines, "limits").await, expired);
    // A calendar that is set back revives nothing.
    guarded.clock.step_wall(-600_000);
    assert_eq!(guarded.ask_on(&mut None, &lines, "limits").await, expired);
}

#[tokio::test]
async fn withdrawal_holds_at_next_request() {
    let guarded = guarded();
    let (lines, mut known) = ([format!("Bearer {}", guarded.token("jira"))], None);
    assert_eq!(guarded.ask_on(&mut known, &lines, "limits").await, Ok(()));
    guarded.grant(2, &["profile"]);
    assert_eq!(guarded.ask_on(&mut known, &lines, "limits").await, Err(Denial::NotGranted));
    assert_eq!(guarded.ask_on(&mut known, &lines, "profile").await, Ok(()));
    // An older document comes late.
    guarded.grant(1, &["limits"]);
    assert_eq!(guarded.ask_on(&mut known, &lines, "limits").await, Err(Denial::NotGranted));
}

#[tokio::test(start_paused = true)]
async fn removed_key_ends_remembered_callers() {
    let guarded = guarded();
    let (lines, mut known, tasks) = ([format!("Bearer {}", guarded.token("jira"))], None, Tasks::new());
    assert_eq!(guarded.ask_on(&mut known, &lines, "limits").await, Ok(()));
    guarded.gate.issuers().watch(&tasks);
    let newer = Issuer::new(ISS, "two");
    std::fs::write(&guarded.keys, json!({"keys": [newer.jwk(), guarded.issuer.jwk()]}).to_string()).unwrap();
    let epoch = guarded.gate.issuers().epoch();
    let accepted = async {
        while guarded.ask(&newer.token("jira", REGIONS, NOW), "limits").await.is_err() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), accepted).await.unwrap();
    assert_eq!(guarded.gate.issuers().epoch(), epoch, "no key has gone");
    std::fs::write(&guarded.keys, newer.jwks()).unwrap();
    let refused = async {
        while guarded.ask_on(&mut known, &lines, "limits").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), refused).await.unwrap();
    assert_eq!(guarded.ask_on(&mut known, &lines, "limits").await, Err(Denial::KeysUnknown));
    // What cannot be used leaves the last good keys.
    std::fs::write(&guarded.keys, "{}").unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(guarded.ask(&newer.token("jira", REGIONS, NOW), "limits").await, Ok(()));
    assert!(tasks.drain(Duration::from_secs(5)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn state_says_why_a_key_file_cannot_be_used() {
    let (guarded, tasks) = (guarded(), Tasks::new());
    guarded.gate.issuers().watch(&tasks);
    assert_eq!(guarded.key_failure().await, None);
    // A mount that goes and comes back, and its file as it was.
    let mount = guarded.keys.parent().unwrap();
    let aside = mount.with_extension("aside");
    std::fs::rename(mount, &aside).unwrap();
    assert!(guarded.key_failure().await.unwrap().contains("cannot be read"));
    std::fs::rename(&aside, mount).unwrap();
    assert_eq!(guarded.key_failure().await, None);
    std::fs::write(&guarded.keys, "{}").unwrap();
    assert!(guarded.key_failure().await.unwrap().contains("no JWK Set"));
    std::fs::write(&guarded.keys, guarded.issuer.jwks()).unwrap();
    assert_eq!(guarded.key_failure().await, None);
    assert!(tasks.drain(Duration::from_secs(5)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn lagging_node_looks_ever_less() {
    let guarded = guarded();
    let looks = async |seconds: u64| {
        let mut looks = 0;
        for _ in 0..seconds * 100 {
            looks += u32::from(guarded.gate.may_look_for(NOW * 1_000));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        looks
    };
    assert_eq!(looks(1).await, 4, "after 0, 100, 300 and 700 ms");
    assert!(looks(600).await <= 65);
    // It got what it looked for: the next change is looked for at once.
    guarded.grant(9, &[]);
    assert_eq!(looks(1).await, 4);
}

#[tokio::test(start_paused = true)]
async fn look_under_way_is_joined() {
    let guarded = guarded();
    let (gate, began) = (&guarded.gate, guarded.clock.now());
    assert!(gate.may_look_for(NOW * 1_000));
    let joining = async {
        assert!(gate.may_look_for(NOW * 1_000), "one is under way");
        let reading = async {
            gate.announced().await;
            gate.note_looked();
        };
        tokio::join!(gate.look(), reading);
    };
    tokio::join!(gate.look(), joining);
    assert_eq!(guarded.clock.now(), began);
    assert!(!gate.may_look_for(NOW * 1_000), "it is over, and brought nothing");
    // One that brought something does not keep the next change waiting.
    guarded.grant(9, &[]);
    assert!(gate.may_look_for(NOW * 1_000));
}

#[tokio::test]
async fn nobody_comes_in_before_first_grants() {
    let guarded = gate_of(AccessMode::Enforce, |_| {});
    assert_eq!(guarded.ask(&guarded.token("jira"), "limits").await, Err(Denial::GrantsUnknown));
    let reason = guarded.gate.reason().unwrap();
    assert!(reason.contains("no grants") && reason.ends_with("readers get 503"), "{reason}");
    let observing = gate_of(AccessMode::Observe, |_| {}).gate.reason().unwrap();
    assert!(observing.ends_with("readers would get 503 with `enforce`"), "{observing}");
    let lines =
        Request::get("/").header("authorization", format!("Bearer {}", guarded.token("admin"))).body(()).unwrap();
    let admitted = guarded.gate.admit(Credentials::of(lines.headers(), None)).settled().await.unwrap();
    assert!(admitted.is_admin && admitted.rights.is_none(), "the way in at the beginning");
}

#[tokio::test(start_paused = true)]
async fn old_grants_are_named_and_may_refuse() {
    let [serving, refusing] = [WhenUnknown::Serve, WhenUnknown::Refuse]
        .map(|when| gate_of(AccessMode::Enforce, |it| it.when_unknown = when));
    for guarded in [&serving, &refusing] {
        guarded.grant(5, &["limits"]);
        // Of a newer version than is in use, it says nothing about those in use.
        guarded.gate.confirm(Confirmation { at: guarded.clock.wall(), version: 6 });
        let reason = guarded.gate.reason().unwrap();
        assert!(guarded.gate.age().is_none() && reason.ends_with("(version 5) are not confirmed yet"), "{reason}");
        guarded.gate.confirm(Confirmation { at: guarded.clock.wall(), version: 5 });
        assert_eq!((guarded.gate.age(), guarded.gate.reason()), (Some(Duration::ZERO), None));
        assert_eq!(guarded.ask(&guarded.token("jira"), "limits").await, Ok(()));
        guarded.clock.suspend(Duration::from_secs(3_601));
        assert!(guarded.gate.reason().unwrap().starts_with("nobody has confirmed the grants (version 5)"));
    }
    for (guarded, expected) in [(&serving, Ok(())), (&refusing, Err(Denial::GrantsUnknown))] {
        let token = guarded.issuer.token("jira", REGIONS, NOW + 3_601);
        assert_eq!(guarded.ask(&token, "limits").await, expected);
    }
    let token = refusing.issuer.token("admin", REGIONS, NOW + 3_601);
    let lines = Request::get("/").header("authorization", format!("Bearer {token}")).body(()).unwrap();
    assert!(
        refusing
            .gate
            .admit(Credentials::of(lines.headers(), None))
            .settled()
            .await
            .is_ok_and(|admitted| admitted.is_admin),
        "who has to mend it"
    );
}

#[tokio::test]
async fn observing_gate_refuses_nobody_and_counts() {
    let guarded = gate_of(AccessMode::Observe, |_| {});
    assert_eq!(guarded.ask_on(&mut None, &[], "limits").await, Ok(()));
    guarded.grant(1, &["limits"]);
    assert_eq!(guarded.ask(&guarded.token("jira"), "profile").await, Ok(()));
    assert_eq!(guarded.ask(&guarded.token("jira"), "limits").await, Ok(()));
    let counted = || {
        let outcomes = [AccessOutcome::NoCredential, AccessOutcome::NotGranted, AccessOutcome::Granted];
        outcomes.map(|outcome| guarded.gate.counts().count(outcome))
    };
    // Who has not been verified yet is so beside the answer.
    let found = async {
        while counted() != [1, 1, 1] {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(Duration::from_secs(30), found).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn denied_callers_are_refused_within_seconds() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("deny");
    std::fs::write(&file, "").unwrap();
    let guarded = gate_of(AccessMode::Enforce, |config| config.deny_file = Some(file.clone()));
    guarded.grant(1, &["limits"]);
    let (lines, mut known, tasks) = ([format!("Bearer {}", guarded.token("jira"))], None, Tasks::new());
    guarded.gate.deny().unwrap().watch(&tasks);
    assert_eq!(guarded.ask_on(&mut known, &lines, "limits").await, Ok(()));
    for denial in ["consumer jira", &format!("token {ISS} jira")] {
        std::fs::write(&file, denial).unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(guarded.ask_on(&mut known, &lines, "limits").await, Err(Denial::NotGranted), "{denial}");
        // What cannot be read leaves the last.
        std::fs::write(&file, "consumer").unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(guarded.ask_on(&mut known, &lines, "limits").await, Err(Denial::NotGranted), "{denial}");
        assert!(guarded.gate.reason().unwrap().contains("line 1: write"), "{:?}", guarded.gate.reason());
        std::fs::write(&file, "").unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(guarded.ask_on(&mut known, &lines, "limits").await, Ok(()), "{denial}");
    }
    std::fs::write(&file, format!("token {ISS} admin")).unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let token = format!("Bearer {}", guarded.token("admin"));
    let admin = Request::get("/").header("authorization", token).body(()).unwrap();
    assert!(
        guarded
            .gate
            .admit(Credentials::of(admin.headers(), None))
            .settled()
            .await
            .is_ok_and(|admitted| !admitted.is_admin)
    );
    assert!(tasks.drain(Duration::from_secs(5)).await.is_empty());
}

#[tokio::test]
async fn grants_that_were_put_back_are_none() {
    let guarded = guarded();
    let token = guarded.token("jira");
    guarded.gate.require(1);
    assert_eq!(guarded.ask(&token, "limits").await, Ok(()));
    guarded.gate.require(5);
    assert_eq!(guarded.ask(&token, "limits").await, Err(Denial::GrantsUnknown));
    assert!(guarded.gate.reason().unwrap().contains("older than version 5"), "{:?}", guarded.gate.reason());
    let admin = format!("Bearer {}", guarded.token("admin"));
    let admin = Request::get("/").header("authorization", admin).body(()).unwrap();
    assert!(
        guarded
            .gate
            .admit(Credentials::of(admin.headers(), None))
            .settled()
            .await
            .is_ok_and(|admitted| admitted.is_admin)
    );
    guarded.grant(6, &["limits"]);
    assert_eq!(guarded.ask(&token, "limits").await, Ok(()));
}

#[tokio::test]
async fn decision_after_look_counts_refusals_alone() {
    for (mode, refused) in [(AccessMode::Enforce, 1), (AccessMode::Observe, 0)] {
        let guarded = gate_of(mode, |_| {});
        guarded.grant(1, &["limits"]);
        let (gate, mut known) = (&guarded.gate, None);
        let line = format!("Bearer {}", guarded.token("jira"));
        let request = Request::get("/v1/contexts/acme/limits").header("authorization", line).body(()).unwrap();
        let mut ask = async |turn: Turn| {
            let credentials = Credentials::of(request.headers(), None);
            gate.admit_to_view(&mut known, request.method(), request.uri().path(), credentials, turn).settled().await
        };
        assert_eq!(ask(Turn::First).await, Ok(()));
        gate.tasks.drain(Duration::from_secs(5)).await;
        let counted =
            || [AccessOutcome::Granted, AccessOutcome::NotGranted].map(|outcome| gate.counts().count(outcome));
        assert_eq!((ask(Turn::Again).await, counted()), (Ok(()), [1, 0]), "{mode:?}");
        guarded.grant(2, &[]);
        assert_eq!(ask(Turn::Again).await.is_err(), mode == AccessMode::Enforce);
        assert_eq!(counted(), [1, refused], "{mode:?}");
    }
}

fn consumer(sub: &str, may: &[&str]) -> serde_json::Value {
    json!({"who": [{"iss": ISS, "sub": sub}], "may": may})
}

#[tokio::test]
async fn operators_need_their_own_grants() {
    let guarded = gate_of(AccessMode::Enforce, |_| {});
    let document = json!({"format": 1, "consumers": {
        "scraper": consumer("scraper", &["metrics"]), "operator": consumer("operator", &["operate"])}});
    guarded.gate.take(Grants::read(document.to_string().as_bytes(), 1).unwrap());
    let operators = "https://operators.example";
    let issuers = Issuers::open(&guarded.gate.config, operators, &guarded.clock).unwrap();
    let gate = Arc::new(guarded.gate.beside(issuers));
    let admitted = async |sub: &str, audience: &str, need: May| {
        let token = format!("Bearer {}", guarded.issuer.token(sub, audience, NOW));
        let request = Request::get("/").header("authorization", token).body(()).unwrap();
        gate.admit_operator(Credentials::of(request.headers(), None), need)
            .await
            .map(|admitted| admitted.principal.is_some())
    };
    assert_eq!(admitted("scraper", operators, May::Metrics).await, Ok(true));
    assert_eq!(admitted("scraper", operators, May::Operate).await, Err(Denial::NotGranted));
    assert_eq!(admitted("operator", operators, May::Operate).await, Ok(true));
    assert_eq!(admitted("admin", operators, May::Operate).await, Err(Denial::NotGranted));
    let elsewhere = admitted("operator", REGIONS, May::Operate).await;
    assert_eq!(elsewhere, Err(Denial::BadCredential(TokenError::Audience)));
}
