//! Whole bodies, coded and decoded.

use std::io::{self, Read, Write};

use bytes::Bytes;

use super::content_coding::Coding;
use super::dictionary::Dictionary;
use super::error::CodingError;
use super::layers::{Layer, take_off};
use super::zstd_frames;
use crate::payload::limits;

/// The content of a whole body, at most `limit` bytes. Where the body states how long that is, it
/// is refused before anything is allocated. An empty body is no coded one.
///
/// Takes milliseconds for megabytes.
pub fn decode(
    coding: Coding,
    body: &Bytes,
    limit: usize,
    dictionary: Option<&Dictionary>,
) -> Result<Bytes, CodingError> {
    decode_within(coding, body, limit, dictionary, |_| true)
}

pub(super) fn decode_within(
    coding: Coding,
    body: &Bytes,
    limit: usize,
    dictionary: Option<&Dictionary>,
    has_room: impl FnMut(usize) -> bool,
) -> Result<Bytes, CodingError> {
    let Some(layer) = coding.layer() else {
        return if body.len() <= limit { Ok(body.clone()) } else { Err(CodingError::TooLarge) };
    };
    let content = take_off(layer, Box::new(&body[..]), dictionary).map_err(blame)?;
    let stated = match layer {
        Layer::Gzip => stated_by_gzip(body)?,
        // The header of `dcz` is a frame that holds nothing.
        _ => zstd_frames::stated(body)?,
    };
    match usize::try_from(stated) {
        Ok(stated) if stated <= limit => read_within(content, stated, limit, has_room),
        _ => Err(CodingError::TooLarge),
    }
}

/// `body` in a content coding. `level` is zstd's or gzip's own, within what each has.
pub fn encode(
    coding: Coding,
    body: &Bytes,
    level: i32,
    dictionary: Option<&Dictionary>,
) -> Result<Bytes, CodingError> {
    match coding {
        Coding::Identity => Ok(body.clone()),
        Coding::Gzip => {
            let level = u32::try_from(level.clamp(0, 9)).expect("0 to 9");
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
            let written = encoder.write_all(body).and_then(|()| encoder.finish());
            Ok(written.map_err(|_| CodingError::NoMemory)?.into())
        }
        Coding::Zstd => Ok(zstd_frames::frame(body, level, None)?.into()),
        Coding::Dcz => {
            let dictionary = dictionary.ok_or(CodingError::NoDictionary)?;
            let frame = zstd_frames::frame(body, level, Some(dictionary.content()))?;
            Ok([&dictionary.header()[..], &frame].concat().into())
        }
    }
}

/// Size that the last member states (RFC 1952, 2.3.1), of 32 bits. The sizes of the others come on
/// top.
pub(super) fn stated_by_gzip(body: &[u8]) -> Result<u64, CodingError> {
    let (_, stated) = body.split_last_chunk::<4>().ok_or(CodingError::Damaged)?;
    let stated = u32::from_le_bytes(*stated);
    let possible = body.len().saturating_mul(limits::DEFLATE_RATIO);
    if usize::try_from(stated).is_ok_and(|stated| stated <= possible) {
        Ok(u64::from(stated))
    } else {
        Err(CodingError::Damaged)
    }
}

/// All that is read, at most `limit` bytes; `stated` is how much is expected, or 0.
fn read_within(
    mut from: impl Read,
    stated: usize,
    limit: usize,
    mut has_room: impl FnMut(usize) -> bool,
) -> Result<Bytes, CodingError> {
    let first = if stated == 0 { limits::DECODED_AT_FIRST.min(limit) } else { stated };
    let mut content = vec![0; with_room(first, &mut has_room)?];
    let mut length = 0;
    loop {
        if length < content.len() {
            match from.read(&mut content[length..]).map_err(blame)? {
                0 => break,
                read => length += read,
            }
            continue;
        }
        // Full: a byte aside shows whether anything follows.
        let mut next = [0];
        if from.read(&mut next).map_err(blame)? == 0 {
            break;
        }
        if length == limit {
            return Err(CodingError::TooLarge);
        }
        let doubled = (2 * length).max(limits::DECODED_AT_FIRST).min(limit);
        content.resize(with_room(doubled, &mut has_room)?, 0);
        content[length] = next[0];
        length += 1;
    }
    content.truncate(length);
    content.shrink_to_fit();
    Ok(content.into())
}

/// `bytes`, if there is room for them.
fn with_room(bytes: usize, has_room: &mut impl FnMut(usize) -> bool) -> Result<usize, CodingError> {
    if has_room(bytes) { Ok(bytes) } else { Err(CodingError::NoRoom) }
}

/// Which error a reader's is; what flate2 says of a body is that it is damaged.
fn blame(error: io::Error) -> CodingError {
    error.get_ref().and_then(|cause| cause.downcast_ref()).copied().unwrap_or(CodingError::Damaged)
}
