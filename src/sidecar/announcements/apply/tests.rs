//! From a verified message to an event, and what is remembered of it (R12).

use parking_lot::Mutex;

use super::*;
use crate::aws::certificate::fetch::Fetcher;
use crate::aws::envelope::SignatureVersion;
use crate::aws::verify::{Rejected, Verifier};
use crate::cache::key::HashKey;
use crate::config::{IdentityMode, PathTemplate, RecordTemplate, RegionConfig, Route, Service, TopicArn};
use crate::lab::signer::Signer;
use crate::protocol::event::Alarm;

const NOW: Wall = Wall::from_millis(1_795_237_200_000);
const REGION: RegionId = RegionId(0);

fn keyed_hashes() -> KeyedHashes {
    let records = vec![RecordTemplate { record_type: "context".into(), key: Vec::new() }];
    let route = Route {
        path: PathTemplate { text: "/".into(), segments: Vec::new() },
        records,
        identity: IdentityMode::Exact(Vec::new()),
        ..Default::default()
    };
    KeyedHashes::new(&Service { name: "test".into(), routes: vec![route], ..Default::default() }, HashKey::random())
}

struct World {
    applier: Applier,
    keyed_hashes: Arc<KeyedHashes>,
    events: Arc<Mutex<Vec<Event>>>,
    asked: Arc<Mutex<Vec<Action>>>,
}

impl World {
    fn new() -> Self {
        Self::with(Arc::new(Remembered::new()))
    }

    /// Freshness is a notebook that asks for one action per event.
    fn with(remembered: Arc<Remembered>) -> Self {
        let keyed_hashes = Arc::new(keyed_hashes());
        let (events, asked) = (Arc::<Mutex<Vec<Event>>>::default(), Arc::<Mutex<Vec<Action>>>::default());
        let step: Step = Box::new({
            let events = events.clone();
            move |_, _, event| {
                events.lock().push(event);
                vec![Action::Alarm(REGION, Alarm::FloorDropped)]
            }
        });
        let sink: ActionSink = Box::new({
            let asked = asked.clone();
            move |actions| asked.lock().extend(actions)
        });
        let metrics = Arc::new(Metrics::default());
        let clock = Clock::simulated(NOW);
        let applier =
            Applier::new(step, keyed_hashes.clone(), remembered.clone(), clock, metrics, Arc::default(), sink);
        Self { applier, keyed_hashes, events, asked }
    }

    async fn verify(&self, verifier: &Verifier, raw: &str) -> Result<Applied, Rejected> {
        let verified = verifier.verify(REGION, raw.as_bytes()).await?;
        Ok(self.applier.apply(REGION, verified, None))
    }

    fn apply(&self, message: &str) -> Applied {
        let verified = Verified::Notification { message: message.into(), published: NOW, message_id: "an-id".into() };
        self.applier.apply(REGION, verified, Some(NOW))
    }

    /// The outcome, what was said and by whom.
    fn said(&self, message: &str) -> (Applied, Says, Option<(u64, u64)>) {
        let applied = self.apply(message);
        let event = self.events.lock().pop().unwrap();
        let Event::Message { region, published, queued, numbered, says } = event else { panic!("{event:?}") };
        assert_eq!((region, published, queued), (REGION, NOW, Some(NOW)));
        (applied, says, numbered)
    }
}

