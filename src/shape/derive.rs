//! Deriving, once for each version: the form in which an entry is not stored, and the index of a
//! large body's fields. What was derived is kept with the entry by a put that replaces it, so that
//! the store's reckoning holds.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::SetOnce;

use super::form::form_of;
use super::limits::{INLINE_DERIVE_BYTES, ZSTD_LEVEL};
use super::shapes::FormAsked;
use crate::cache::content::Content;
use crate::cache::derived::{Derived, DerivedForm, IndexedFields};
use crate::cache::entry::Entry;
use crate::cache::key::{Key, KeyRef};
use crate::cache::store::Store;
use crate::config::Form;
use crate::http::bodies::ByteBudget;
use crate::http::limits::REPLY_BODY_BYTES;
use crate::model::time::Clock;
use crate::payload::coding::{CODED_TAG, Coding, encode};
use crate::payload::projection::Index;
use crate::switch::{Guard, is_on};
use crate::tasks::{Tasks, on_blocking_pool};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::payload::PayloadWork;
use crate::telemetry::rate_limiter::RateLimiter;

/// Contents to derive from an entry.
#[derive(Clone)]
pub(super) struct ToDerive {
    /// The form in which it is not stored.
    pub(super) form: Option<FormAsked>,
    /// An index of the JSON, be that the stored form or the derived one.
    pub(super) index: bool,
    /// The stored form, compressed.
    pub(super) zstd: bool,
}

/// Id under which the compressed form is kept.
pub(super) const ZSTD: u64 = u64::from_be_bytes(*b"\0\0\0\0zstd");

impl ToDerive {
    fn is_in(&self, derived: &Derived) -> bool {
        let form = self.form.as_ref();
        form.is_none_or(|asked| derived.form(asked.id()).is_some())
            && (!self.index || self.fields_in(derived).is_some())
            && (!self.zstd || derived.form(ZSTD).is_some())
    }

    /// The fields of the JSON in question, if they were indexed.
    fn fields_in<'d>(&self, derived: &'d Derived) -> Option<&'d IndexedFields> {
        derived.fields().filter(|fields| fields.of == self.form.as_ref().map(FormAsked::id))
    }

    /// Distinguishes it from what else may be derived of the same entry.
    fn id(&self) -> u64 {
        self.form.as_ref().map_or(u64::from(self.zstd) * ZSTD, FormAsked::id) << 1 | u64::from(self.index)
    }
}

type ResultCell = Arc<SetOnce<Option<Arc<Entry>>>>;

/// Derives what callers ask for beside the stored bytes, and keeps it with the entry.
pub struct Deriver {
    pub(super) store: Arc<Store>,
    pub(super) bodies: Arc<ByteBudget>,
    pub(super) clock: Clock,
    pub(super) metrics: Arc<Metrics>,
    tasks: Tasks,
    under_way: Derivations,
    /// Limits what is logged of replies that do not fit their schema.
    mismatches: RateLimiter,
}

/// Large bodies that are being derived: a request for the same of the same entry waits for it.
#[derive(Default)]
struct Derivations(Mutex<HashMap<DerivationKey, ResultCell>>);

/// The entry's address, and what is derived of it.
type DerivationKey = (usize, u64);

/// RFC 9110, 5.2.2.6 of RFC 9111: `no-transform` forbids it, and a signature would not hold. A coded
/// body is not what its media type says.
pub(super) fn may_transform(content: &Content) -> bool {
    content.lines().all(|(name, value)| match name {
        b"cache-control" => !says_no_transform(value),
        b"signature" | b"content-range" => false,
        b"content-encoding" => value.trim_ascii().eq_ignore_ascii_case(b"identity"),
        _ => true,
    })
}

fn says_no_transform(value: &[u8]) -> bool {
    let mut directives = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    directives.any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
}

/// True if it is derived on the spot: sharing the work would cost more than doing it.
pub(super) fn is_small(entry: &Entry) -> bool {
    entry.content.body_len() <= INLINE_DERIVE_BYTES
}

