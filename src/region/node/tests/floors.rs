//! G4: a sidecar gets the version that it knows of, for as few reads as can be.

use super::*;
use crate::protocol::event::Alarm;
use crate::protocol::label::Label;

#[tokio::test(start_paused = true)]
async fn reply_at_floor_satisfies_no_cache() {
    let node = Node::heard().await;
    node.ingest("acme", 5).await;
    node.get(LIMITS, &[]).await;
    node.reads();
    for floor in ["5", "4"] {
        let got = node.at_floor(floor).await;
        assert!(got.is_hit() && got.version() == 5, "{got:?}");
    }
    assert_eq!(node.get(LIMITS, &[("cache-control", "no-cache, max-age=0")]).await.version(), 5);
    node.beat(2 * SECOND).await;
    node.get(LIMITS, &[("cache-control", "no-cache")]).await;
    assert_eq!(node.reads(), 2, "who states no floor gets what is in the table");
    for nonsense in ["", "five", "0", "5, 5", "-1"] {
        node.beat(SECOND).await;
        assert!(!node.at_floor(nonsense).await.is_hit(), "{nonsense:?}");
    }
    node.stop().await;
}

/// Request of a sidecar after a RELOAD: only what was read after that counts.
#[tokio::test(start_paused = true)]
async fn reply_beyond_max_age_rereads_once() {
    let node = Node::heard().await;
    node.ingest("acme", 5).await;
    node.get(LIMITS, &[]).await;
    node.beat(30 * SECOND).await;
    node.reads();
    let since = [("cache-control", "no-cache, max-age=10"), ("x-record-floor", "5")];
    for reads in [1, 0] {
        assert_eq!(node.get(LIMITS, &since).await.version(), 5);
        assert_eq!(node.reads(), reads);
        node.beat(SECOND).await;
    }
    node.stop().await;
}

/// The node does not know yet of what another region's topic brought to the sidecar.
#[tokio::test(start_paused = true)]
async fn reply_below_stated_floor_is_reread() {
    let node = Node::heard().await;
    node.ingest("acme", 5).await;
    node.get(LIMITS, &[]).await;
    node.put("acme", 6, Some("{}")).await;
    let got = node.get(LIMITS, &[("x-record-floor", "6")]).await;
    assert_eq!((got.version(), got.is_hit()), (6, false), "{got:?}");
    assert_eq!(node.at_floor("6").await.version(), 6);
    assert_eq!(node.reads(), 2);
    assert_eq!(node.floor(), 6, "by what was served, not by what a caller said");
    assert_eq!(node.at_floor("999").await.version(), 6);
    assert_eq!(node.floor(), 6, "no caller's word moves it");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn thousand_readers_at_floor_share_read() {
    let node = Node::heard().await;
    node.ingest("acme", 5).await;
    node.get(LIMITS, &[]).await;
    node.put("acme", 6, Some("{}")).await;
    node.reads();
    node.next_reads_take(&[5, 5, 5]);
    let readers = join_all((0..1_000).map(|_| node.at_floor("6"))).await;
    assert!(readers.iter().all(|got| got.version() == 6));
    assert_eq!(node.reads(), 1);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn thousand_readers_ahead_cost_two_reads() {
    let node = Node::heard().await;
    node.ingest("acme", 5).await;
    node.next_reads_take(&[5, 5, 5]);
    let readers = join_all((0..1_000).map(|_| node.at_floor("7"))).await;
    assert!(readers.iter().all(|got| got.status == 200 && got.version() == 5));
    assert!(node.reads() <= 2);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn reader_at_floor_joins_running_read() {
    let node = Node::heard().await;
    node.put("acme", 5, Some("{}")).await;
    node.next_reads_take(&[20, 20]);
    let late = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        node.at_floor("5").await
    };
    let (early, late) = tokio::join!(node.get(LIMITS, &[]), late);
    assert_eq!((early.version(), late.version(), node.reads()), (5, 5, 1));
    node.stop().await;
}

/// G4: a read from before a change is no answer for a caller that knows of it.
#[tokio::test(start_paused = true)]
async fn reader_of_outdated_read_gets_next() {
    let node = Node::heard().await;
    node.ingest("acme", 5).await;
    node.next_reads_take(&[20, 20]);
    let late = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        node.put("acme", 6, Some("{}")).await;
        join_all((0..100).map(|_| node.at_floor("6"))).await
    };
    let (early, late) = tokio::join!(node.get(LIMITS, &[]), late);
    assert_eq!(early.version(), 5);
    assert!(late.iter().all(|got| got.version() == 6), "{late:?}");
    assert_eq!(node.reads(), 2);
    node.stop().await;
}

/// R15 without regions that could disagree.
#[tokio::test(start_paused = true)]
async fn lower_table_is_believed_with_alarm() {
    for lower in [Some(3), None] {
        let node = Node::heard().await;
        node.ingest("acme", 6).await;
        assert_eq!(node.get(LIMITS, &[]).await.version(), 6);
        node.table.inner.lose(Table::Contexts);
        if let Some(version) = lower {
            node.put("acme", version, Some("{}")).await;
        }
        node.reads();
        let got = node.get(LIMITS, &[("cache-control", "no-cache")]).await;
        assert_eq!((got.version(), got.status), (lower.unwrap_or(0), if lower.is_some() { 200 } else { 404 }));
        assert!(!got.header("cache-status").contains(Label::BelowFloor.into_str()), "{got:?}");
        assert_eq!(node.reads(), 2, "the read that said so, and the one that counts");
        assert!(node.floor() < 6);
        node.beat(SECOND).await;
        let again = node.get(LIMITS, &[]).await;
        assert!(again.is_hit() && again.version() == lower.unwrap_or(0), "{again:?}");
        assert_eq!(node.settings.fill.shared.metrics.announcements.alarms(RegionId(0), Alarm::FloorDropped), 1);
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn overtaken_read_overrules_nothing() {
    let node = Node::heard().await;
    node.ingest("acme", 5).await;
    node.next_reads_take(&[20]);
    let change = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        node.ingest("acme", 6).await;
    };
    let (got, ()) = tokio::join!(node.get(LIMITS, &[]), change);
    assert_eq!(got.version(), 6, "asked for again: {got:?}");
    assert_eq!(node.floor(), 6);
    assert!(!got.header("cache-status").contains("below-floor"));
    assert_eq!(node.settings.fill.shared.metrics.announcements.alarms(RegionId(0), Alarm::FloorDropped), 0);
    node.stop().await;
}
