//! Puts an answer into the shape that its caller asked for.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::derive::{Deriver, ToDerive, ZSTD, body_of, deserves_index, is_small, may_transform};
use super::form::{form_of, form_sent};
use super::limits::{COMPRESSED_BYTES, INLINE_DERIVE_BYTES};
use super::shapes::{FormAsked, Shape, ShapeRefused};
use super::shown::Shown;
use crate::cache::content::Content;
use crate::cache::derived::IndexedFields;
use crate::cache::entry::Entry;
use crate::cache::key::{Key, KeyRef};
use crate::cache::rfc9111;
use crate::config::Form;
use crate::http::bodies::Reserved;
use crate::payload::mask::Mask;
use crate::payload::projection::{self, Index, Projected};
use crate::payload::tags;
use crate::tasks::on_blocking_pool;
use crate::telemetry::metrics::operations::Budget;
use crate::telemetry::metrics::payload::PayloadWork;

/// An answer that is not in its caller's shape yet.
pub struct Unshaped {
    pub(crate) shown: Shown,
    pub(crate) shape: Shape,
    /// Key under which the entry is stored.
    pub(crate) key: Key,
}

/// Next step for an entry in some shape.
enum Step {
    /// It is served as the region sent it.
    Own,
    Overrides(Arc<Content>),
    Derive(ToDerive),
    /// Fields of a large body that nobody had cut out lately.
    Cut(Mask),
    /// It cannot be had in the caller's form, and the caller takes no other.
    Mismatch,
}

impl Shape {
    fn step(&self, deriver: &Deriver, entry: &Entry) -> Step {
        if entry.status != StatusCode::OK {
            return Step::Own;
        }
        if let Some(part) = self.remembered(entry) {
            return Step::Overrides(part);
        }
        let stored = form_of(&entry.content);
        let other = self.form.as_ref().filter(|asked| stored.is_some_and(|stored| stored != asked.form));
        if !may_transform(&entry.content) {
            return other.map_or(Step::Own, FormAsked::instead_of_it);
        }
        if self.zstd {
            return zstd_step(entry);
        }
        let (content, form) = match other {
            None => (&entry.content, stored),
            Some(asked) => match entry.derived.form(asked.id()).map(|form| form.content.as_deref()) {
                None => return Step::Derive(ToDerive { form: Some(asked.clone()), index: false, zstd: false }),
                Some(None) => return asked.instead_of_it(),
                Some(Some(content)) => (content, Some(asked.form)),
            },
        };
        let Some(mask) = self.mask.as_ref().filter(|_| form == Some(Form::Json)) else {
            return whole(entry, other);
        };
        let fields = self.fields_of(entry);
        if fields.is_none() && deserves_index(content) {
            return Step::Derive(ToDerive { form: other.cloned(), index: true, zstd: false });
        }
        if content.body_len() > INLINE_DERIVE_BYTES {
            return Step::Cut(mask.clone());
        }
        let indexed = fields.and_then(|fields| fields.indexed.as_ref());
        let Some(part) = projected(deriver, content, indexed.map(|(index, _)| &**index), mask) else {
            return whole(entry, other);
        };
        let outline =
            indexed.map_or_else(|| Cow::Owned(content.outline(None)), |(_, outline)| Cow::Borrowed(outline));
        Step::Overrides(Arc::new(outline.of(mask.tag_suffix(), part)))
    }

    /// The fields asked for, if they were cut out before: the request that did so found that they
    /// may be.
    fn remembered(&self, entry: &Entry) -> Option<Arc<Content>> {
        let mask = self.mask.as_ref()?;
        let (index, outline) = self.fields_of(entry)?.indexed.as_ref()?;
        let part = index.remembered(mask)?.into_bytes();
        Some(Arc::new(outline.of(mask.tag_suffix(), part)))
    }

    /// The fields of the JSON that this shape shows, if they were indexed.
    fn fields_of<'e>(&self, entry: &'e Entry) -> Option<&'e IndexedFields> {
        let fields = entry.derived.fields()?;
        let is_it = match (&self.form, fields.of) {
            (Some(asked), Some(of)) => asked.id() == of,
            (Some(asked), None) => asked.form == Form::Json,
            (None, of) => of.is_none(),
        };
        is_it.then_some(fields)
    }

    /// The form of an entry that this shape shows; it was derived before, if it is not the stored one.
    fn content_of<'e>(&self, entry: &'e Entry) -> &'e Content {
        let other = self.form.as_ref().filter(|asked| form_of(&entry.content) != Some(asked.form));
        let derived = other.and_then(|asked| entry.derived.form(asked.id())?.content.as_deref());
        derived.unwrap_or(&entry.content)
    }
}

/// The whole content in the form that is asked for, or the entry's own.
fn whole(entry: &Entry, form: Option<&FormAsked>) -> Step {
    let derived = form.and_then(|asked| entry.derived.form(asked.id())?.content.clone());
    derived.map_or(Step::Own, Step::Overrides)
}

fn projected(deriver: &Deriver, content: &Content, index: Option<&Index>, mask: &Mask) -> Option<Bytes> {
    let (body, began) = (body_of(content), deriver.clock.now());
    let projected = projection::project(body, index, mask);
    deriver.metrics.payload.payload_work(PayloadWork::Project, deriver.clock.now() - began, body.len());
    projected.ok().map(Projected::into_bytes)
}

/// Part that was cut out and is remembered nowhere, with its part of the budget for bodies.
struct Held {
    part: Bytes,
    _reserved: Reserved,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.part
    }
}

