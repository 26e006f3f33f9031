//! A store that is filled, derived from, replaced and evicted through a sidecar without sockets,
//! and what its entries weigh when each is counted anew.
//!
//! Every second record is read as Protobuf too, every 32nd is so large that its fields get an index,
//! which remembers what was cut. A revision is other bytes; without one a reply brings the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use nearside::cache::limits::STORE_SHARDS;
use nearside::http::admission::Admitted;
use nearside::http::exchange::{Failure, Origin, Outgoing, Reply};
use nearside::model::ids::{RegionId, Version};
use nearside::model::time::Clock;
use nearside::request::answer::respond;
use nearside::request::serve::serve;
use nearside::request::settings::Settings;
use prost::Message;

use super::live_sidecar::{config, over, speak};

/// Bytes of text in an ordinary record and in one whose fields get an index.
const TEXT: (usize, usize) = (1500, 20_000);
/// Some of the fields; what was cut is remembered for each.
const FIELDS: [&str; 3] = ["who", "records.key", "records.face"];

/// A region that answers at once with what it has of each record.
pub(crate) struct Records(Box<[AtomicU32]>);

/// One count of a store.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) entries: u64,
    /// Those of which something was derived.
    pub(crate) derived: u64,
    /// Bytes that all entries weigh, what is around each not counted.
    pub(crate) weight: u64,
    /// Bytes of these that were derived.
    pub(crate) derived_weight: u64,
}

/// A store over so many records.
pub(crate) struct Churned {
    pub(crate) sidecar: Arc<Settings>,
    records: Arc<Records>,
    /// Bytes that the store adds to each entry.
    around: u64,
}

fn is_large(number: usize) -> bool {
    number.is_multiple_of(32)
}

impl Records {
    fn body(&self, number: usize) -> Bytes {
        let revision = self.0[number].load(Ordering::Relaxed);
        let text = if is_large(number) { TEXT.1 } else { TEXT.0 };
        let records: Vec<String> =
            (0..20).map(|key| format!("{{\"key\":{},\"face\":{revision}}}", key + 1)).collect();
        let padding = "x".repeat(text);
        format!("{{\"who\":\"r{number}\",\"records\":[{}],\"padding\":\"{padding}\"}}", records.join(",")).into()
    }
}

impl Origin for Records {
    fn ask(&self, region: RegionId, asked: Arc<Outgoing>, _: Duration) -> BoxFuture<'static, Result<Reply, Failure>> {
        let digits = asked.path_and_query.rsplit('r').next().unwrap_or_default();
        // A record's path ends with its number.
        let number: usize = digits.parse().expect("the path of a record");
        let (now, sent_wall) = (Clock::System.now(), Clock::System.wall());
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, json)]);
        let versions = vec![Version(u64::from(self.0[number].load(Ordering::Relaxed)) + 1)];
        let (status, body) = (StatusCode::OK, self.body(number));
        let reply =
            Reply { region, status, headers, body, versions, sent: now, sent_wall, received: now, grants: None };
        async move { Ok(reply) }.boxed()
    }
}

impl Churned {
    /// Over so many records, of which none is stored. Some were: what the sidecar keeps of records
    /// without an entry has a place and a budget of its own, which is made for the first of them.
    pub(crate) async fn of(records: usize, capacity: u64) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload");
        let set = protox::compile(["shown.proto"], [folder]).expect("the tests' schema compiles");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), set.encode_to_vec()).expect("a file");
        let more = format!(
            "[cache]\nmax_bytes = \"{}KiB\"\n[[service.route]]\npath = \"/v1/records/{{key}}\"\n\
             records = [\"context:{{key}}\"]\nschema = \"{}#nearside.sim.Shown\"\nfields = \"fields\"\n",
            capacity / 1024,
            file.path().display()
        );
        let records = Arc::new(Records((0..records).map(|_| AtomicU32::new(0)).collect()));
        let sidecar = over(config(1, &more), records.clone());
        let mut churned = Self { sidecar, records, around: 0 };
        let some = churned.records.0.len().min(4000);
        churned.read(0..1).await;
        churned.around = churned.sidecar.fill.shared.store.bytes() - count(&churned.sidecar).weight;
        churned.read(0..some).await;
        churned.derive(0..some.min(100)).await;
        churned.sidecar.fill.shared.store.resize(0).await;
        churned.sidecar.fill.shared.store.resize(capacity).await;
        assert_eq!((churned.sidecar.fill.shared.store.entries(), churned.sidecar.fill.shared.store.bytes()), (0, 0));
        churned
    }

    async fn ask(&self, number: usize, fields: &str, line: Option<(HeaderName, &'static str)>) {
        let path = format!("/v1/records/r{number}");
        let (path_len, path_and_query) = (path.len(), path + fields);
        let headers = line.map(|(name, value)| (name, HeaderValue::from_static(value))).into_iter().collect();
        let admitted = Admitted { method: Method::GET, path_and_query, path_len, headers, body: Bytes::new() };
        let response = respond(serve(&self.sidecar, admitted).await, &self.sidecar.fill.shared.names);
        assert_eq!(response.status(), StatusCode::OK, "r{number}{fields}");
        if number.is_multiple_of(1000) {
            speak(&self.sidecar);
        }
    }

    /// As the region sends them.
    pub(crate) async fn read(&self, numbers: impl Iterator<Item = usize>) {
        for number in numbers {
            self.ask(number, "", None).await;
        }
        self.settle().await;
    }

    /// As Protobuf and by their fields, as many as are read like that.
    pub(crate) async fn derive(&self, numbers: impl Iterator<Item = usize>) {
        for number in numbers.filter(|number| number.is_multiple_of(2)) {
            self.ask(number, "", Some((header::ACCEPT, "application/x-protobuf"))).await;
            for fields in FIELDS.iter().filter(|_| is_large(number)) {
                self.ask(number, &format!("?fields={fields}"), None).await;
            }
        }
        self.settle().await;
    }

    /// Anew from the region, with the same bytes or with other ones.
    pub(crate) async fn replace(&self, numbers: impl Iterator<Item = usize>, is_other: bool) {
        for number in numbers {
            self.records.0[number].fetch_add(u32::from(is_other), Ordering::Relaxed);
            self.ask(number, "", Some((header::CACHE_CONTROL, "no-cache"))).await;
        }
        self.settle().await;
    }

    async fn settle(&self) {
        while self.sidecar.fill.shared.fills.under_way() > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Counts every entry anew, and holds the store's own reckoning against that.
    pub(crate) fn recount(&self) -> Count {
        let (store, counted) = (&self.sidecar.fill.shared.store, count(&self.sidecar));
        assert_eq!(store.entries(), counted.entries);
        assert_eq!(store.bytes(), counted.weight + counted.entries * self.around, "what the store reckons");
        assert!(store.bytes() <= store.capacity(), "{} of {}", store.bytes(), store.capacity());
        counted
    }
}

fn count(sidecar: &Settings) -> Count {
    let store = &sidecar.fill.shared.store;
    let mut counted = Count { entries: 0, derived: 0, weight: 0, derived_weight: 0 };
    for key in (0..STORE_SHARDS).flat_map(|part| store.keys_in(part, |_, _| true)) {
        let entry = store.peek(key.as_ref()).expect("nobody else is there");
        counted.entries += 1;
        counted.derived += u64::from(!entry.derived.is_none());
        counted.weight += entry.weight() as u64;
        counted.derived_weight += entry.derived.weight() as u64;
    }
    counted
}
