//! `purge`: removes entries. Floors stay, so the next read asks the regions, and nothing older than
//! what was known comes back.
//!
//! A fill that is under way asked before the purge: its reply may be served to those who wait for
//! it, but is not stored. That is why the records' generations move first (R3), and only then
//! entries are removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::target::{Pattern, Target, shown_by};
use crate::cache::entry::Entry;
use crate::cache::key::Key;
use crate::cache::store::Store;
use crate::fill::effects::apply_actions;
use crate::model::ids::RecordId;
use crate::protocol::event::{Action, Event, OperatorOrder, Scope};
use crate::request::settings::Settings;

/// Counts of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Purged {
    pub purged: u64,
    pub left: u64,
}

pub(super) async fn purge(sidecar: &Arc<Settings>, target: &Target) -> Purged {
    let (purged, after) = match target {
        Target::Of(scope) => {
            let after = reload(sidecar, *scope);
            if *scope == Scope::All {
                sidecar.fill.shared.store.refuse_before(sidecar.fill.shared.clock.now());
            }
            (by_scope(sidecar, *scope).await, after)
        }
        Target::Paths(pattern) => by_path(sidecar, pattern).await,
    };
    // Refetches only what other paths show of the same records: what was purged is gone.
    apply_actions(&sidecar.fill, after);
    Purged { purged, left: sidecar.fill.shared.store.entries() }
}

/// From now on, replies requested before this do not count as fresh.
fn reload(sidecar: &Settings, scope: Scope) -> Vec<Action> {
    sidecar.fill.shared.freshness.step(
        sidecar.fill.shared.clock.now(),
        sidecar.fill.shared.clock.wall(),
        Event::Ordered(OperatorOrder::Reload(scope)),
    )
}

async fn by_scope(sidecar: &Settings, scope: Scope) -> u64 {
    match scope {
        Scope::Record(id) => {
            let keys = sidecar.fill.shared.store.entries_of(id);
            keys.iter().for_each(|(key, _)| sidecar.fill.shared.store.remove(key.as_ref()));
            keys.len() as u64
        }
        Scope::Type(record_type) => {
            remove(sidecar, |_, entry| {
                entry.is_some_and(|entry| entry.shows().iter().any(|shown| shown.id().record_type == record_type))
            })
            .await
        }
        Scope::All => remove(sidecar, |_, _| true).await,
    }
}

/// Removes everything stored for some paths, for any caller and query. The generations of the
/// records that they show move, including records of fills under way.
async fn by_path(sidecar: &Settings, pattern: &Pattern) -> (u64, Vec<Action>) {
    let mut records: BTreeSet<RecordId> = BTreeSet::new();
    if let Some(path) = pattern.exact() {
        records.extend(shown_by(sidecar, path));
    }
    for key in sidecar.fill.shared.fills.under_way_of(|target| pattern.matches(target)) {
        let target = key.as_ref().target().to_owned();
        let path = target.split_once('?').map_or(target.as_str(), |(path, _)| path);
        records.extend(shown_by(sidecar, path));
    }
    walk(
        sidecar,
        |target, _| pattern.matches(target),
        |entry, _| {
            records.extend(entry.iter().flat_map(|entry| entry.shows()).map(|shown| shown.id()));
        },
    )
    .await;
    let after = records.into_iter().flat_map(|id| reload(sidecar, Scope::Record(id))).collect();
    sidecar.fill.shared.store.refuse_before(sidecar.fill.shared.clock.now());
    (remove(sidecar, |target, _| pattern.matches(target)).await, after)
}

/// Removes every key that is `wanted`; returns how many of them had an entry.
async fn remove(sidecar: &Settings, wanted: impl Fn(&str, Option<&Entry>) -> bool) -> u64 {
    let mut removed = 0;
    walk(sidecar, wanted, |entry, key| {
        removed += u64::from(entry.is_some());
        sidecar.fill.shared.store.remove(key.as_ref());
    })
    .await;
    removed
}

/// Visits everything that is `wanted`, part by part, and lets other tasks run in between.
pub(super) async fn walk(
    sidecar: &Settings,
    wanted: impl Fn(&str, Option<&Entry>) -> bool,
    mut each: impl FnMut(Option<Arc<Entry>>, &Key),
) {
    const BETWEEN: usize = 256;
    for part in 0..Store::PARTS {
        let keys = sidecar.fill.shared.store.keys_in(part, &wanted);
        for some in keys.chunks(BETWEEN) {
            some.iter().for_each(|key| each(sidecar.fill.shared.store.peek(key.as_ref()), key));
            tokio::task::yield_now().await;
        }
    }
}