/// Cuts fields out of a large body, away from where requests are served. `Err` without memory for
/// what may come of it.
async fn cut(deriver: &Arc<Deriver>, shape: &Shape, entry: &Arc<Entry>, mask: Mask) -> Result<Step, NoRoom> {
    let all = shape.content_of(entry).body_len();
    let mut reserved = deriver.bodies.reserve(all as u64).ok_or(NoRoom)?;
    let (held, of, named) = ((deriver.clone(), entry.clone()), shape.clone(), mask.clone());
    let index = shape.fields_of(entry).and_then(|fields| Some(fields.indexed.as_ref()?.0.clone()));
    let known = index.clone();
    let content = shape.content_of(entry);
    let cut = on_blocking_pool(move || projected(&held.0, of.content_of(&held.1), known.as_deref(), &named));
    let Some(part) = cut.await.flatten() else { return Ok(whole(entry, shape.form.as_ref())) };
    let is_remembered = index.is_some_and(|index| index.remembered(&mask).is_some());
    let part = if is_remembered {
        part
    } else {
        reserved.shrink_to(part.len() as u64);
        Bytes::from_owner(Held { part, _reserved: reserved })
    };
    Ok(Step::Overrides(Arc::new(content.outline(None).of(mask.tag_suffix(), part))))
}

/// The bodies held in memory leave no room.
struct NoRoom;

fn zstd_step(entry: &Entry) -> Step {
    match entry.derived.form(ZSTD) {
        _ if entry.content.body_len() < COMPRESSED_BYTES => Step::Own,
        None => Step::Derive(ToDerive { form: None, index: false, zstd: true }),
        Some(coded) => coded.content.clone().map_or(Step::Own, Step::Overrides),
    }
}

impl Shape {
    /// True if it is known that `entry` cannot be had in this shape.
    pub(crate) fn is_missed_by(&self, entry: &Entry) -> bool {
        let known = self.form.as_ref().and_then(|asked| entry.derived.form(asked.id()));
        known.is_some_and(|form| form.content.is_none())
    }
}

impl FormAsked {
    fn instead_of_it(&self) -> Step {
        if self.or_the_other { Step::Own } else { Step::Mismatch }
    }

    /// Suffix of the entity tag of this form.
    pub(super) fn suffix(&self) -> String {
        let letter = match self.form {
            Form::Json => tags::JSON,
            Form::Protobuf => tags::PROTOBUF,
        };
        tags::suffix(letter, self.id())
    }
}

impl Unshaped {
    /// The answer. A body whose work panicked is served as it is.
    pub(crate) async fn away(mut self, deriver: &Arc<Deriver>, headers: &HeaderMap) -> Shaped {
        loop {
            let step = match self.shape.step(deriver, &self.shown.entry) {
                Step::Derive(wanted) if is_small(&self.shown.entry) => {
                    self.shown.entry = deriver.derive_now(self.key.as_ref(), &self.shown.entry, &wanted);
                    continue;
                }
                Step::Derive(wanted) => match deriver.derive(&self.key, &self.shown.entry, wanted).await {
                    Some(made) => {
                        self.shown.entry = made;
                        continue;
                    }
                    None => self.shape.form.as_ref().map_or(Step::Own, FormAsked::instead_of_it),
                },
                Step::Cut(mask) => match cut(deriver, &self.shape, &self.shown.entry, mask).await {
                    Ok(step) => step,
                    Err(NoRoom) => {
                        deriver.metrics.operations.over_budget(Budget::ReplyBodies);
                        return Shaped::Refused(ShapeRefused::NoRoom);
                    }
                },
                step => step,
            };
            return self.shape.finish(self.shown, step, headers);
        }
    }
}

/// An answer in its shape.
pub(crate) enum Shaped {
    Shown(Shown),
    Refused(ShapeRefused),
}

impl Shape {
    /// A stored answer in this shape, if that takes no long work.
    pub(crate) fn at_once(
        self,
        deriver: &Deriver,
        key: KeyRef<'_>,
        headers: &HeaderMap,
        mut shown: Shown,
    ) -> Result<Shaped, Box<Unshaped>> {
        loop {
            match self.step(deriver, &shown.entry) {
                Step::Derive(wanted) if is_small(&shown.entry) => {
                    shown.entry = deriver.derive_now(key, &shown.entry, &wanted);
                }
                Step::Derive(_) | Step::Cut(_) => {
                    return Err(Box::new(Unshaped { shown, shape: self, key: key.to_key() }));
                }
                step => return Ok(self.finish(shown, step, headers)),
            }
        }
    }

    fn finish(&self, mut shown: Shown, step: Step, headers: &HeaderMap) -> Shaped {
        match step {
            // Who names the tag of the plain bytes has them.
            Step::Overrides(_) if self.zstd && shown.not_modified => Shaped::Shown(shown),
            Step::Overrides(content) => {
                shown.not_modified = rfc9111::not_modified_instead(headers, &shown.entry, &content);
                shown.instead = Some(content);
                Shaped::Shown(shown)
            }
            Step::Own | Step::Derive(_) | Step::Cut(_) => Shaped::Shown(shown),
            Step::Mismatch => Shaped::Refused(ShapeRefused::Mismatch),
        }
    }

    /// True if fields would be cut out of a reply, which is passed on as it comes.
    pub(crate) fn cuts(&self, sent: &HeaderMap) -> bool {
        self.mask.is_some() && form_sent(sent) == Some(Form::Json)
    }

    /// True if a reply that is passed on as it comes is in a form that this caller does not take.
    pub(crate) fn refuses(&self, sent: &HeaderMap) -> bool {
        let sent = form_sent(sent);
        let asked = self.form.as_ref().filter(|asked| !asked.or_the_other);
        asked.zip(sent).is_some_and(|(asked, sent)| asked.form != sent)
    }
}
