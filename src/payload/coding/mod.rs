//! Content codings of replies: what a region may compress with where a route asks it to, and what
//! that holds. Nobody decodes to more than they allow, however the body was made.

use std::io::{self, Read, Write};

use bytes::Bytes;
use http::HeaderMap;

use crate::payload::limits;

mod asked;
mod dictionary;
mod error;
pub(super) mod layers;
mod zstd_frames;

#[cfg(test)]
mod tests;

pub use asked::{CODED_TAG, Codings, has_body, uncoded};
pub use dictionary::{Dictionary, available_dictionary};
pub use error::{CodingError, DictionaryError};
use layers::{Layer, take_off};

/// The content coding of a whole body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    Identity,
    Gzip,
    Zstd,
    /// zstd with a dictionary (RFC 9842).
    Dcz,
}

impl Coding {
    /// What `Content-Encoding` says. Codings that nobody is asked for, and several one behind the
    /// other, are errors.
    pub fn of(headers: &HeaderMap) -> Result<Self, CodingError> {
        match layers::layers(headers)?[..] {
            [] => Ok(Self::Identity),
            [Layer::Gzip] => Ok(Self::Gzip),
            [Layer::Zstd] => Ok(Self::Zstd),
            [Layer::Dcz] => Ok(Self::Dcz),
            [_] => Err(CodingError::Unknown),
            _ => Err(CodingError::Several),
        }
    }

    fn layer(self) -> Option<Layer> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some(Layer::Gzip),
            Self::Zstd => Some(Layer::Zstd),
            Self::Dcz => Some(Layer::Dcz),
        }
    }
}

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

fn decode_within(
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

/// What the last member states (RFC 1952, 2.3.1), of 32 bits. That of the others comes on top.
fn stated_by_gzip(body: &[u8]) -> Result<u64, CodingError> {
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
    let mut room_for = |bytes| if has_room(bytes) { Ok(bytes) } else { Err(CodingError::NoRoom) };
    let first = if stated == 0 { limits::DECODED_AT_FIRST.min(limit) } else { stated };
    let mut content = vec![0; room_for(first)?];
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
        content.resize(room_for((2 * length).max(limits::DECODED_AT_FIRST).min(limit))?, 0);
        content[length] = next[0];
        length += 1;
    }
    content.truncate(length);
    content.shrink_to_fit();
    Ok(content.into())
}

/// Which error a reader's is; what flate2 says of a body is that it is damaged.
fn blame(error: io::Error) -> CodingError {
    error.get_ref().and_then(|cause| cause.downcast_ref()).copied().unwrap_or(CodingError::Damaged)
}
