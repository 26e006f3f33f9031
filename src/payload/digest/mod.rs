//! The digest that stands in for a version when a reply states none (`docs/freshness.md`): a hash
//! of the body with its content codings removed.
//!
//! Votes compare digests, and entries keep one. Two replies with the same decoded content have the
//! same digest whatever their codings. The bytes that go to callers are never changed. No body,
//! however it was made, costs more than decoding [`limits::DECODED_BODY_BYTES`] per coding and a
//! fixed amount of memory.

use std::io::{self, BufRead, BufReader, Read};

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use http::{HeaderMap, header};

use crate::payload::limits;
use crate::tasks::on_blocking_pool;

#[cfg(test)]
mod tests;

/// The first hashed byte, so that undecodable bytes never pass for decoded ones.
const DECODED: u8 = 0;
const RAW: u8 = 1;

/// A content coding that can be removed (RFC 9110, 8.4.1; RFC 7932; RFC 8878).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The first 128 bits of SHA-256 over the decoded content of `body`.
///
/// A body that cannot be decoded (unknown coding, damaged data, or more than the limits allow) is
/// hashed as it is, together with its codings and under a tag of its own, so it equals only itself.
/// Takes milliseconds for a body of megabytes.
pub fn digest(body: &Bytes, headers: &HeaderMap) -> u128 {
    digest_within(body, headers, limits::DECODED_BODY_BYTES)
}

/// The digest of a body of `len` bytes, by `work`. A large one takes milliseconds, which nobody
/// else should wait for: it goes to a thread of its own. `None` when that panicked.
pub async fn of_body(len: usize, work: impl FnOnce() -> u128 + Send + 'static) -> Option<u128> {
    if len <= limits::INLINE_DIGEST_BYTES { Some(work()) } else { on_blocking_pool(work).await }
}

fn digest_within(body: &Bytes, headers: &HeaderMap, limit: u64) -> u128 {
    match codings(headers) {
        Some(codings) if codings.is_empty() => finish(hash_of(DECODED, body)),
        Some(codings) => decoded(body, &codings, limit).map_or_else(|_| raw(body, headers), finish),
        None => raw(body, headers),
    }
}

/// The codings in the order in which they were applied, without `identity`; `None` if one is
/// unknown or there are too many.
fn codings(headers: &HeaderMap) -> Option<Vec<Coding>> {
    let mut codings = Vec::new();
    for line in headers.get_all(header::CONTENT_ENCODING) {
        for word in line.to_str().ok()?.split(',').map(str::trim) {
            let coding = match word {
                word if word.eq_ignore_ascii_case("gzip") || word.eq_ignore_ascii_case("x-gzip") => Coding::Gzip,
                word if word.eq_ignore_ascii_case("deflate") => Coding::Deflate,
                word if word.eq_ignore_ascii_case("br") => Coding::Brotli,
                word if word.eq_ignore_ascii_case("zstd") => Coding::Zstd,
                word if word.is_empty() || word.eq_ignore_ascii_case("identity") => continue,
                _ => return None,
            };
            if codings.len() == limits::CONTENT_CODINGS {
                return None;
            }
            codings.push(coding);
        }
    }
    Some(codings)
}

fn decoded(body: &Bytes, codings: &[Coding], limit: u64) -> io::Result<Context> {
    let mut reader: Box<dyn BufRead + '_> = Box::new(&body[..]);
    for coding in codings.iter().rev() {
        reader = Box::new(BufReader::new(Bounded { inner: take_off(*coding, reader)?, left: limit }));
    }
    let mut context = hash_of(DECODED, &[]);
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            return Ok(context);
        }
        context.update(chunk);
        let read = chunk.len();
        reader.consume(read);
    }
}

fn take_off<'a>(coding: Coding, mut from: Box<dyn BufRead + 'a>) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match coding {
        Coding::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(from)),
        // RFC 9110, 8.4.1.2 means the zlib format. Some servers send bare deflate instead; two
        // bytes tell them apart.
        Coding::Deflate if is_zlib(from.fill_buf()?) => Box::new(flate2::bufread::ZlibDecoder::new(from)),
        Coding::Deflate => Box::new(flate2::bufread::DeflateDecoder::new(from)),
        Coding::Brotli => Box::new(brotli_decompressor::Decompressor::new(from, 4096)),
        Coding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(from)?;
            decoder.window_log_max(limits::ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
    })
}

/// RFC 1950, 2.2: method 8, and a header that is a multiple of 31.
fn is_zlib(head: &[u8]) -> bool {
    matches!(head, [cmf, flags, ..] if cmf & 0x0f == 8 && u16::from_be_bytes([*cmf, *flags]) % 31 == 0)
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
