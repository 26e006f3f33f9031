//! Streams a batch's answer: its parts in order, as they are there. What is not there yet is asked
//! for in waves, and the next begins when the reader has come to it.

use std::collections::VecDeque;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::HeaderMap;
use tokio::sync::mpsc;

use super::limits;
use super::part::{Form, Said, end, is_bare, is_json_text, put_base64};
use super::wave::{Asked, Batch, Slot};
use super::worst::{Worst, line};
use crate::http::bodies::Reserved;
use crate::http::body::Body;
use crate::http::exchange::Failure;
use crate::model::time::Moment;
use crate::payload::coding::{Coding, encode};
use crate::protocol::label::Label;
use crate::request::answer::{Outcome, respond};
use crate::request::caller::by_accept;
use crate::request::settings::Settings;
use crate::shape::cache_status::{Bound, CacheLine, Detail};
use crate::shape::limits::{COMPRESSED_BYTES, INLINE_DERIVE_BYTES, ZSTD_LEVEL};
use crate::shape::shown::Shown;
use crate::switch::{Guard, is_on};
use crate::tasks::on_blocking_pool;
use crate::telemetry::metrics::batches::BatchPart;
use crate::telemetry::metrics::payload::PayloadWork;

struct Answering {
    batch: Arc<Batch>,
    parts: Vec<Slot>,
    /// The next part to write.
    next: usize,
    /// The places that were asked for last end here.
    asked_to: usize,
    arriving: Option<mpsc::Receiver<Asked>>,
    /// The part that was asked for once more when its turn had come.
    asked_again: Option<usize>,
    worst: Worst,
    /// Written and not sent.
    out: Vec<u8>,
    /// To be sent after `out` has been.
    rest: VecDeque<Bytes>,
    is_over: bool,
    _reserved: Reserved,
}

/// Looks up every key, begins to ask for the first that are missing, and answers.
pub(super) async fn begin(batch: Arc<Batch>, reserved: Reserved) -> Outcome {
    let parts = batch.look();
    let line = line(&parts);
    let mut out = Vec::with_capacity(expected_bytes(&parts));
    out.extend_from_slice(b"{\"parts\":[");
    let mut answering = Answering {
        batch,
        parts,
        next: 0,
        asked_to: 0,
        arriving: None,
        asked_again: None,
        worst: Worst::default(),
        out,
        rest: VecDeque::new(),
        is_over: false,
        _reserved: reserved,
    };
    answering.ask_for_more();
    // What is there at once and not much goes out whole, with its length. This waits for no region:
    // something is written already.
    let first = answering.chunk(limits::WHOLE_BYTES).await;
    let settings = answering.batch.settings.clone();
    let is_whole = answering.is_over && answering.rest.is_empty();
    let is_long = !is_whole || first.as_ref().is_some_and(|first| first.len() >= COMPRESSED_BYTES);
    let is_zstd = answering.batch.takes_zstd && is_long;
    if is_whole {
        let framed = match first.clone().filter(|_| is_zstd) {
            Some(bytes) => framed(settings, bytes).await.ok(),
            None => None,
        };
        return Outcome::Many { line, is_zstd: framed.is_some(), body: Body::Whole(framed.or(first)) };
    }
    let rest = stream::unfold(answering, |mut answering| async {
        answering.chunk(limits::CHUNK_BYTES).await.map(|chunk| (Ok(chunk), answering))
    });
    let chunks = stream::iter(first.map(Ok)).chain(rest);
    let chunks =
        if is_zstd { chunks.and_then(move |chunk| framed(settings.clone(), chunk)).boxed() } else { chunks.boxed() };
    Outcome::Many { line, is_zstd, body: Body::Streamed(chunks, None) }
}

/// These bytes as one zstd frame. A body may have many (RFC 8878, 3.1), so that each part of it can
/// go out as it is there.
async fn framed(settings: Arc<Settings>, bytes: Bytes) -> Result<Bytes, Failure> {
    let is_small = bytes.len() <= INLINE_DERIVE_BYTES;
    let framed = if is_small {
        frame(&settings, &bytes)
    } else {
        on_blocking_pool(move || frame(&settings, &bytes)).await.flatten()
    };
    framed.ok_or(Failure::NoRoom)
}

fn frame(settings: &Settings, bytes: &Bytes) -> Option<Bytes> {
    let shared = &settings.fill.shared;
    let began = shared.clock.now();
    let framed = encode(Coding::Zstd, bytes, ZSTD_LEVEL, None);
    shared.metrics.payload.payload_work(PayloadWork::CompressZstd, shared.clock.now() - began, bytes.len());
    framed.ok()
}

/// About how long the first chunk becomes, so that it is not moved as it grows: up to the first part
/// that is not there, or whose body is sent from where it lies.
fn expected_bytes(parts: &[Slot]) -> usize {
    let bytes = parts
        .iter()
        .map_while(|part| match part {
            Slot::There(Outcome::Shown(shown), _) if shown.not_modified => Some(0),
            Slot::There(Outcome::Shown(shown), _) => Some(shown.content().body_len()),
            _ => None,
        })
        .take_while(|bytes| *bytes <= limits::PART_BYTES);
    bytes.map(|bytes| limits::PART_HEAD_BYTES + bytes).sum::<usize>().min(limits::WHOLE_BYTES)
}

