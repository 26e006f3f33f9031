//! Those who write through the catalogues, and say who they are in what they write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use nearside::catalogue::{Author, CatalogueError, IdempotencyKey, Preconditions, RecordWrite};

use super::check::Request;
use super::plan::{between, seconds};
use super::world::World;

/// Most attempts at a request with an idempotency key.
const ATTEMPTS: u32 = 6;

enum Heard {
    Versions(Vec<u64>),
    Refused(CatalogueError),
    Nothing,
}

/// Writes until it is calm.
pub(crate) async fn write(world: Arc<World>, number: usize) {
    while !world.is_calm() {
        tokio::time::sleep(between(Duration::ZERO, world.plan.write_every * 2)).await;
        let mut writes = BTreeMap::new();
        for _ in 0..if fastrand::u8(..5) == 0 { fastrand::usize(2..5) } else { 1 } {
            writes.insert(name(), true);
        }
        if writes.len() == 1 && fastrand::u8(..5) == 0 {
            writes.values_mut().for_each(|exists| *exists = false);
        }
        let once = fastrand::u8(..3) > 0;
        ask(&world, &format!("writer-{number}"), &writes, once, fastrand::u8(..4) == 0).await;
    }
}

/// Replaces the grants until it is calm. A write that fails is not repeated.
pub(crate) async fn grant(world: Arc<World>) {
    while !world.is_calm() {
        tokio::time::sleep(between(Duration::ZERO, world.plan.write_every * 8)).await;
        if world.is_calm() {
            return;
        }
        let found = world.catalogues.lock().expect("a plain store").values().next().cloned();
        let Some((catalogue, gate)) = found else { continue };
        let view = format!("v{}", fastrand::u16(..));
        let document =
            format!(r#"{{"format":1,"consumers":{{"c":{{"who":[{{"dns":"c.example"}}],"views":["{view}"]}}}}}}"#);
        let author = Author::anonymous();
        tokio::select! {
            biased;
            () = gate.dead() => {}
            () = tokio::time::sleep(seconds(10)) => {}
            written = catalogue.write_grants(document.into(), Preconditions::none(), None, &author) => {
                world.checker.say(|| format!("the grants are replaced: {:?}", written.map(|(applied, _)| applied.version)));
            }
        }
    }
}

fn name() -> (String, String) {
    match fastrand::u8(..10) {
        0..=5 => ("tenant".to_owned(), format!("t{}", fastrand::u8(..10))),
        6..=8 => ("shard".to_owned(), format!("s{}", fastrand::u8(..4))),
        _ => ("plan".to_owned(), format!("p{}", fastrand::u8(..3))),
    }
}

fn body(record_type: &str, request: u64) -> Bytes {
    let shown = match record_type {
        // Some name what is not there, or nothing.
        "tenant" => format!(
            r#""users":{},"shard":"s{}","plan":"p{}","tag":{}"#,
            fastrand::u16(..),
            fastrand::u8(..5),
            fastrand::u8(..4),
            fastrand::u8(..)
        ),
        "shard" => format!(r#""host":"h{}""#, fastrand::u16(..)),
        _ => format!(r#""quota":{}"#, fastrand::u16(..)),
    };
    Bytes::from(format!(r#"{{"request":{request},{shown}}}"#))
}

/// One request, sent again under its idempotency key while nobody knows; whether it was answered
/// with versions.
async fn ask(
    world: &Arc<World>,
    writer: &str,
    wanted: &BTreeMap<(String, String), bool>,
    is_once: bool,
    is_conditional: bool,
) -> bool {
    let number = world.next_request.fetch_add(1, Ordering::Relaxed);
    let mut writes = Vec::new();
    for ((record_type, key), exists) in wanted {
        let write = if *exists {
            RecordWrite::put(record_type, key, body(record_type, number))
        } else {
            RecordWrite::delete(record_type, key)
        };
        writes.push(write);
    }
    let mut replaces = None;
    if is_conditional && writes.len() == 1 {
        replaces = known(world, &writes[0].record_type, &writes[0].key).await;
        if let Some(version) = replaces {
            writes[0].only_if = Preconditions::version_is(version);
        }
    }
    let parts = writes.iter().map(|it| ((it.record_type.clone(), it.key.clone()), it.body.clone())).collect();
    let request = Request { parts, replaces, ..Request::default() };
    world.checker.lock().requests.insert(number, request);
    let once = is_once.then(|| IdempotencyKey::new(writer, &number.to_string()).expect("digits"));
    for attempt in 1..=if is_once { ATTEMPTS } else { 1 } {
        match send(world, writes.clone(), once.clone()).await {
            Heard::Versions(versions) => {
                world.checker.lock().answered(number, &versions, &world.home);
                return true;
            }
            Heard::Refused(why) => {
                world.checker.say(|| format!("request {number} is refused: {why}"));
                let mut checker = world.checker.lock();
                if matches!(why.root(), CatalogueError::KeyReused) {
                    checker.violated("Once", format!("request {number} is taken for another"));
                }
                // An earlier attempt may still be on its way.
                if let Some(request) = checker.requests.get_mut(&number) {
                    request.is_refused = attempt == 1;
                }
                return false;
            }
            Heard::Nothing => tokio::time::sleep(between(Duration::from_millis(50), seconds(4))).await,
        }
    }
    false
}

/// The version that a reader sees.
async fn known(world: &Arc<World>, record_type: &str, key: &str) -> Option<u64> {
    let found = world.catalogues.lock().expect("a plain store").values().next().cloned();
    let (catalogue, gate) = found?;
    tokio::select! {
        biased;
        () = gate.dead() => None,
        () = tokio::time::sleep(seconds(10)) => None,
        record = catalogue.get(record_type, key) => record.ok().map(|(version, _)| version),
    }
}

/// One attempt, which goes on when its caller has left.
async fn send(world: &Arc<World>, writes: Vec<RecordWrite>, once: Option<IdempotencyKey>) -> Heard {
    let number = fastrand::usize(..2);
    let found = world.catalogues.lock().expect("a plain store").get(&number).cloned();
    let Some((catalogue, gate)) = found else { return Heard::Nothing };
    let (tell, received) = oneshot::channel();
    let request = async move {
        let answer = match &writes[..] {
            [write] => catalogue
                .write(write.clone(), once.as_ref(), &Author::anonymous())
                .await
                .map(|(applied, _)| vec![applied]),
            writes => catalogue.batch(writes, once.as_ref(), &Author::anonymous()).await.map(|answer| answer.applied),
        };
        let _ = tell.send(match answer {
            Ok(applied) => Heard::Versions(applied.into_iter().map(|applied| applied.version).collect()),
            Err(CatalogueError::OutcomeUnknown) => Heard::Nothing,
            Err(error) => Heard::Refused(error),
        });
    };
    world.requests.lock().expect("a plain store").start(request);
    tokio::select! {
        biased;
        () = gate.dead() => Heard::Nothing,
        heard = received => heard.unwrap_or(Heard::Nothing),
        () = tokio::time::sleep(seconds(15)) => Heard::Nothing,
    }
}

async fn insist(world: &Arc<World>, name: (String, String), exists: bool) {
    let wanted = BTreeMap::from([(name, exists)]);
    for _ in 0..ATTEMPTS {
        if ask(world, "operator", &wanted, true, false).await {
            return;
        }
    }
    world.checker.lock().violated("Writable", "a record that was lost cannot be written anew".to_owned());
}

/// Writes every record anew that a lost table had.
pub(crate) async fn write_anew(world: &Arc<World>) {
    let newest = world.checker.lock().newest();
    for (name, body) in newest {
        insist(world, name.clone(), true).await;
        if body.is_none() {
            insist(world, name, false).await;
        }
    }
}
