//! Issuers whose keys are fetched, in a simulated calendar: what callers get while they rotate them,
//! fail, and come back.

use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use futures_util::future::{FutureExt, join_all};
use http::{HeaderMap, HeaderValue, header};
use serde_json::json;
use url::Url;

use super::*;
use crate::access::credentials::Credentials;
use crate::access::denial::Denial;
use crate::access::issuers::Issuers;
use crate::access::known::Known;
use crate::access::verifier::{Recalled, Verifier};
use crate::config::services::{AccessConfig, AccessMode, IssuerConfig, WhenUnknown};
use crate::lab;
use crate::tasks::Tasks;

const ISS: &str = "https://issuer.example";
const OTHER: &str = "https://other.example";
const REGIONS: &str = "https://regions.example";
const NOW: u64 = 1_800_000_000;

/// Host of both issuers' keys, which answers as it is set to.
#[derive(Clone, Default)]
struct Host {
    answers: Arc<Mutex<std::collections::HashMap<String, Result<String, FetchError>>>>,
    fetches: Arc<AtomicUsize>,
    /// Never answers.
    is_stuck: Arc<std::sync::atomic::AtomicBool>,
}

impl Host {
    fn set(&self, iss: &str, answer: Result<String, FetchError>) {
        self.answers.lock().insert(keys_of(iss).to_string(), answer);
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::Relaxed)
    }

    fn fetcher(&self) -> Fetcher {
        let own = self.clone();
        Fetcher::Given(Box::new(move |url| {
            own.fetches.fetch_add(1, Ordering::Relaxed);
            let answer = own.answers.lock().get(url.as_str()).cloned();
            let is_stuck = own.is_stuck.load(Ordering::Relaxed);
            async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                if is_stuck {
                    std::future::pending::<()>().await;
                }
                answer.unwrap_or(Err(FetchError::Slow)).map(Bytes::from)
            }
            .boxed()
        }))
    }
}

fn keys_of(iss: &str) -> Url {
    Url::parse(&format!("{iss}/jwks")).unwrap()
}

struct Stage {
    clock: Clock,
    host: Host,
    issuers: Issuers,
    verifier: Verifier,
    tasks: Tasks,
}

fn issuer(iss: &str) -> IssuerConfig {
    IssuerConfig {
        iss: iss.to_owned(),
        keys: KeysSource::Url(keys_of(iss)),
        ca_file: None,
        subject: "sub".to_owned(),
    }
}

fn config() -> AccessConfig {
    AccessConfig {
        mode: AccessMode::Enforce,
        catalogue_audience: "https://catalogue.example".to_owned(),
        region_audience: REGIONS.to_owned(),
        operate_audience: String::new(),
        max_lifetime: Duration::from_secs(2 * 86_400),
        max_age: Duration::from_secs(3_600),
        when_unknown: WhenUnknown::Serve,
        max_key_age: Duration::from_secs(86_400),
        deny_file: None,
        issuers: vec![issuer(ISS), issuer(OTHER)],
        admins: Vec::new(),
    }
}

impl Stage {
    fn new() -> Self {
        let (clock, host, tasks) = (Clock::simulated(Wall::from_millis(NOW * 1_000)), Host::default(), Tasks::new());
        let issuers = Issuers::open_by(&config().trusted(REGIONS), &clock, |_| host.fetcher()).unwrap();
        let verifier = Verifier::new(issuers.clone(), Calendar::new(clock.clone()));
        Self { clock, host, issuers, verifier, tasks }
    }

    /// One whose issuers have these keys, and have been asked.
    async fn with(own: &lab::issuer::Issuer, other: &lab::issuer::Issuer) -> Self {
        let stage = Self::new();
        stage.host.set(ISS, Ok(own.jwks()));
        stage.host.set(OTHER, Ok(other.jwks()));
        stage.issuers.watch(&stage.tasks);
        tokio::time::sleep(Duration::from_secs(1)).await;
        stage
    }

    fn now(&self) -> u64 {
        self.clock.wall().as_millis() / 1_000
    }

    async fn ask(&self, token: &str) -> Result<Arc<Known>, Denial> {
        let line = HeaderValue::try_from(format!("Bearer {token}")).unwrap();
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, line)]);
        match self.verifier.recall(&mut None, Credentials::of(&headers, None))? {
            Recalled::Known(known) => Ok(known),
            Recalled::Token(token) => self.verifier.prove(token).await,
        }
    }

    async fn asked(&self, issuer: &lab::issuer::Issuer) -> Result<(), Denial> {
        self.ask(&issuer.token("jira", REGIONS, self.now())).await.map(drop)
    }
}

fn signer(kid: &str) -> lab::issuer::Issuer {
    lab::issuer::Issuer::new(ISS, kid)
}

