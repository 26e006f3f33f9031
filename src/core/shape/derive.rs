//! Deriving, once for each version: the form in which an entry is not stored, and the index of a
//! large body's fields. What was derived is kept with the entry by a put that replaces it, so that
//! the store's reckoning holds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, header};
use tokio::sync::SetOnce;

use super::FormAsked;
use crate::cache::content::Content;
use crate::cache::derived::{Derived, DerivedForm, IndexedFields};
use crate::cache::entry::Entry;
use crate::cache::key::{Key, KeyRef};
use crate::config::Form;
use crate::core::Core;
use crate::core::limits::{INLINE_DERIVE_BYTES, ZSTD_LEVEL};
use crate::engine::guard::{Guard, is_on};
use crate::http::limits::REPLY_BODY_BYTES;
use crate::payload::accept;
use crate::payload::coding::{CODED_TAG, Coding, encode};
use crate::payload::projection::Index;
use crate::tasks::on_blocking_pool;
use crate::telemetry::metrics::payload::PayloadWork;

/// What to derive of an entry.
#[derive(Clone)]
pub(super) struct ToDerive {
    /// The form in which it is not stored.
    pub(super) form: Option<FormAsked>,
    /// An index of the JSON, be that the stored form or the derived one.
    pub(super) index: bool,
    /// The stored form, compressed.
    pub(super) zstd: bool,
}

/// What the compressed form is kept under.
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

    /// What tells it apart from what else may be derived of the same entry.
    fn id(&self) -> u64 {
        self.form.as_ref().map_or(u64::from(self.zstd) * ZSTD, FormAsked::id) << 1 | u64::from(self.index)
    }
}

type ResultCell = Arc<SetOnce<Option<Arc<Entry>>>>;

/// Large bodies that are being derived: whoever wants the same of the same entry waits for it.
#[derive(Default)]
pub(in crate::core) struct Derivations(Mutex<HashMap<(usize, u64), ResultCell>>);

/// Which form a reply's media type names; `None` for any other.
pub(crate) fn form_of(content: &Content) -> Option<Form> {
    form_named(content.value(&header::CONTENT_TYPE)?)
}

/// The same of a reply as it came.
pub(crate) fn form_sent(headers: &HeaderMap) -> Option<Form> {
    form_named(headers.get(header::CONTENT_TYPE)?.as_bytes())
}

fn form_named(media_type: &[u8]) -> Option<Form> {
    if accept::is_json(media_type) {
        return Some(Form::Json);
    }
    accept::is_protobuf(media_type).then_some(Form::Protobuf)
}

/// RFC 9110, 5.2.2.6 of RFC 9111: `no-transform` forbids it, and a signature would not hold. A coded
/// body is not what its media type says.
pub(super) fn may_transform(content: &Content) -> bool {
    let says = |value: &[u8]| {
        let mut directives = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        directives.any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
    };
    content.lines().all(|(name, value)| match name {
        b"cache-control" => !says(value),
        b"signature" | b"content-range" => false,
        b"content-encoding" => value.trim_ascii().eq_ignore_ascii_case(b"identity"),
        _ => true,
    })
}

/// Whether it is derived on the spot: sharing the work would cost more than doing it.
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
fn derived(core: &Core, entry: &Entry, wanted: &ToDerive) -> Entry {
    let mut derived = entry.derived.clone();
    if let Some(asked) = wanted.form.as_ref().filter(|asked| derived.form(asked.id()).is_none()) {
        let (suffix, line) = (asked.suffix(), ("content-type", asked.media_type));
        let instead = |body| Arc::new(entry.content.outline(Some(line)).of(&suffix, body));
        let content = converted(core, entry, asked).map(instead);
        derived = derived.with_form(DerivedForm { id: asked.id(), suffix: suffix.into(), line, content });
    }
    if wanted.zstd && derived.form(ZSTD).is_none() {
        let (suffix, line) = (CODED_TAG, ("content-encoding", "zstd"));
        let instead = |body| Arc::new(entry.content.outline(Some(line)).of(suffix, body));
        let content = compressed(core, &entry.content).map(instead);
        derived = derived.with_form(DerivedForm { id: ZSTD, suffix: suffix.into(), line, content });
    }
    if wanted.index && wanted.fields_in(&derived).is_none() {
        let of = wanted.form.as_ref().map(FormAsked::id);
        let content = of.map_or(Some(&entry.content), |of| derived.form(of)?.content.as_deref());
        let indexed = content.and_then(|content| Some((Arc::new(indexed(core, content)?), content.outline(None))));
        derived = derived.with_fields(IndexedFields { of, indexed });
    }
    entry.with(derived)
}

