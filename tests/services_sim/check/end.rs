//! Properties of the state of rest: everything agrees, and nothing was lost.

use std::collections::BTreeMap;

use bytes::Bytes;

use nearside::access::record::{DOCUMENT, GRANTS};
use nearside::engine::memory::MemoryStore;
use nearside::engine::{Item, Table};
use nearside::views::CANARY;

use super::super::made::{self, VIEWS};
use super::{Checker, Name, Versions, name_of, text};

/// The record and the version that an item of the history is.
pub(crate) fn version_of(item: &Item) -> Option<(Name, u64)> {
    let (record_type, key) = item.key.partition.split_once('#')?;
    Some(((record_type.to_owned(), key.to_owned()), item.key.sort.parse().ok()?))
}

/// Everything in a table, by name, but for the canary and the grants, which are no views.
fn all(store: &MemoryStore, table: Table) -> BTreeMap<Name, (u64, Option<Bytes>)> {
    let items = store.dump(table).into_iter().map(|item| (name_of(&item.key), (item.version, item.body)));
    items.filter(|((name, _), _)| name != CANARY && name != GRANTS).collect()
}

/// Version of the grants in a table; 0 where there are none.
fn grants(store: &MemoryStore, table: Table) -> u64 {
    let items = store.dump(table).into_iter();
    let documents = items.filter(|item| name_of(&item.key) == (GRANTS.to_owned(), DOCUMENT.to_owned()));
    documents.map(|item| item.version).max().unwrap_or_default()
}

/// A region whose grants are older than those at home, if there is one. After home has lost them, regions
/// have what there is.
fn grants_differ(home: &MemoryStore, regions: &[MemoryStore]) -> Option<String> {
    let newest = grants(home, Table::Records).max(grants(home, Table::Views));
    let copies = regions.iter().map(|region| grants(region, Table::Contexts));
    let mut differing = copies.enumerate().filter(|(_, version)| *version < newest);
    differing
        .next()
        .map(|(region, version)| format!("region {region} has version {version} of the grants, not {newest}"))
}

impl Checker {
    /// The newest version of each record that ever was; `true` where it exists.
    pub(crate) fn newest(&self) -> Vec<(Name, Option<Bytes>)> {
        self.records
            .iter()
            .filter_map(|(name, known)| Some((name.clone(), known.values().next_back()?.clone())))
            .collect()
    }

    /// Difference of views and regions from what they should be now, if there is one.
    pub(crate) fn disagreement(
        &self,
        definition: u64,
        home: &MemoryStore,
        regions: &[MemoryStore],
    ) -> Option<String> {
        if let Some(how) = grants_differ(home, regions) {
            return Some(how);
        }
        let (records, views) = (all(home, Table::Records), all(home, Table::Views));
        let mut expected = 0;
        for (view, from) in VIEWS {
            for ((_, key), (version, body)) in records.iter().filter(|((record_type, _), _)| record_type == from) {
                expected += 1;
                let right = made::made(view, definition, body.as_deref(), |record_type, key| {
                    let (_, body) = records.get(&(record_type.to_owned(), key.to_owned()))?;
                    serde_json::from_slice(body.as_ref()?).ok()
                })
                .map(Bytes::from);
                let shown = views.get(&(view.to_owned(), key.clone()));
                if shown.map(|(_, body)| body) != Some(&right) {
                    let shown = shown.map(|(version, body)| (version, text(body.as_ref())));
                    let right = text(right.as_ref());
                    return Some(format!("view {view}/{key} of {version} is {shown:?}, not {right}"));
                }
            }
        }
        if expected != views.len() {
            return Some(format!("there are {} views, not {expected}", views.len()));
        }
        for (number, region) in regions.iter().enumerate() {
            let copies = all(region, Table::Contexts);
            let differs = views.iter().find(|(name, view)| copies.get(*name) != Some(view));
            if let Some((name, (version, _))) = differs {
                let has = copies.get(name).map(|(version, _)| version);
                return Some(format!("region {number} has {has:?} of {name:?}, not {version}"));
            }
            if copies.len() != views.len() {
                return Some(format!("region {number} has {} copies of {} views", copies.len(), views.len()));
            }
            let unannounced = views.iter().find(|(name, (version, _))| {
                self.announced.get(&(number, (*name).clone())).is_none_or(|announced| announced < version)
            });
            if let Some((name, (version, _))) = unannounced {
                return Some(format!("region {number} never announced {name:?} {version}"));
            }
        }
        None
    }

    /// G1, and that each request took place entirely or not at all.
    pub(crate) fn at_the_end(&mut self, home: &MemoryStore) {
        let mut history: BTreeMap<Name, Versions> = BTreeMap::new();
        for item in home.dump(Table::History) {
            let known = version_of(&item).filter(|((record_type, _), _)| record_type != GRANTS);
            if let Some((name, version)) = known {
                history.entry(name).or_default().insert(version, item.body);
            }
        }
        let odd = self.records.iter().find(|(name, known)| history.get(*name) != Some(known)).map(|(name, _)| name);
        if let Some(name) = odd.or_else(|| history.keys().find(|name| !self.records.contains_key(*name))) {
            self.violated("G1", format!("the history of {name:?} is not what its record was"));
        }
        let records = all(home, Table::Records);
        let mut found = Vec::new();
        for (number, request) in &self.requests {
            let bodies = request.parts.values().filter(|body| body.is_some()).count();
            if !request.applied.is_empty() && request.applied.len() != bodies {
                found.push(("Whole", format!("request {number} took place in part")));
            }
            for (name, version) in request.parts.keys().zip(request.answered.iter().flatten()) {
                if records.get(name).is_none_or(|(has, _)| has < version) {
                    found.push(("G1", format!("request {number}: {name:?} is no longer at {version}")));
                }
            }
        }
        found.into_iter().for_each(|(property, text)| self.violated(property, text));
    }
}