fn other() -> lab::issuer::Issuer {
    lab::issuer::Issuer::new(OTHER, "o")
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

const NO_SUCH_KEY: Result<(), Denial> = Err(Denial::BadCredential(TokenError::UnknownKey));

#[tokio::test(start_paused = true)]
async fn unknown_key_is_fetched_once_for_all() {
    let (one, two) = (signer("one"), signer("two"));
    let stage = Stage::with(&one, &other()).await;
    assert_eq!(stage.asked(&one).await, Ok(()));
    pass(20).await;
    let before = stage.host.fetches();
    stage.host.set(ISS, Ok(json!({"keys": [one.jwk(), two.jwk()]}).to_string()));
    let callers = join_all((0..200).map(|_| stage.asked(&two))).await;
    assert!(callers.iter().all(Result::is_ok), "{callers:?}");
    assert_eq!(stage.host.fetches(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn made_up_keys_cause_few_fetches() {
    let (one, made_up) = (signer("one"), signer("made-up"));
    let stage = Stage::with(&one, &other()).await;
    let before = stage.host.fetches();
    for _ in 0..100 {
        assert!(stage.asked(&made_up).await.is_err());
        pass(1).await;
    }
    assert!((8..=11).contains(&(stage.host.fetches() - before)), "{}", stage.host.fetches() - before);
}

#[tokio::test(start_paused = true)]
async fn only_a_later_set_refuses_a_key() {
    let (one, two) = (signer("one"), signer("two"));
    let stage = Stage::with(&one, &other()).await;
    pass(5).await;
    // Nobody may ask again yet, and the set is older than the token.
    let token = two.token("jira", REGIONS, stage.now());
    assert_eq!(stage.ask(&token).await.map(drop), Err(Denial::KeysUnknown));
    pass(6).await;
    assert_eq!(stage.ask(&token).await.map(drop), NO_SUCH_KEY);
    // Fetched in the second in which it was made: before or after it.
    pass(300).await;
    let token = two.token("jira", REGIONS, stage.now());
    assert_eq!(stage.ask(&token).await.map(drop), Err(Denial::KeysUnknown));
    // What does not say when it was made may be newer than any set.
    let claims = json!({"iss": ISS, "sub": "jira", "aud": REGIONS, "exp": stage.now() + 600});
    assert_eq!(stage.ask(&two.of_claims(&claims)).await.map(drop), Err(Denial::KeysUnknown));
}

#[tokio::test(start_paused = true)]
async fn failing_issuer_keeps_its_keys_a_day() {
    let (one, two) = (signer("one"), other());
    let stage = Stage::with(&one, &two).await;
    let unreachable = FetchError::Unreachable { host: "h".to_owned(), why: "refused".to_owned() };
    let faults = [
        Err(unreachable),
        Err(FetchError::Large { host: "h".to_owned() }),
        Err(FetchError::Status { host: "h".to_owned(), status: 302 }),
        Ok(json!({"keys": []}).to_string()),
        Ok(json!({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}).to_string()),
        Ok(json!({"keys": [signer("one").jwk(), signer("one").jwk()]}).to_string()),
        Ok("<html>".to_owned()),
    ];
    for fault in faults {
        stage.host.set(ISS, fault.clone());
        pass(600).await;
        assert_eq!(stage.asked(&one).await, Ok(()), "{fault:?}");
        let shown = stage.issuers.states();
        assert!(shown[0].failure.is_some() && shown[1].failure.is_none(), "{fault:?}: {shown:?}");
        assert!(shown[0].age.unwrap() >= Duration::from_secs(600));
    }
    pass(86_400).await;
    assert_eq!(stage.asked(&one).await, Err(Denial::KeysUnknown));
    assert_eq!(stage.asked(&two).await, Ok(()), "another issuer's callers");
    assert!(!stage.issuers.states()[0].is_known && stage.issuers.any_known());
    stage.host.set(ISS, Ok(one.jwks()));
    pass(20).await;
    assert_eq!(stage.asked(&one).await, Ok(()));
    assert_eq!(stage.issuers.states()[0].failure, None);
}

#[tokio::test(start_paused = true)]
async fn remembered_callers_end_with_their_keys() {
    let (one, two) = (signer("one"), signer("two"));
    let stage = Stage::with(&one, &other()).await;
    let token = one.token("jira", REGIONS, stage.now());
    let known = stage.ask(&token).await.unwrap();
    assert!(known.holds(stage.clock.wall(), stage.issuers.epoch(), None));
    stage.host.set(ISS, Ok(two.jwks()));
    pass(400).await;
    assert!(!known.holds(Wall::from_millis(NOW * 1_000), stage.issuers.epoch(), None));
    assert_eq!(stage.ask(&token).await.map(drop), NO_SUCH_KEY);
    // Those of keys that are too old end when these do, not a minute later.
    stage.host.set(ISS, Err(FetchError::Slow));
    let last = stage.issuers.states()[0].age.unwrap();
    tokio::time::sleep(Duration::from_secs(86_390) - last).await;
    let known = stage.ask(&two.token("jira", REGIONS, stage.now())).await.unwrap();
    assert!(!known.holds(stage.clock.wall() + Duration::from_secs(11), stage.issuers.epoch(), None));
}

#[tokio::test(start_paused = true)]
async fn slow_issuer_holds_callers_briefly() {
    let one = signer("one");
    let stage = Stage::new();
    stage.host.is_stuck.store(true, Ordering::Relaxed);
    stage.issuers.watch(&stage.tasks);
    let began = stage.clock.now();
    let callers = join_all((0..KEY_WAITERS).map(|_| stage.asked(&one)));
    let beyond = async {
        // Behind the others.
        tokio::time::sleep(Duration::from_millis(1)).await;
        (stage.asked(&one).await, stage.clock.now() - began)
    };
    let (callers, (refused, after)) = tokio::join!(callers, beyond);
    assert!(callers.iter().all(|answer| *answer == Err(Denial::KeysUnknown)));
    assert_eq!(stage.clock.now() - began, KEY_WAIT);
    assert!(refused == Err(Denial::KeysUnknown) && after < Duration::from_millis(10), "{refused:?} {after:?}");
    assert!(!stage.issuers.any_known());
    stage.host.is_stuck.store(false, Ordering::Relaxed);
    stage.host.set(ISS, Ok(one.jwks()));
    pass(30).await;
    assert!(stage.issuers.any_known(), "one issuer is enough");
    assert_eq!(stage.asked(&one).await, Ok(()));
}