/// The body in the other form; `None` if it does not fit the schema.
fn converted(core: &Core, entry: &Entry, asked: &FormAsked) -> Option<Bytes> {
    let (body, began) = (body_of(&entry.content), core.clock.now());
    let (converted, work) = match asked.form {
        Form::Json => (asked.schema.to_json(body), PayloadWork::ToJson),
        Form::Protobuf => (asked.schema.to_protobuf(body), PayloadWork::ToProtobuf),
    };
    core.metrics.payload_work(work, core.clock.now() - began, body.len());
    match converted {
        Ok(converted) if converted.body.len() <= REPLY_BODY_BYTES => {
            core.metrics.unknown_fields(converted.unknown_fields);
            Some(converted.body.into())
        }
        Ok(_) => None,
        Err(error) => {
            core.metrics.mismatch();
            if let Some(left_out) = core.lines.mismatches.take(core.clock.now()) {
                let route = entry.hold.routed().and_then(|routed| core.router.route(routed.route));
                let route = route.map(|route| route.path.text.as_str());
                tracing::warn!(route, %error, left_out, "a reply does not fit the schema of its route");
            }
            None
        }
    }
}

/// The body, compressed; `None` if that does not make it smaller.
fn compressed(core: &Core, content: &Content) -> Option<Bytes> {
    let (body, began) = (content.body(), core.clock.now());
    let compressed = encode(Coding::Zstd, &body, ZSTD_LEVEL, None).ok()?;
    core.metrics.payload_work(PayloadWork::Zstd, core.clock.now() - began, body.len());
    Some(compressed).filter(|compressed| compressed.len() < body.len())
}

fn indexed(core: &Core, content: &Content) -> Option<Index> {
    let (body, began) = (body_of(content), core.clock.now());
    let index = Index::of(body);
    core.metrics.payload_work(PayloadWork::Index, core.clock.now() - began, body.len());
    index.ok()
}

impl Core {
    /// Derives on the spot, and keeps it. Of those who waited for one reply the first does it for
    /// all.
    pub(super) fn derive_now(&self, key: KeyRef<'_>, entry: &Arc<Entry>, wanted: &ToDerive) -> Arc<Entry> {
        let is_of_it = |stored: &Arc<Entry>| {
            (stored.sent, stored.region) == (entry.sent, entry.region)
                && stored.content.block() == entry.content.block()
        };
        let stored = self.store.peek(key).filter(|stored| wanted.is_in(&stored.derived) && is_of_it(stored));
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
        let (cell, leads) = self.derivations.join(place);
        if leads {
            let (core, key, entry) = (self.clone(), key.clone(), entry.clone());
            // Made here: a task that is dropped before it begins makes way too.
            let leader = Leader { derivations: core.derivations.clone(), place, cell: cell.clone() };
            let work = async move {
                let held = (core.clone(), entry.clone());
                let made = on_blocking_pool(move || Arc::new(derived(&held.0, &held.1, &wanted))).await;
                if let Some(made) = &made
                    && !core.store.replace(key.as_ref(), &entry, made)
                {
                    core.keep_of(key.as_ref(), made);
                }
                // Nobody else sets it.
                let _ = leader.cell.set(made);
            };
            self.tasks.spawn("derive", work.boxed());
        }
        cell.wait().await.clone()
    }
}

impl Core {
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
    fn join(&self, place: (usize, u64)) -> (ResultCell, bool) {
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match under_way.get(&place) {
            Some(cell) => (cell.clone(), false),
            None => (under_way.entry(place).or_default().clone(), true),
        }
    }
}

/// Makes way for the next one, whatever became of this one.
struct Leader {
    derivations: Arc<Derivations>,
    place: (usize, u64),
    cell: ResultCell,
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.derivations.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.place);
        if !self.cell.initialized() {
            let _ = self.cell.set(None);
        }
    }
}

/// What was derived of `previous`, for what replaces it with the same bytes.
pub(crate) fn moved_on(previous: &Entry, content: &Content) -> Derived {
    let is_same = || match (previous.content.to_copy(), content.to_copy()) {
        (Ok(one), Ok(other)) => one == other,
        (Err(one), Err(other)) => one == other,
        _ => false,
    };
    let is_of_it = || form_of(&previous.content) == form_of(content) && may_transform(content) && is_same();
    if previous.derived.is_none() || is_on(Guard::DerivedOfItsBytes) && !is_of_it() {
        return Derived::NONE;
    }
    previous.derived.under(content)
}