pub(super) fn body_of(content: &Content) -> &[u8] {
    content.to_copy().unwrap_or_else(|apart| apart)
}

/// Below that, fields are found by reading from the start.
pub(super) fn deserves_index(content: &Content) -> bool {
    Index::pays_for(body_of(content))
}

/// The entry with what was to be derived. What does not fit the schema is noted too, so that the
/// next reader need not find it out.
fn derived(deriver: &Deriver, entry: &Entry, wanted: &ToDerive) -> Entry {
    let mut derived = entry.derived.clone();
    if let Some(asked) = wanted.form.as_ref().filter(|asked| derived.form(asked.id()).is_none()) {
        let (suffix, line) = (asked.suffix(), ("content-type", asked.media_type));
        let content = converted(deriver, entry, asked)
            .map(|body| Arc::new(entry.content.outline(Some(line)).of(&suffix, body)));
        derived = derived.with_form(DerivedForm { id: asked.id(), suffix: suffix.into(), line, content });
    }
    if wanted.zstd && derived.form(ZSTD).is_none() {
        let (suffix, line) = (CODED_TAG, ("content-encoding", "zstd"));
        let content = compressed(deriver, &entry.content)
            .map(|body| Arc::new(entry.content.outline(Some(line)).of(suffix, body)));
        derived = derived.with_form(DerivedForm { id: ZSTD, suffix: suffix.into(), line, content });
    }
    if wanted.index && wanted.fields_in(&derived).is_none() {
        let of = wanted.form.as_ref().map(FormAsked::id);
        let content = of.map_or(Some(&entry.content), |of| derived.form(of)?.content.as_deref());
        let indexed = content.and_then(|content| Some((Arc::new(indexed(deriver, content)?), content.outline(None))));
        derived = derived.with_fields(IndexedFields { of, indexed });
    }
    entry.with(derived)
}

/// The body in the other form; `None` if it does not fit the schema.
fn converted(deriver: &Deriver, entry: &Entry, asked: &FormAsked) -> Option<Bytes> {
    let (body, began) = (body_of(&entry.content), deriver.clock.now());
    let (converted, work) = match asked.form {
        Form::Json => (asked.message.schema.to_json(body), PayloadWork::ToJson),
        Form::Protobuf => (asked.message.schema.to_protobuf(body), PayloadWork::ToProtobuf),
    };
    deriver.metrics.payload.payload_work(work, deriver.clock.now() - began, body.len());
    match converted {
        Ok(converted) if converted.body.len() <= REPLY_BODY_BYTES => {
            deriver.metrics.payload.unknown_fields(converted.unknown_fields);
            Some(converted.body.into())
        }
        Ok(_) => None,
        Err(error) => {
            deriver.metrics.payload.mismatch();
            if let Some(suppressed) = deriver.mismatches.admit(deriver.clock.now()) {
                let route = entry.validity.routed().map(|_| asked.message.path.as_str());
                tracing::warn!(route, %error, suppressed, "a reply does not fit the schema of its route");
            }
            None
        }
    }
}

/// The body, compressed; `None` if that does not make it smaller.
fn compressed(deriver: &Deriver, content: &Content) -> Option<Bytes> {
    let (body, began) = (content.body(), deriver.clock.now());
    let compressed = encode(Coding::Zstd, &body, ZSTD_LEVEL, None).ok()?;
    deriver.metrics.payload.payload_work(PayloadWork::CompressZstd, deriver.clock.now() - began, body.len());
    Some(compressed).filter(|compressed| compressed.len() < body.len())
}

fn indexed(deriver: &Deriver, content: &Content) -> Option<Index> {
    let (body, began) = (body_of(content), deriver.clock.now());
    let index = Index::of(body);
    deriver.metrics.payload.payload_work(PayloadWork::Index, deriver.clock.now() - began, body.len());
    index.ok()
}

