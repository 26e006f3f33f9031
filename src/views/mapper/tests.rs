//! One view, with everything that can happen while it is mapped.

use std::collections::BTreeMap;

use futures_util::future::FutureExt;
use tokio::sync::Mutex;

use super::super::scripted::{Home, LIMITS, Plan, PlannedStore, views};
use super::*;
use crate::engine::delegate_tables;
use crate::engine::follow::Apply;
use crate::engine::memory::MemoryStore;
use crate::telemetry::limits::RATIONED_LINES;
use crate::telemetry::scripted::CountedLines;

fn limits_view() -> Arc<ViewDefinition> {
    views(LIMITS).remove(0)
}

fn shard(key: &str) -> JoinTarget {
    JoinTarget { record_type: "shard".to_owned(), key: key.to_owned() }
}

/// A tenant on shard `a`, mapped; `b` exists too.
async fn settled() -> Home {
    let home = Home::new();
    home.put("shard", "a", 11, Some(r#"{"host":"ha"}"#)).await;
    home.put("shard", "b", 12, Some(r#"{"host":"hb"}"#)).await;
    home.put("tenant", "acme", 1, Some(r#"{"users":1,"shard":"a"}"#)).await;
    let outcome = home.mapper().map(&limits_view(), "acme", Trigger::Main(1)).await.unwrap();
    assert!(matches!(outcome, MapOutcome::Written(_)));
    home
}

#[tokio::test(start_paused = true)]
async fn view_follows_record_and_its_references() {
    let home = settled().await;
    assert_eq!(home.view("limits", "acme").await, Some((1_000_000, Some(r#"{"users":1,"host":"ha"}"#.to_owned()))));
    home.assert_right(LIMITS).await;
    let (mapper, view) = (home.mapper(), limits_view());
    assert_eq!(mapper.map(&view, "acme", Trigger::Main(1)).await, Ok(MapOutcome::Unchanged), "a repeated change");
    home.put("tenant", "acme", 2, Some(r#"{"users":1,"shard":"b"}"#)).await;
    let outcome = mapper.map(&view, "acme", Trigger::Main(2)).await;
    assert_eq!(outcome, Ok(MapOutcome::Written(1_000_001)), "a version grows though the clock stands still");
    home.assert_right(LIMITS).await;
    home.put("tenant", "acme", 3, None).await;
    mapper.map(&view, "acme", Trigger::Main(3)).await.unwrap();
    assert_eq!(home.view("limits", "acme").await, Some((1_000_002, None)));
    home.assert_right(LIMITS).await;
    home.put("tenant", "acme", 4, Some("{}")).await;
    mapper.map(&view, "acme", Trigger::Main(4)).await.unwrap();
    assert_eq!(home.view("limits", "acme").await, Some((1_000_003, Some("{}".to_owned()))));
    home.assert_right(LIMITS).await;
    assert_eq!(mapper.map(&view, "nobody", Trigger::Main(1)).await, Ok(MapOutcome::NoRecord));
    assert_eq!(home.view("limits", "nobody").await, None);
}

#[tokio::test(start_paused = true)]
async fn joined_record_vanishes_and_returns() {
    let home = Home::new();
    let triggers = home.triggers(LIMITS);
    let users_only = Some(r#"{"users":1}"#.to_owned());
    // The target is named before it exists.
    triggers.apply(home.put("tenant", "acme", 1, Some(r#"{"users":1,"shard":"a"}"#)).await).await.unwrap();
    assert_eq!(home.view("limits", "acme").await, Some((1_000_000, users_only.clone())));
    for (version, body, expected) in [
        (5, Some(r#"{"host":"h1"}"#), Some(r#"{"users":1,"host":"h1"}"#.to_owned())),
        (6, None, users_only.clone()),
        (7, Some(r#"{"host":"h2"}"#), Some(r#"{"users":1,"host":"h2"}"#.to_owned())),
        (8, Some("{}"), users_only),
    ] {
        triggers.apply(home.put("shard", "a", version, body).await).await.unwrap();
        assert_eq!(home.view("limits", "acme").await.unwrap().1, expected, "shard at version {version}");
        home.assert_right(LIMITS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn equal_content_rewrites_no_view() {
    let home = settled().await;
    let before = home.view("limits", "acme").await;
    let triggers = home.triggers(LIMITS);
    triggers.apply(home.put("shard", "a", 20, Some(r#"{"host":"ha","load":7}"#)).await).await.unwrap();
    triggers.apply(home.put("tenant", "acme", 21, Some(r#"{"users":1,"shard":"a","x":1}"#)).await).await.unwrap();
    assert_eq!(home.view("limits", "acme").await, before);
    home.assert_right(LIMITS).await;
    let mut views = home.store.dump(Table::Views);
    assert_eq!(views.len(), 1);
    assert_eq!(views.remove(0).version, before.unwrap().0);
}

/// Change of a scenario between the settled state and the trigger that is cut short.
type Change = (&'static str, &'static str, Option<&'static str>);

const CHANGES: [Change; 7] = [
    ("tenant", "acme", Some(r#"{"users":2,"shard":"a"}"#)),
    ("tenant", "acme", Some(r#"{"users":1,"shard":"b"}"#)),
    ("tenant", "acme", Some(r#"{"users":2}"#)),
    ("tenant", "acme", None),
    ("shard", "a", Some(r#"{"host":"hc"}"#)),
    ("shard", "a", None),
    ("shard", "b", Some(r#"{"host":"hd"}"#)),
];

/// Exhaustive: before and after every call.
#[tokio::test(start_paused = true)]
async fn crash_between_steps_yields_same_bytes() {
    for (record_type, key, body) in CHANGES {
        let smooth = settled().await;
        let changes = smooth.put(record_type, key, 100, body).await;
        smooth.triggers(LIMITS).apply(changes).await.unwrap();
        let expected = smooth.view("limits", "acme").await.unwrap().1;
        let mut cut_short = 0;
        for (at, is_after) in (0..40).flat_map(|at| [(at, false), (at, true)]) {
            let home = settled().await;
            let changes = home.put(record_type, key, 100, body).await;
            let plan = if is_after { Plan::DiesAfter } else { Plan::DiesBefore };
            let store = PlannedStore::new(home.store.clone(), at, plan);
            let dying = super::super::triggers::Triggers::new(home.mapper_on(store.clone()), views(LIMITS));
            let died = dying.apply(changes.clone()).await.is_err();
            assert_eq!(died, store.was_reached());
            cut_short += u32::from(died);
            let mut seen = BTreeMap::new();
            home.assert_versions_grow(&mut seen);
            // The next process gets the change again.
            home.triggers(LIMITS).apply(changes).await.unwrap();
            home.assert_versions_grow(&mut seen);
            assert_eq!(home.view("limits", "acme").await.unwrap().1, expected, "{record_type} cut at {at}");
            home.assert_right(LIMITS).await;
        }
        assert!(cut_short >= 8, "the cuts reach into the mapping: {cut_short}");
    }
}

/// Exhaustive: at every call of one mapper, a record changes and its feed's trigger is handled to
/// the end by another. Nothing else comes afterwards, so whatever is lost here is lost.
#[tokio::test(start_paused = true)]
async fn no_change_during_mapping_is_lost() {
    for (first, second) in CHANGES.into_iter().flat_map(|first| CHANGES.map(|second| (first, second))) {
        let mut interrupted = 0;
        for at in 0..24 {
            let home = settled().await;
            let changes = home.put(first.0, first.1, 100, first.2).await;
            let other = home.clone();
            home.clock.step_wall(10);
            let meanwhile = async move {
                // The other process has a clock that is behind.
                other.clock.step_wall(-10);
                let changes = other.put(second.0, second.1, 101, second.2).await;
                other.triggers(LIMITS).apply(changes).await.unwrap();
            };
            let plan = Plan::Interrupted(Mutex::new(Some(meanwhile.boxed())));
            let store = PlannedStore::new(home.store.clone(), at, plan);
            let triggers = super::super::triggers::Triggers::new(home.mapper_on(store.clone()), views(LIMITS));
            triggers.apply(changes).await.unwrap();
            if !store.was_reached() {
                break;
            }
            interrupted += 1;
            home.assert_right_but_for_references(LIMITS, &format!("{first:?} then {second:?} at {at}")).await;
        }
        assert!(interrupted >= 4, "{interrupted}");
    }
}

#[tokio::test(start_paused = true)]
async fn orphaned_reference_goes_with_next_trigger() {
    let home = settled().await;
    home.put("tenant", "acme", 2, Some(r#"{"users":1,"shard":"b"}"#)).await;
    // Killed when the references are written: the note, the record, the references.
    let store = PlannedStore::new(home.store.clone(), 3, Plan::DiesBefore);
    home.mapper_on(store).map(&limits_view(), "acme", Trigger::Main(2)).await.unwrap_err();
    let triggers = home.triggers(LIMITS);
    triggers.apply(home.put("tenant", "acme", 3, Some(r#"{"users":1,"shard":"a"}"#)).await).await.unwrap();
    assert_eq!(home.partitions("reference#").len(), 2, "one of them is superfluous");
    triggers.apply(home.put("shard", "b", 13, Some("{}")).await).await.unwrap();
    home.assert_right(LIMITS).await;
}

#[tokio::test(start_paused = true)]
async fn old_definition_never_overwrites_newer_view() {
    let newer =
        LIMITS.replace("definition = 2", "definition = 3").replace("users = \"/users\"", "seats = \"/users\"");
    for at in 0..8 {
        let home = settled().await;
        home.put("tenant", "acme", 2, Some(r#"{"users":2,"shard":"b"}"#)).await;
        let (other, view) = (home.clone(), views(&newer).remove(0));
        let meanwhile = async move {
            other.mapper().map(&view, "acme", Trigger::Afresh).await.unwrap();
        };
        let plan = Plan::Interrupted(Mutex::new(Some(meanwhile.boxed())));
        let store = PlannedStore::new(home.store.clone(), at, plan);
        let old = home.mapper_on(store);
        old.map(&limits_view(), "acme", Trigger::Main(2)).await.unwrap();
        let view = views(&newer).remove(0);
        home.mapper().map(&view, "acme", Trigger::Afresh).await.unwrap();
        assert_eq!(old.map(&limits_view(), "acme", Trigger::Afresh).await, Ok(MapOutcome::LeftAlone));
        home.assert_right(&newer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn unmappable_view_stays_among_failures() {
    let home = settled().await;
    let (mapper, view) = (home.mapper(), limits_view());
    let before = home.view("limits", "acme").await;
    let large = format!(r#"{{"users":"{}","shard":"b"}}"#, "x".repeat(crate::engine::limits::BODY_BYTES - 40));
    home.put("shard", "b", 13, Some(&format!(r#"{{"host":"{}"}}"#, "y".repeat(100)))).await;
    for (version, body, why) in
        [(2, "[]", Unmappable::Main), (3, large.as_str(), Unmappable::TooLarge), (4, "{", Unmappable::Main)]
    {
        home.put("tenant", "acme", version, Some(body)).await;
        assert_eq!(mapper.map(&view, "acme", Trigger::Main(version)).await, Ok(MapOutcome::Failed(why)));
        assert_eq!(home.view("limits", "acme").await, before, "the last good one stays");
        assert_eq!(home.partitions("failure#").len(), 1);
    }
    home.put("tenant", "acme", 5, Some(r#"{"users":1,"shard":"a"}"#)).await;
    assert_eq!(mapper.map(&view, "acme", Trigger::Main(5)).await, Ok(MapOutcome::Noted));
    // The large record named shard b; that goes when b changes.
    home.triggers(LIMITS).apply(home.put("shard", "b", 14, Some("{}")).await).await.unwrap();
    home.assert_right(LIMITS).await;
}

#[tokio::test(start_paused = true)]
async fn broken_input_fails_view_until_mended() {
    let home = settled().await;
    let triggers = home.triggers(LIMITS);
    triggers.apply(home.put("shard", "a", 20, Some("5")).await).await.unwrap();
    assert_eq!(home.partitions("failure#").len(), 1);
    triggers.apply(home.put("shard", "a", 21, Some("{}")).await).await.unwrap();
    assert_eq!(home.view("limits", "acme").await.unwrap().1.unwrap(), r#"{"users":1}"#);
    home.assert_right(LIMITS).await;
}

#[tokio::test(start_paused = true)]
async fn versions_grow_though_tables_are_lost() {
    let home = settled().await;
    let (mapper, view) = (home.mapper(), limits_view());
    home.store.lose(Table::Mapping);
    assert_eq!(mapper.map(&view, "acme", Trigger::Afresh).await, Ok(MapOutcome::Noted), "the content was right");
    home.assert_right(LIMITS).await;
    home.store.lose(Table::Mapping);
    home.put("tenant", "acme", 2, Some(r#"{"users":2,"shard":"a"}"#)).await;
    assert_eq!(mapper.map(&view, "acme", Trigger::Main(2)).await, Ok(MapOutcome::Written(1_000_001)));
    home.store.lose(Table::Views);
    assert_eq!(mapper.map(&view, "acme", Trigger::Afresh).await, Ok(MapOutcome::Written(1_000_002)));
    home.assert_right(LIMITS).await;
    // Both at once: only the clock is left.
    home.store.lose(Table::Views);
    home.store.lose(Table::Mapping);
    home.clock.step_wall(5);
    assert_eq!(mapper.map(&view, "acme", Trigger::Afresh).await, Ok(MapOutcome::Written(1_000_005)));
    home.assert_right(LIMITS).await;
}

#[tokio::test(start_paused = true)]
async fn rolled_back_records_change_nothing() {
    let home = settled().await;
    let before = home.view("limits", "acme").await;
    home.put("shard", "a", 3, Some("{}")).await;
    let view = limits_view();
    assert_eq!(home.mapper().map(&view, "acme", Trigger::Afresh).await, Ok(MapOutcome::LeftAlone));
    let key = stored::current("tenant", "acme");
    home.store.tamper(Table::Records, &key, None);
    assert_eq!(home.mapper().map(&view, "acme", Trigger::Afresh).await, Ok(MapOutcome::NoRecord));
    assert_eq!(home.view("limits", "acme").await, before);
}

/// Nor does it say that the view cannot be made, because its own definition cannot make it.
#[tokio::test(start_paused = true)]
async fn old_definition_fails_no_newer_view() {
    let home = settled().await;
    let alone = "[[view]]\nname = \"limits\"\ndefinition = 3\nfrom = \"tenant\"\nfields = { users = \"/users\" }\n";
    home.mapper().map(&views(alone)[0], "acme", Trigger::Afresh).await.unwrap();
    home.put("shard", "a", 20, Some("5")).await;
    assert_eq!(home.mapper().map(&limits_view(), "acme", Trigger::Afresh).await, Ok(MapOutcome::LeftAlone));
    home.assert_right(alone).await;
}

/// A store whose conditional writes always lose.
struct Contended(MemoryStore);

impl Tables for Contended {
    delegate_tables!(0: get, query, last, scan);

    fn write(&self, writes: Vec<ItemWrite>) -> futures_util::future::BoxFuture<'_, Result<(), WriteError>> {
        if writes.iter().any(|write| write.condition() != Condition::Any) {
            futures_util::future::ready(Err(WriteError::Conflict(vec![0]))).boxed()
        } else {
            self.0.write(writes)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn contended_view_is_left_for_later() {
    let home = settled().await;
    home.put("tenant", "acme", 2, Some("{}")).await;
    let mapper = home.mapper_on(Arc::new(Contended(home.store.clone())));
    let error = mapper.map(&limits_view(), "acme", Trigger::Main(2)).await.unwrap_err();
    assert!(error.is_transient());
}

#[tokio::test(start_paused = true)]
async fn unneeded_trigger_moves_only_count() {
    let home = settled().await;
    let before = home.view("limits", "acme").await;
    let view = limits_view();
    let stray = shard("b");
    assert_eq!(home.mapper().map(&view, "acme", Trigger::Input(&stray, 12)).await, Ok(MapOutcome::Noted));
    assert_eq!(home.view("limits", "acme").await, before);
    home.assert_right(LIMITS).await;
}

#[tokio::test(start_paused = true)]
async fn afresh_trigger_trusts_no_notes() {
    let home = settled().await;
    let (mapper, view) = (home.mapper(), limits_view());
    home.store.tamper(Table::Mapping, &stored::reference(&shard("a"), "limits", "acme"), None);
    assert_eq!(mapper.map(&view, "acme", Trigger::Afresh).await, Ok(MapOutcome::Unchanged));
    home.assert_right(LIMITS).await;
    let spoiled = Item::new(stored::current("limits", "acme"), 1_000_000).with_body(Bytes::from_static(b"{}"));
    home.store.tamper(Table::Views, &spoiled.key.clone(), Some(spoiled));
    assert_eq!(mapper.map(&view, "acme", Trigger::Afresh).await, Ok(MapOutcome::Written(1_000_001)));
    home.assert_right(LIMITS).await;
}

/// Somebody's hands, or a note that was restored from a backup.
#[tokio::test(start_paused = true)]
async fn view_ahead_of_note_stays_ahead() {
    let home = settled().await;
    let ahead = Item::new(stored::current("limits", "acme"), 2_000_000).with_body(Bytes::from_static(b"{}"));
    home.store.tamper(Table::Views, &ahead.key.clone(), Some(ahead));
    home.put("tenant", "acme", 2, Some(r#"{"users":2,"shard":"a"}"#)).await;
    let outcome = home.mapper().map(&limits_view(), "acme", Trigger::Main(2)).await;
    assert_eq!(outcome, Ok(MapOutcome::Written(2_000_001)));
    home.assert_right(LIMITS).await;
}

#[tokio::test(start_paused = true)]
async fn unmappable_records_fill_no_log() {
    let (home, lines) = (Home::new(), CountedLines::start());
    for number in 0..100 {
        let key = format!("t{number}");
        home.put("tenant", &key, 1, Some("[]")).await;
        let outcome = home.mapper().map(&limits_view(), &key, Trigger::Main(1)).await.unwrap();
        assert!(matches!(outcome, MapOutcome::Failed(_)));
    }
    assert_eq!(lines.with("a view cannot be made"), RATIONED_LINES.0 as usize);
    tokio::time::advance(RATIONED_LINES.1).await;
    home.put("tenant", "last", 1, Some("[]")).await;
    home.mapper().map(&limits_view(), "last", Trigger::Main(1)).await.unwrap();
    assert_eq!(lines.with("suppressed=90"), 1, "and says how many it left out");
}
