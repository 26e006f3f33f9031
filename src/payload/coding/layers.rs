//! The content codings of a body as its headers list them, and how each is taken off. The digest
//! takes off several, one behind the other, in a fixed amount of memory.

use std::io::{self, BufRead, Read};

use http::{HeaderMap, header};

use super::dictionary::Dictionary;
use super::error::CodingError;
use super::zstd_frames::Frames;
use crate::payload::limits;

/// A content coding that can be removed (RFC 9110, 8.4.1; RFC 7932; RFC 8878; RFC 9842).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::payload) enum Layer {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
    Dcz,
}

/// The codings in the order in which they were applied, without `identity`.
pub(in crate::payload) fn layers(headers: &HeaderMap) -> Result<Vec<Layer>, CodingError> {
    let mut layers = Vec::new();
    for line in headers.get_all(header::CONTENT_ENCODING) {
        for word in line.to_str().map_err(|_| CodingError::Unknown)?.split(',').map(str::trim) {
            let layer = match word {
                word if word.eq_ignore_ascii_case("gzip") || word.eq_ignore_ascii_case("x-gzip") => Layer::Gzip,
                word if word.eq_ignore_ascii_case("deflate") => Layer::Deflate,
                word if word.eq_ignore_ascii_case("br") => Layer::Brotli,
                word if word.eq_ignore_ascii_case("zstd") => Layer::Zstd,
                word if word.eq_ignore_ascii_case("dcz") => Layer::Dcz,
                word if word.is_empty() || word.eq_ignore_ascii_case("identity") => continue,
                _ => return Err(CodingError::Unknown),
            };
            if layers.len() == limits::CONTENT_CODINGS {
                return Err(CodingError::Several);
            }
            layers.push(layer);
        }
    }
    Ok(layers)
}

/// Content of `from` without one coding. The reader fails on damaged or truncated content, and on
/// bytes that follow the coded ones.
pub(in crate::payload) fn take_off<'a>(
    layer: Layer,
    mut from: Box<dyn BufRead + 'a>,
    dictionary: Option<&'a Dictionary>,
) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match layer {
        Layer::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(from)),
        // RFC 9110, 8.4.1.2 means the zlib format. Some servers send bare deflate instead; two
        // bytes tell them apart.
        Layer::Deflate if is_zlib(from.fill_buf()?) => Box::new(flate2::bufread::ZlibDecoder::new(from)),
        Layer::Deflate => Box::new(flate2::bufread::DeflateDecoder::new(from)),
        Layer::Brotli => Box::new(brotli_decompressor::Decompressor::new(from, 4096)),
        Layer::Zstd => Box::new(Frames::new(from, None).map_err(io::Error::other)?),
        Layer::Dcz => {
            let dictionary = dictionary.ok_or(CodingError::NoDictionary).map_err(io::Error::other)?;
            dictionary.admit(&mut from).map_err(io::Error::other)?;
            Box::new(Frames::new(from, Some(dictionary.content())).map_err(io::Error::other)?)
        }
    })
}

/// RFC 1950, 2.2: method 8, and a header that is a multiple of 31.
fn is_zlib(head: &[u8]) -> bool {
    matches!(head, [cmf, flags, ..] if cmf & 0x0f == 8 && u16::from_be_bytes([*cmf, *flags]) % 31 == 0)
}
