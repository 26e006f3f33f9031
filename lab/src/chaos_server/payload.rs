//! Sends a region's body over the wire: whole, or broken as its [`Mode`] says. A dripping body is
//! sent whole as soon as its region stops dripping.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use tokio::sync::watch;

use super::chaos::Mode;
use super::reply::ScriptedReply;
use crate::chaos_server::knobs::Knobs;
use crate::limits;

/// A body that may fail half-way.
pub(super) type Payload = UnsyncBoxBody<Bytes, io::Error>;

/// Turns `reply` into a response whose body is sent as `mode` says.
pub(super) fn send(reply: ScriptedReply, mode: Mode, knobs: watch::Receiver<Knobs>) -> Response<Payload> {
    let length = HeaderValue::from(reply.body.len());
    let payload = match mode {
        Mode::Drip if !reply.body.is_empty() => drip(reply.body, knobs),
        Mode::Truncate if !reply.body.is_empty() => half(&reply.body),
        Mode::Endless if !reply.body.is_empty() => endless(),
        _ => Full::new(reply.body).map_err(|never| match never {}).boxed_unsync(),
    };
    let mut response = Response::new(payload);
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    if matches!(mode, Mode::Drip | Mode::Truncate) && reply.status != http::StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(CONTENT_LENGTH, length);
    }
    response
}

/// One byte a second, for as long as the region drips.
fn drip(body: Bytes, knobs: watch::Receiver<Knobs>) -> Payload {
    let chunks = stream::unfold((body, knobs), async |(mut rest, mut knobs)| {
        if rest.is_empty() {
            return None;
        }
        let healed = knobs.wait_for(|knobs| knobs.mode != Mode::Drip);
        let chunk = match tokio::time::timeout(Duration::from_secs(1), healed).await {
            Ok(_) => std::mem::take(&mut rest),
            Err(_) => rest.split_to(1),
        };
        Some((chunk, (rest, knobs)))
    });
    StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk)))).boxed_unsync()
}

/// The first half, then the end of the connection.
fn half(body: &Bytes) -> Payload {
    let first = body.slice(..body.len() / 2);
    let chunks = stream::unfold(Some(first), async |first| match first {
        Some(chunk) if !chunk.is_empty() => Some((Ok(Frame::data(chunk)), None)),
        _ => {
            // Lets the first half out before the connection ends.
            tokio::time::sleep(Duration::from_millis(2)).await;
            Some((Err(io::ErrorKind::UnexpectedEof.into()), None))
        }
    });
    StreamBody::new(chunks).boxed_unsync()
}

/// 64 KiB every 10 ms, until the reader gives up or the limit is reached.
fn endless() -> Payload {
    const CHUNK: usize = 64 << 10;
    let chunks = stream::unfold(0, async |sent| {
        if sent >= limits::ENDLESS_BYTES {
            return Some((Err(io::ErrorKind::FileTooLarge.into()), sent));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        Some((Ok(Frame::data(Bytes::from_static(&[b' '; CHUNK]))), sent + CHUNK))
    });
    StreamBody::new(chunks).boxed_unsync()
}
