//! Puts an answer into the shape that its caller asked for.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::derive::{ToDerive, ZSTD, body_of, deserves_index, form_of, form_sent, is_small, may_transform};
use super::{FormAsked, Shape, ShapeRefused};
use crate::cache::content::Content;
use crate::cache::derived::IndexedFields;
use crate::cache::entry::Entry;
use crate::cache::key::{Key, KeyRef};
use crate::cache::rfc9111;
use crate::config::Form;
use crate::core::Core;
use crate::core::answer::{Outcome, Shown};
use crate::core::limits::{COMPRESSED_BYTES, INLINE_DERIVE_BYTES};
use crate::http::bodies::Reserved;
use crate::payload::mask::Mask;
use crate::payload::projection::{self, Index, Projected};
use crate::payload::tags;
use crate::tasks::on_blocking_pool;
use crate::telemetry::metrics::payload::PayloadWork;

/// An answer that is not in its caller's shape yet.
pub struct Unshaped {
    pub(in crate::core) shown: Shown,
    pub(in crate::core) shape: Shape,
    /// What the entry is stored under.
    pub(in crate::core) key: Key,
}

/// What becomes of an entry in some shape.
enum Step {
    /// It is shown as the region sent it.
    Own,
    Instead(Arc<Content>),
    Derive(ToDerive),
    /// Fields of a large body that nobody had cut out lately.
    Cut(Mask),
    /// It cannot be had in the caller's form, and the caller takes no other.
    Mismatch,
}