impl Deriver {
    pub(crate) fn new(
        store: Arc<Store>,
        bodies: Arc<ByteBudget>,
        clock: Clock,
        metrics: Arc<Metrics>,
        tasks: Tasks,
    ) -> Self {
        let (under_way, mismatches) = (Derivations::default(), RateLimiter::new());
        Self { store, bodies, clock, metrics, tasks, under_way, mismatches }
    }

    /// Derives on the spot, and keeps it. Of those who waited for one reply the first does it for
    /// all.
    pub(super) fn derive_now(&self, key: KeyRef<'_>, entry: &Arc<Entry>, wanted: &ToDerive) -> Arc<Entry> {
        let stored = self.store.peek(key).filter(|stored| {
            wanted.is_in(&stored.derived)
                && (stored.sent, stored.region) == (entry.sent, entry.region)
                && stored.content.block() == entry.content.block()
        });
        if let Some(stored) = stored {
            return stored;
        }
        let made = Arc::new(derived(self, entry, wanted));
        self.store.replace(key, entry, &made);
        made
    }

    /// Derives away from where requests are served, in a task of its own: a caller who hangs up
    /// cancels nothing. `None` if that panicked.
    pub(super) async fn derive(
        self: &Arc<Self>,
        key: &Key,
        entry: &Arc<Entry>,
        wanted: ToDerive,
    ) -> Option<Arc<Entry>> {
        let place = (Arc::as_ptr(entry).addr(), wanted.id());
        let (cell, leads) = self.under_way.join(place);
        if leads {
            let (deriver, key, entry) = (self.clone(), key.clone(), entry.clone());
            // Made here: a task that is dropped before it begins makes way too.
            let leader = Leader { deriver: deriver.clone(), place, cell: cell.clone() };
            let work = async move {
                let held = (deriver.clone(), entry.clone());
                let made = on_blocking_pool(move || Arc::new(derived(&held.0, &held.1, &wanted))).await;
                if let Some(made) = &made
                    && !deriver.store.replace(key.as_ref(), &entry, made)
                {
                    deriver.keep_of(key.as_ref(), made);
                }
                // Nobody else sets it.
                let _ = leader.cell.set(made);
            };
            self.tasks.spawn("derive", work.boxed());
        }
        cell.wait().await.clone()
    }

    /// Keeps what was made with what was put in the entry's place meanwhile, if that has the same
    /// bytes: as soon as a race is over, its reply may be confirmed.
    fn keep_of(&self, key: KeyRef<'_>, made: &Entry) {
        let Some(stored) = self.store.peek(key).filter(|stored| stored.derived.is_none()) else { return };
        let derived = moved_on(made, &stored.content);
        if !derived.is_none() {
            self.store.replace(key, &stored, &Arc::new(stored.with(derived)));
        }
    }
}

impl Derivations {
    fn join(&self, place: DerivationKey) -> (ResultCell, bool) {
        let mut under_way = self.0.lock();
        match under_way.get(&place) {
            Some(cell) => (cell.clone(), false),
            None => (under_way.entry(place).or_default().clone(), true),
        }
    }
}

/// Makes way for the next one, whatever became of this one.
struct Leader {
    deriver: Arc<Deriver>,
    place: DerivationKey,
    cell: ResultCell,
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.deriver.under_way.0.lock().remove(&self.place);
        if !self.cell.initialized() {
            let _ = self.cell.set(None);
        }
    }
}

/// Contents derived of `previous`, for what replaces it with the same bytes.
pub(crate) fn moved_on(previous: &Entry, content: &Content) -> Derived {
    if previous.derived.is_none() || is_on(Guard::DerivedOfItsBytes) && !keeps_derived(&previous.content, content) {
        return Derived::NONE;
    }
    previous.derived.under(content)
}

/// True if what was derived of `previous` is derived of `content` too.
fn keeps_derived(previous: &Content, content: &Content) -> bool {
    form_of(previous) == form_of(content)
        && may_transform(content)
        && match (previous.to_copy(), content.to_copy()) {
            (Ok(one), Ok(other)) => one == other,
            (Err(one), Err(other)) => one == other,
            _ => false,
        }
}
