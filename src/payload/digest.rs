//! The digest that stands in for a version when a reply states none (`docs/freshness.md`): a hash
//! of the body with its content codings removed.
//!
//! Votes compare digests, and entries keep one. Two replies with the same decoded content have the
//! same digest whatever their codings; audits compare what JSON means (R23). The bytes that go to
//! callers are never changed. No body,
//! however it was made, costs more than decoding [`limits::DECODED_BODY_BYTES`] per coding and a
//! fixed amount of memory.

use std::io::{self, BufRead, BufReader, Read};

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use http::{HeaderMap, header};

use crate::payload::accept;
use crate::payload::coding::layers::{Layer, layers, take_off};
use crate::payload::limits;
use crate::tasks::on_blocking_pool;

#[cfg(test)]
mod tests;

/// The first hashed byte, so that undecodable bytes never pass for decoded ones.
const DECODED: u8 = 0;
const RAW: u8 = 1;
/// First hashed byte of a JSON text in its one form.
const MEANING: u8 = 2;

/// The first 128 bits of SHA-256 over the decoded content of `body`.
///
/// A body that cannot be decoded (unknown coding, damaged data, or more than the limits allow) is
/// hashed as it is, together with its codings and under a tag of its own, so it equals only itself.
/// Takes milliseconds for a body of megabytes.
pub fn digest(body: &Bytes, headers: &HeaderMap) -> u128 {
    digest_within(body, headers, limits::DECODED_BODY_BYTES)
}

/// [`digest`] of what a body means, whatever its codings: of JSON, white space and the order of
/// members make no difference. What is larger than [`limits::JSON_DIGEST_BYTES`] or nested too
/// deeply to be read, and what is not JSON, counts by its decoded bytes. `None` if it cannot be
/// decoded: then nobody knows what it means.
pub fn digest_of_meaning(body: &Bytes, headers: &HeaderMap) -> Option<u128> {
    const MOST: usize = limits::JSON_DIGEST_BYTES;
    let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|it| accept::is_json(it.as_bytes()));
    let (mut bytes, mut text) = (hash_of(DECODED, &[]), Vec::new());
    decode(body, &layers(headers).ok()?, limits::DECODED_BODY_BYTES, |chunk| {
        bytes.update(chunk);
        if is_json {
            // One byte too many shows that it is too large.
            text.extend_from_slice(&chunk[..chunk.len().min(MOST + 1 - text.len())]);
        }
    })
    .ok()?;
    let is_readable = is_json && text.len() <= MOST;
    let value = is_readable.then(|| serde_json::from_slice::<serde_json::Value>(&text).ok()).flatten();
    // Its members are in the order of their names now.
    Some(finish(value.map_or(bytes, |value| hash_of(MEANING, value.to_string().as_bytes()))))
}

/// The digest of a body of `len` bytes, by `work`. A large one takes milliseconds, which nobody
/// else should wait for: it goes to a thread of its own. `None` when that panicked.
pub async fn of_body<T: Send + 'static>(len: usize, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if len <= limits::INLINE_DIGEST_BYTES { Some(work()) } else { on_blocking_pool(work).await }
}

fn digest_within(body: &Bytes, headers: &HeaderMap, limit: u64) -> u128 {
    let mut context = hash_of(DECODED, &[]);
    match layers(headers).map(|layers| decode(body, &layers, limit, |chunk| context.update(chunk))) {
        Ok(Ok(())) => finish(context),
        Ok(Err(_)) | Err(_) => raw(body, headers),
    }
}

/// Passes the decoded content on, chunk by chunk.
fn decode(body: &Bytes, layers: &[Layer], limit: u64, mut keep: impl FnMut(&[u8])) -> io::Result<()> {
    let mut reader: Box<dyn BufRead + '_> = Box::new(&body[..]);
    for layer in layers.iter().rev() {
        // Nothing is compressed with a dictionary here: that coding is removed before.
        reader = Box::new(BufReader::new(Bounded { inner: take_off(*layer, reader, None)?, left: limit }));
    }
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            return Ok(());
        }
        keep(chunk);
        let read = chunk.len();
        reader.consume(read);
    }
}

/// Fails rather than pass on more than `left` bytes, so that a decompression bomb counts as
/// undecodable.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| io::Error::other("decodes to too much"))?;
        Ok(read)
    }
}

fn raw(body: &Bytes, headers: &HeaderMap) -> u128 {
    let mut context = hash_of(RAW, &[]);
    for line in headers.get_all(header::CONTENT_ENCODING) {
        context.update(&(line.len() as u64).to_le_bytes());
        context.update(line.as_bytes());
    }
    context.update(&u64::MAX.to_le_bytes());
    context.update(body);
    finish(context)
}

fn hash_of(tag: u8, bytes: &[u8]) -> Context {
    let mut context = Context::new(&SHA256);
    context.update(&[tag]);
    context.update(bytes);
    context
}

fn finish(context: Context) -> u128 {
    let digest = context.finish();
    digest.as_ref().iter().take(16).fold(0, |digest, byte| digest << 8 | u128::from(*byte))
}