fn is_overtaken(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Shown(shown) if is_older(shown))
}

/// True if it is older than a version that was announced or served by now, and does not say so.
fn is_older(shown: &Shown) -> bool {
    let says_so = matches!(shown.line.detail, Some(Detail::Label(label)) if Label::COUNTED.contains(&label));
    let routed = shown.entry.validity.routed().filter(|_| !says_so);
    routed.is_some_and(|routed| {
        !routed.shows.iter().all(|shown| shown.record.snapshot().matches(shown.version, shown.generation))
    })
}

impl Answering {
    /// Begins a wave of those that are missing next, if any is.
    fn ask_for_more(&mut self) {
        let most = limits::WAVE.min(self.batch.settings.shared.batches.most);
        let missing = (self.asked_to..self.parts.len()).filter(|at| matches!(self.parts[*at], Slot::Missing));
        let places: Vec<usize> = missing.take(most).collect();
        let Some(last) = places.last() else { return };
        self.asked_to = last + 1;
        self.arriving = Some(self.batch.ask_for(places, false));
    }

    /// The next bytes to send, about so many at most; `None` after the last.
    async fn chunk(&mut self, most: usize) -> Option<Bytes> {
        if let Some(bytes) = self.rest.pop_front() {
            return Some(bytes);
        }
        while !self.is_over && self.rest.is_empty() && self.out.len() < most {
            self.take_what_arrived();
            let Some(part) = self.parts.get_mut(self.next) else {
                self.put_end();
                break;
            };
            match std::mem::replace(part, Slot::Written) {
                Slot::There(outcome, when) => {
                    if let Some(outcome) = self.in_time(outcome, when) {
                        self.put(outcome, when).await;
                    }
                }
                Slot::Later => {
                    let (outcome, when) = self.batch.again(self.next).await;
                    self.put(outcome, when).await;
                }
                _ => {
                    *part = Slot::Missing;
                    // What is written need not wait for what is not there.
                    if !self.out.is_empty() {
                        break;
                    }
                    self.arrive().await;
                }
            }
        }
        if self.out.is_empty() {
            return self.rest.pop_front();
        }
        Some(std::mem::take(&mut self.out).into())
    }

    /// Outcome of the next part, now that its turn has come. If something newer was announced or
    /// served while it waited, it is asked for once more (`None`), together with all others like
    /// it; if it happens again, the part says so (promise 1).
    fn in_time(&mut self, outcome: Outcome, when: Moment) -> Option<Outcome> {
        if !is_overtaken(&outcome) {
            return Some(outcome);
        }
        if self.asked_again == Some(self.next) {
            return Some(self.batch.below_floor(outcome));
        }
        self.asked_again = Some(self.next);
        self.parts[self.next] = Slot::There(outcome, when);
        for part in &mut self.parts[self.next..] {
            if let Slot::There(Outcome::Shown(shown), _) = part
                && is_older(shown)
            {
                self.batch.written(shown);
                *part = Slot::Missing;
            }
        }
        // Who is being asked for goes on to be, and is joined.
        (self.asked_to, self.arriving) = (self.next, None);
        self.ask_for_more();
        None
    }

    fn take_what_arrived(&mut self) {
        while let Some(asked) = self.arriving.as_mut().and_then(|arriving| arriving.try_recv().ok()) {
            let at = asked.at;
            self.parts[at] = asked.slot();
        }
    }

    /// Waits for one that was asked for.
    async fn arrive(&mut self) {
        if self.next >= self.asked_to {
            self.ask_for_more();
        }
        let Some(arriving) = &mut self.arriving else { return };
        let asked = arriving.recv().await.unwrap_or_else(|| {
            // The wave broke: a defect, answered as for any fill that broke.
            let outcome = Some(Outcome::NoneAnswered(Vec::new()));
            Asked { at: self.next, outcome, when: self.batch.settings.fill.shared.clock.now() }
        });
        let at = asked.at;
        self.parts[at] = asked.slot();
    }

    async fn put(&mut self, outcome: Outcome, when: Moment) {
        if self.next > 0 {
            self.out.push(b',');
        }
        let at = self.next;
        self.next += 1;
        let outcome = self.later(outcome, when);
        self.batch.settings.fill.shared.metrics.batches.batch_part(match &outcome {
            Outcome::Shown(shown) if shown.line.hit => BatchPart::Stored,
            Outcome::BadKey => BatchPart::Refused,
            _ => BatchPart::Asked,
        });
        match outcome {
            Outcome::Shown(shown) if !self.batch.request.headers => {
                self.batch.written(&shown);
                self.put_shown(at, &shown).await;
            }
            outcome => self.put_answer(at, outcome).await,
        }
    }

