//! Carries changes from the catalogue to one region: each change arrives late by the region's lag,
//! in order. [`super::region`] shows the change first, and only then does its publisher
//! announce it. A heartbeat never claims more than was announced.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use nearside::model::time::Clock;
use nearside_lab::aws::publisher::RecordChange;
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::catalogue::CatalogueFeed;
use super::records::RECORD_TYPE;
use super::region::WorldRegion;

/// Follows the catalogue for `region` until `stopping`, with a heartbeat every `beat`.
pub(crate) async fn follow(region: Arc<WorldRegion>, clock: Clock, beat: Duration, stopping: CancellationToken) {
    let mut beats = tokio::time::interval(beat);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stopping.run_until_cancelled(step(&region, &clock, &mut beats)).await.is_some() {}
}

/// Sends a heartbeat now, which a region may do at any time.
pub(crate) fn heartbeat(region: &WorldRegion) {
    // In this order, so that everything claimed was announced before the last number is read.
    let through = region.catalogue.through(region.cursor());
    region.publisher.heartbeat(through);
}

/// Handles the next change or heartbeat, or waits until there is one.
async fn step(region: &WorldRegion, clock: &Clock, beats: &mut Interval) {
    let cursor = region.cursor();
    let mut knobs = region.watch();
    let mut end = region.catalogue.end();
    let lag = knobs.borrow_and_update().lag;
    end.mark_unchanged();
    match region.catalogue.at(cursor) {
        CatalogueFeed::Next(change) if clock.now() >= change.at + lag => {
            region.ingest(change.key.clone(), change.stored.clone());
            region.publisher.record(RecordChange {
                record_type: RECORD_TYPE,
                key: &change.key,
                version: change.stored.version,
                is_deleted: change.stored.value.is_none(),
            });
            region.announced(cursor + 1);
            // A flood of changes must not hold back the heartbeat.
            if beats.tick().now_or_never().is_some() {
                heartbeat(region);
            }
            tokio::task::yield_now().await;
        }
        CatalogueFeed::Next(change) => tokio::select! {
            () = tokio::time::sleep(change.at + lag - clock.now()) => {}
            _ = beats.tick() => heartbeat(region),
            _ = knobs.changed() => {}
        },
        CatalogueFeed::Reload(records, next) => {
            region.reload(records);
            region.publisher.reload();
            region.announced(next);
        }
        CatalogueFeed::End => tokio::select! {
            _ = beats.tick() => heartbeat(region),
            _ = end.changed() => {}
            _ = knobs.changed() => {}
        },
    }
}