impl Shape {
    fn step(&self, core: &Core, entry: &Entry) -> Step {
        if entry.status != StatusCode::OK {
            return Step::Own;
        }
        if let Some(part) = self.remembered(entry) {
            return Step::Instead(part);
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
        let whole = || match other.and_then(|asked| entry.derived.form(asked.id())?.content.clone()) {
            Some(content) => Step::Instead(content),
            None => Step::Own,
        };
        let Some(mask) = self.mask.as_ref().filter(|_| form == Some(Form::Json)) else { return whole() };
        let fields = self.fields_of(entry);
        if fields.is_none() && deserves_index(content) {
            return Step::Derive(ToDerive { form: other.cloned(), index: true, zstd: false });
        }
        if content.body_len() > INLINE_DERIVE_BYTES {
            return Step::Cut(mask.clone());
        }
        let indexed = fields.and_then(|fields| fields.indexed.as_ref());
        let Some(part) = projected(core, content, indexed.map(|(index, _)| &**index), mask) else { return whole() };
        let outline =
            indexed.map_or_else(|| Cow::Owned(content.outline(None)), |(_, outline)| Cow::Borrowed(outline));
        Step::Instead(Arc::new(outline.of(mask.tag_suffix(), part)))
    }

    /// The fields asked for, if they were cut out before: whoever did that found that they may be.
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

fn projected(core: &Core, content: &Content, index: Option<&Index>, mask: &Mask) -> Option<Bytes> {
    let (body, began) = (body_of(content), core.clock.now());
    let projected = projection::project(body, index, mask);
    core.metrics.payload_work(PayloadWork::Project, core.clock.now() - began, body.len());
    projected.ok().map(Projected::into_bytes)
}

/// What was cut out and is remembered nowhere, with its part of the budget for bodies.
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
async fn cut(core: &Arc<Core>, shape: &Shape, entry: &Arc<Entry>, mask: Mask) -> Result<Step, NoRoom> {
    let all = shape.content_of(entry).body_len();
    let mut reserved = core.bodies.reserve(all as u64).ok_or(NoRoom)?;
    let (held, of, named) = ((core.clone(), entry.clone()), shape.clone(), mask.clone());
    let index = shape.fields_of(entry).and_then(|fields| Some(fields.indexed.as_ref()?.0.clone()));
    let known = index.clone();
    let work = move || projected(&held.0, of.content_of(&held.1), known.as_deref(), &named);
    let content = shape.content_of(entry);
    let Some(part) = on_blocking_pool(work).await.flatten() else {
        let derived = shape.form.as_ref().and_then(|asked| entry.derived.form(asked.id())?.content.clone());
        return Ok(derived.map_or(Step::Own, Step::Instead));
    };
    let is_remembered = index.is_some_and(|index| index.remembered(&mask).is_some());
    let part = if is_remembered {
        part
    } else {
        reserved.shrink_to(part.len() as u64);
        Bytes::from_owner(Held { part, _reserved: reserved })
    };
    Ok(Step::Instead(Arc::new(content.outline(None).of(mask.tag_suffix(), part))))
}

/// The bodies held in memory leave no room.
struct NoRoom;

fn zstd_step(entry: &Entry) -> Step {
    match entry.derived.form(ZSTD) {
        _ if entry.content.body_len() < COMPRESSED_BYTES => Step::Own,
        None => Step::Derive(ToDerive { form: None, index: false, zstd: true }),
        Some(coded) => coded.content.clone().map_or(Step::Own, Step::Instead),
    }
}

impl Shape {
    /// Whether it is known that `entry` cannot be had in this shape.
    pub(in crate::core) fn is_missed_by(&self, entry: &Entry) -> bool {
        let known = self.form.as_ref().and_then(|asked| entry.derived.form(asked.id()));
        known.is_some_and(|form| form.content.is_none())
    }
}

impl FormAsked {
    fn instead_of_it(&self) -> Step {
        if self.or_the_other { Step::Own } else { Step::Mismatch }
    }

    /// What the entity tag of this form ends with.
    pub(super) fn suffix(&self) -> String {
        let letter = match self.form {
            Form::Json => tags::JSON,
            Form::Protobuf => tags::PROTOBUF,
        };
        tags::suffix(letter, self.id())
    }
}

impl Unshaped {
    /// The answer. A body whose work panicked is shown as it is.
    pub(in crate::core) async fn away(mut self, core: &Arc<Core>, headers: &HeaderMap) -> Shaped {
        loop {
            let step = match self.shape.step(core, &self.shown.entry) {
                Step::Derive(wanted) if is_small(&self.shown.entry) => {
                    self.shown.entry = core.derive_now(self.key.as_ref(), &self.shown.entry, &wanted);
                    continue;
                }
                Step::Derive(wanted) => match core.derive(&self.key, &self.shown.entry, wanted).await {
                    Some(made) => {
                        self.shown.entry = made;
                        continue;
                    }
                    None => self.shape.form.as_ref().map_or(Step::Own, FormAsked::instead_of_it),
                },
                Step::Cut(mask) => match cut(core, &self.shape, &self.shown.entry, mask).await {
                    Ok(step) => step,
                    Err(NoRoom) => {
                        core.metrics.over_budget("reply-bodies");
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
pub(in crate::core) enum Shaped {
    Shown(Shown),
    Refused(ShapeRefused),
}

impl Shaped {
    pub(in crate::core) fn outcome(self) -> Outcome {
        match self {
            Self::Shown(shown) => Outcome::Shown(shown),
            Self::Refused(refused) => Outcome::Unshaped(refused),
        }
    }
}

impl Shape {
    /// A stored answer in this shape, if that takes no long work.
    pub(in crate::core) fn at_once(
        self,
        core: &Core,
        key: KeyRef<'_>,
        headers: &HeaderMap,
        mut shown: Shown,
    ) -> Result<Shaped, Box<Unshaped>> {
        loop {
            match self.step(core, &shown.entry) {
                Step::Derive(wanted) if is_small(&shown.entry) => {
                    shown.entry = core.derive_now(key, &shown.entry, &wanted);
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
            Step::Instead(_) if self.zstd && shown.not_modified => Shaped::Shown(shown),
            Step::Instead(content) => {
                shown.not_modified = rfc9111::not_modified_instead(headers, &shown.entry, &content);
                shown.instead = Some(content);
                Shaped::Shown(shown)
            }
            Step::Own | Step::Derive(_) | Step::Cut(_) => Shaped::Shown(shown),
            Step::Mismatch => Shaped::Refused(ShapeRefused::Mismatch),
        }
    }

    /// An outcome in this shape, where the store did not answer.
    pub(in crate::core) async fn of(
        self,
        core: &Arc<Core>,
        key: &Key,
        headers: &HeaderMap,
        outcome: Outcome,
    ) -> Outcome {
        match outcome {
            Outcome::Shown(shown) => {
                Unshaped { shown, shape: self, key: key.clone() }.away(core, headers).await.outcome()
            }
            other => other,
        }
    }

    /// Whether fields would be cut out of a reply, which is passed on as it comes.
    pub(in crate::core) fn cuts(&self, sent: &HeaderMap) -> bool {
        self.mask.is_some() && form_sent(sent) == Some(Form::Json)
    }

    /// Whether a reply that is passed on as it comes is in a form that this caller does not take.
    pub(in crate::core) fn refuses(&self, sent: &HeaderMap) -> bool {
        let sent = form_sent(sent);
        let asked = self.form.as_ref().filter(|asked| !asked.or_the_other);
        asked.zip(sent).is_some_and(|(asked, sent)| asked.form != sent)
    }
}