    /// Adds to the age of an outcome the time that it waited for its turn.
    fn later(&mut self, outcome: Outcome, when: Moment) -> Outcome {
        let Outcome::Shown(mut shown) = outcome else { return outcome };
        // A bound is never too small; what waits for nobody does not reach the next second.
        let waited = (self.batch.settings.fill.shared.clock.now().since(when) + limits::ALMOST_A_SECOND).as_secs();
        shown.age = shown.age.map(|age| age + waited);
        if let Some(Bound::Seconds(bound)) = &mut shown.line.bound {
            *bound += waited;
        }
        if !is_on(Guard::BoundOfItsPart) {
            shown.line.bound = self.worst.0.or(shown.line.bound);
        }
        self.worst = self.worst.and(shown.line.bound);
        Outcome::Shown(shown)
    }

    /// A representation, with the least work: most are stored.
    async fn put_shown(&mut self, at: usize, shown: &Shown) {
        let batch = self.batch.clone();
        let said = Said::of(shown, &batch.settings.fill.config.service.version_header);
        let content = shown.content();
        let key = &batch.key(at).key;
        if shown.not_modified || content.body_len() == 0 {
            said.begin(key, None, None, &mut self.out);
            return end(None, &mut self.out);
        }
        // It is unknown of a body that stands in for the entry's own.
        let is_own = shown.instead.is_none();
        let is_json = match (shown.entry.json.get().filter(|_| is_own), content.to_copy()) {
            _ if !said.is_json() => false,
            (Some(known), _) => known,
            (None, body) => {
                let is_json = match body {
                    Ok(body) => is_json_text(body),
                    Err(body) => is_json_body(body.clone()).await,
                };
                if is_own {
                    shown.entry.json.set(is_json);
                }
                is_json
            }
        };
        let form = Some(if is_json { Form::Json } else { Form::Base64 });
        said.begin(key, None, form, &mut self.out);
        match content.to_copy() {
            Ok(body) if is_json => self.out.extend_from_slice(body),
            Ok(body) => put_base64(body, &mut self.out),
            Err(body) => self.put_apart(body.clone(), is_json),
        }
        self.end(form);
    }

    /// Anything else, or with its head: as the answer to a GET, of which this is made.
    async fn put_answer(&mut self, at: usize, outcome: Outcome) {
        let batch = self.batch.clone();
        let (outcome, line, age) = match outcome {
            Outcome::Shown(shown) => {
                batch.written(&shown);
                let (line, age) = (shown.line, shown.age);
                (Outcome::Shown(shown), line, age)
            }
            Outcome::Streamed { .. } | Outcome::Many { .. } => (Outcome::LargePart, CacheLine::default(), None),
            outcome => (outcome, CacheLine::default(), None),
        };
        let outcome = outcome.negotiated(by_accept(&batch.settings, &batch.headers));
        let (head, body) = respond(outcome, &batch.settings.fill.shared.names).into_parts();
        let body = match body {
            Body::Whole(whole) => whole.unwrap_or_default(),
            Body::Streamed(..) => Bytes::new(),
        };
        let lines = head.headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        let said = Said { status: head.status, age, line, ..Said::default() };
        let said = said.with(lines, &batch.settings.fill.config.service.version_header);
        let headers: Option<&HeaderMap> = batch.request.headers.then_some(&head.headers);
        // A caller that wants the head wants the very bytes too.
        let may_be_json = said.is_json() && (headers.is_none() || is_bare(&body));
        let form = if body.is_empty() {
            None
        } else if may_be_json && is_json_body(body.clone()).await {
            Some(Form::Json)
        } else {
            Some(Form::Base64)
        };
        said.begin(&batch.key(at).key, headers, form, &mut self.out);
        if form.is_some() {
            self.put_apart(body, form == Some(Form::Json));
        }
        self.end(form);
    }

    /// A body that is sent from where it lies if it is large.
    fn put_apart(&mut self, body: Bytes, is_json: bool) {
        match (is_json, body.len() <= limits::PART_BYTES) {
            (true, true) => self.out.extend_from_slice(&body),
            (false, true) => put_base64(&body, &mut self.out),
            (true, false) => {
                self.rest.push_back(std::mem::take(&mut self.out).into());
                self.rest.push_back(body);
            }
            (false, false) => {
                self.rest.push_back(std::mem::take(&mut self.out).into());
                self.rest.push_back(STANDARD.encode(&body).into());
            }
        }
    }

    fn end(&mut self, form: Option<Form>) {
        end(form, &mut self.out);
        if !self.rest.is_empty() {
            self.rest.push_back(std::mem::take(&mut self.out).into());
        }
    }

    fn put_end(&mut self) {
        self.is_over = true;
        self.out.push(b']');
        match self.worst.0 {
            Some(Bound::Seconds(seconds)) => self.out.extend_from_slice(format!(",\"bound\":{seconds}").as_bytes()),
            Some(Bound::None) => self.out.extend_from_slice(b",\"bound\":null"),
            None => {}
        }
        self.out.push(b'}');
    }
}

async fn is_json_body(body: Bytes) -> bool {
    if body.len() <= limits::INLINE_BYTES {
        is_json_text(&body)
    } else {
        on_blocking_pool(move || is_json_text(&body)).await.unwrap_or_default()
    }
}