#[tokio::test]
async fn every_kind_maps_to_its_event() {
    let world = World::new();
    let record = world.keyed_hashes.record("context", "acme").unwrap();
    let kind = world.keyed_hashes.type_id("context").unwrap();
    for (message, applied, says) in [
        (
            r#"{"recordType":"context","key":"acme","version":7}"#,
            Applied::Announced,
            Says::Changed(record, Some(Version(7))),
        ),
        (r#"{"recordType":"context","key":"acme"}"#, Applied::Announced, Says::Changed(record, None)),
        (r#"{"recordType":"context","key":"acme","version":-1}"#, Applied::Announced, Says::Deleted(record, None)),
        (
            r#"{"recordType":"context","key":"acme","version":8,"kind":"DELETED"}"#,
            Applied::Announced,
            Says::Deleted(record, Some(Version(8))),
        ),
        (
            r#"{"recordType":"context","key":"acme","version":-2}"#,
            Applied::Announced,
            Says::Reload(Scope::Record(record)),
        ),
        (r#"{"recordType":"context","kind":"RELOAD"}"#, Applied::Announced, Says::Reload(Scope::Type(kind))),
        (r#"{"kind":"RELOAD"}"#, Applied::Announced, Says::Reload(Scope::All)),
        // No route names them, and they are no other service's (R21).
        (r#"{"recordType":"_grants","key":"grants","version":7}"#, Applied::Grants, Says::Grants(Some(7))),
        (r#"{"recordType":"_grants","kind":"RELOAD"}"#, Applied::Grants, Says::Grants(None)),
        (r#"{"recordType":"other","key":"acme"}"#, Applied::Unrouted, Says::Unrouted),
        (r#"{"recordType":"other","kind":"RELOAD"}"#, Applied::Unrouted, Says::Unrouted),
        ("hello, world", Applied::Undecodable, Says::Undecodable),
    ] {
        assert_eq!(world.said(message), (applied, says, None), "{message}");
    }
}

#[tokio::test]
async fn unrouted_type_keeps_publisher_number() {
    let world = World::new();
    let publisher = world.keyed_hashes.publisher("p1");
    let routed = world.said(r#"{"recordType":"context","key":"acme","publisher":"p1","sequence":3}"#);
    assert_eq!(routed.2, Some((publisher, 3)));
    let unrouted = world.said(r#"{"recordType":"other","key":"acme","publisher":"p1","sequence":"4"}"#);
    assert_eq!((unrouted.0, unrouted.2), (Applied::Unrouted, Some((publisher, 4))));
    let heartbeat = world.said(
        r#"{"kind":"HEARTBEAT","publisher":"p1","sequence":4,"ingestedThrough":"2026-11-21T05:00:00Z","signingOff":true}"#,
    );
    let says = Says::Heartbeat { path: false, ingested_through: Some(NOW), signing_off: true };
    assert_eq!(heartbeat, (Applied::Heartbeat, says, Some((publisher, 4))));
}

#[tokio::test]
async fn path_heartbeat_claims_no_ingest() {
    let world = World::new();
    let publisher = world.keyed_hashes.publisher("path:eu-west-1");
    let heartbeat = world.said(
        r#"{"kind":"HEARTBEAT","publisher":"path:eu-west-1","sequence":359047440,
            "ingestedThrough":"2026-11-21T05:00:00Z","signingOff":true}"#,
    );
    let says = Says::Heartbeat { path: true, ingested_through: None, signing_off: false };
    assert_eq!(heartbeat, (Applied::Heartbeat, says, Some((publisher, 359_047_440))));
    let change = world.said(r#"{"recordType":"context","key":"acme","publisher":"path:eu-west-1","sequence":1}"#);
    assert_eq!((change.0, change.2), (Applied::Announced, None));
}

#[tokio::test]
async fn freshness_actions_reach_sink() {
    let world = World::new();
    world.apply(r#"{"kind":"HEARTBEAT"}"#);
    assert_eq!(*world.asked.lock(), [Action::Alarm(REGION, Alarm::FloorDropped)]);
}

/// R12: if it were remembered earlier, a copy of a message that was never applied would pass for
/// applied.
#[tokio::test]
async fn mixed_letter_case_is_noticed() {
    let mut world = World::new();
    let read = world.keyed_hashes.record("context", "acme").unwrap();
    let unread = Arc::<Mutex<Vec<_>>>::default();
    let noted = unread.clone();
    world.applier = world.applier.comparing_keys(
        Box::new(move |record| record == read),
        Box::new(move |_, region, meant, _| noted.lock().push((region, meant))),
    );
    for key in ["acme", "ACME", "Acme", "context:acme", "zeta"] {
        world.apply(&format!(r#"{{"recordType":"context","key":"{key}","version":"1","kind":"CHANGED"}}"#));
    }
    let (case, around) = (Some((read, KeySpelling::LetterCase)), Some((read, KeySpelling::Around)));
    assert_eq!(*unread.lock(), [case, case, around, None].map(|meant| (REGION, meant)));
}

#[tokio::test]
async fn message_is_remembered_after_applying() {
    let remembered = Arc::new(Remembered::new());
    let known = remembered.clone();
    let step: Step = Box::new(move |_, _, _| {
        assert!(!known.contains(REGION, "an-id"), "while it is applied");
        Vec::new()
    });
    let (clock, sink): (Clock, ActionSink) = (Clock::simulated(NOW), Box::new(drop));
    let keyed_hashes = Arc::new(keyed_hashes());
    let applier = Applier::new(step, keyed_hashes, remembered.clone(), clock, Arc::default(), Arc::default(), sink);
    let message = r#"{"kind":"HEARTBEAT"}"#.into();
    applier.apply(REGION, Verified::Notification { message, published: NOW, message_id: "an-id".into() }, None);
    assert!(remembered.contains(REGION, "an-id"));
}

#[tokio::test]
async fn confirmations_and_copies_reach_no_freshness() {
    let world = World::new();
    let topic = topic();
    for (verified, applied) in [
        (Verified::Copy, Applied::Copy),
        (Verified::Confirmation { token: "t".into(), topic }, Applied::Lifecycle),
        (Verified::Unsubscribed { published: NOW }, Applied::Lifecycle),
    ] {
        assert_eq!(world.applier.apply(REGION, verified, None), applied);
    }
    assert!(world.events.lock().is_empty());
}

fn topic() -> TopicArn {
    TopicArn {
        arn: "arn:aws:sns:eu-west-1:123456789012:changes".into(),
        partition: "aws".into(),
        region: "eu-west-1".into(),
        account: "123456789012".into(),
        name: "changes".into(),
    }
}

#[tokio::test]
async fn duplicate_message_proves_nothing() {
    let url = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";
    let signer = Signer::generate(Wall::default(), NOW + std::time::Duration::from_secs(60));
    let pem = bytes::Bytes::copy_from_slice(signer.certificate_pem().as_bytes());
    let region = RegionConfig {
        name: "r".into(),
        url: url::Url::parse("http://127.0.0.1").unwrap(),
        topic: Some(topic()),
        ..Default::default()
    };
    let fetcher = Fetcher::given(move |_| Ok(pem.clone()));
    let verifier = Verifier::new(&[region], None, Clock::simulated(NOW), fetcher);
    let world = World::with(verifier.remembered());

    let raw = signer.notification(&topic().arn, r#"{"kind":"HEARTBEAT"}"#, NOW, url, SignatureVersion::One);
    let later = raw.replace("2026-11-21T05:00:00.000Z", "2026-11-21T05:10:00.000Z");
    assert_ne!(raw, later);
    assert_eq!(world.verify(&verifier, &later).await, Err(Rejected::Signature));
    assert_eq!(world.verify(&verifier, &raw).await, Ok(Applied::Heartbeat));
    assert_eq!(world.verify(&verifier, &later).await, Ok(Applied::Copy), "acknowledged, no matter who sent it");
    assert_eq!(world.verify(&verifier, &raw).await, Ok(Applied::Copy));
    assert_eq!(world.events.lock().len(), 1, "but only the verified one counted");
}
