//! Puts an answer into the shape that its caller asked for.

use std::hash::Hasher;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use siphasher::sip::SipHasher13;

use super::derive::{ToDerive, ZSTD, body_of, deserves_index, form_of, form_sent, is_small};
use super::{FormAsked, Shape, ShapeRefused};
use crate::cache::content::Content;
use crate::cache::entry::Entry;
use crate::cache::key::Key;
use crate::cache::rfc9111;
use crate::config::{Form, RoutePayload};
use crate::core::Core;
use crate::core::answer::{Outcome, Shown};
use crate::core::limits::{COMPRESSED_BYTES, INLINE_DERIVE_BYTES};
use crate::http::bodies::Reserved;
use crate::payload::mask::Mask;
use crate::payload::projection::{self, Index, Projected};
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
        let index = match entry.derived.index() {
            None if deserves_index(content) => {
                return Step::Derive(ToDerive { form: other.cloned(), index: true, zstd: false });
            }
            index => index.flatten(),
        };
        let part = match index.and_then(|index| index.remembered(mask)) {
            Some(remembered) => Some(remembered.into_bytes()),
            None if content.body_len() > INLINE_DERIVE_BYTES => return Step::Cut(mask.clone()),
            None => projected(core, content, index, mask),
        };
        match part {
            Some(part) => Step::Instead(Arc::new(content.instead(None, &tag_suffix('m', mask.id()), part))),
            None => whole(),
        }
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
    let work = move || projected(&held.0, of.content_of(&held.1), held.1.derived.index().flatten(), &named);
    let content = shape.content_of(entry);
    let Some(part) = on_blocking_pool(work).await.flatten() else {
        let derived = shape.form.as_ref().and_then(|asked| entry.derived.form(asked.id())?.content.clone());
        return Ok(derived.map_or(Step::Own, Step::Instead));
    };
    let is_remembered = entry.derived.index().flatten().is_some_and(|index| index.remembered(&mask).is_some());
    let part = if is_remembered {
        part
    } else {
        reserved.shrink_to(part.len() as u64);
        Bytes::from_owner(Held { part, _reserved: reserved })
    };
    Ok(Step::Instead(Arc::new(content.instead(None, &tag_suffix('m', mask.id()), part))))
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
            Form::Json => 'j',
            Form::Protobuf => 'p',
        };
        tag_suffix(letter, self.id())
    }
}

/// RFC 9110, 5.2.2.6 of RFC 9111: `no-transform` forbids it, and a signature would not hold. A coded
/// body is not what its media type says.
fn may_transform(content: &Content) -> bool {
    let says = |value: &[u8]| {
        let mut directives = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        directives.any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
    };
    content.lines().all(|(name, value)| match name {
        "cache-control" => !says(value),
        "signature" | "content-range" => false,
        "content-encoding" => value.trim_ascii().eq_ignore_ascii_case(b"identity"),
        _ => true,
    })
}

/// What is appended to a region's entity tag for what was made of its bytes, and taken off again by
/// [`region_tags`].
pub(super) fn tag_suffix(letter: char, id: u64) -> String {
    let suffix = format!("~{letter}{id:016x}");
    let check = check(&suffix);
    suffix + &check
}

const SUFFIX_BYTES: usize = "~p0123456789abcdef".len();
const CHECK_BYTES: usize = 4;

/// What tells a suffix of ours from a region's own tag that looks like one. The same everywhere.
fn check(suffix: &str) -> String {
    let mut hasher = SipHasher13::new_with_keys(0x6e65_6172_7369_6465, 0x7461_6773);
    hasher.write(suffix.as_bytes());
    format!("{:04x}", hasher.finish() as u16)
}

/// The entity tags of a condition as the region knows them: without what this route may have
/// appended.
pub(in crate::core) fn region_tags(line: &str, payload: &RoutePayload) -> String {
    let mut tags = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(close) = rest.find('"') {
        let (before, after) = rest.split_at(close);
        // In the opposite order: fields are cut out of a form.
        let tag = if payload.fields.is_some() { without_suffix(before, &['m']) } else { before };
        let tag = if payload.message.is_some() { without_suffix(tag, &['p', 'j']) } else { tag };
        tags.push_str(tag);
        tags.push('"');
        rest = &after[1..];
    }
    tags.push_str(rest);
    tags
}

fn without_suffix<'t>(tag: &'t str, letters: &[char]) -> &'t str {
    let shorter = || {
        let at = tag.len().checked_sub(SUFFIX_BYTES + CHECK_BYTES)?;
        let (suffix, stated) = tag.get(at..)?.split_at_checked(SUFFIX_BYTES)?;
        let is_ours = suffix.strip_prefix('~')?.starts_with(letters) && check(suffix) == stated;
        is_ours.then_some(&tag[..at])
    };
    shorter().unwrap_or(tag)
}

impl Unshaped {
    /// The answer, if that takes no long work.
    pub(in crate::core) fn at_once(mut self, core: &Core, headers: &HeaderMap) -> Result<Shaped, Box<Self>> {
        loop {
            match self.shape.step(core, &self.shown.entry) {
                Step::Derive(wanted) if is_small(&self.shown.entry) => {
                    self.shown.entry = core.derive_now(&self.key, &self.shown.entry, &wanted);
                }
                Step::Derive(_) | Step::Cut(_) => return Err(Box::new(self)),
                step => return Ok(self.finish(step, headers)),
            }
        }
    }

    /// The answer. A body whose work panicked is shown as it is.
    pub(in crate::core) async fn away(mut self, core: &Arc<Core>, headers: &HeaderMap) -> Shaped {
        loop {
            let step = match self.shape.step(core, &self.shown.entry) {
                Step::Derive(wanted) if is_small(&self.shown.entry) => {
                    self.shown.entry = core.derive_now(&self.key, &self.shown.entry, &wanted);
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
            return self.finish(step, headers);
        }
    }

    fn finish(self, step: Step, headers: &HeaderMap) -> Shaped {
        let Self { mut shown, shape, .. } = self;
        match step {
            // Who names the tag of the plain bytes has them.
            Step::Instead(_) if shape.zstd && shown.not_modified => Shaped::Shown(shown),
            Step::Instead(content) => {
                shown.not_modified = rfc9111::not_modified_instead(headers, &shown.entry, &content);
                shown.instead = Some(content);
                Shaped::Shown(shown)
            }
            Step::Own | Step::Derive(_) | Step::Cut(_) => Shaped::Shown(shown),
            Step::Mismatch => Shaped::Refused(ShapeRefused::Mismatch),
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
