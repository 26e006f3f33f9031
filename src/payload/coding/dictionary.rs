//! Compression dictionaries (RFC 9842): raw content, known by its SHA-256 hash.

use std::io::Read;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;

use super::error::{CodingError, DictionaryError};
use crate::payload::limits::DICTIONARY_BYTES;

/// Magic number of a `dcz` body (RFC 9842, 5): a zstd frame that is skipped, of 32 bytes.
const DCZ_MAGIC: [u8; 8] = [0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0];
const HASH_BYTES: usize = 32;
/// Length of the header of a `dcz` body.
pub(super) const DCZ_HEADER_BYTES: usize = DCZ_MAGIC.len() + HASH_BYTES;

/// A dictionary whose hash is the one that was expected. All of it is raw content: what `zstd
/// --train` writes is a format of its own, whose tables RFC 9842 does not use.
#[derive(Clone, PartialEq, Eq)]
pub struct Dictionary {
    content: Bytes,
    hash: [u8; HASH_BYTES],
}

impl Dictionary {
    /// Takes `bytes` if their SHA-256 hash is `expected_sha256_hex`, in either letter case.
    pub fn read(bytes: impl Into<Bytes>, expected_sha256_hex: &str) -> Result<Self, DictionaryError> {
        let content = bytes.into();
        if content.is_empty() || content.len() > DICTIONARY_BYTES {
            return Err(DictionaryError::Size(content.len()));
        }
        let expected = expected_sha256_hex;
        if expected.len() != 2 * HASH_BYTES || !expected.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(DictionaryError::NotAHash);
        }
        let hash = hash_of(&content);
        let found: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        if found.eq_ignore_ascii_case(expected) {
            Ok(Self { content, hash })
        } else {
            Err(DictionaryError::OtherHash { found })
        }
    }

    /// Content that bodies may refer to.
    pub(super) fn content(&self) -> &[u8] {
        &self.content
    }

    /// Header of a `dcz` body made with it.
    pub(super) fn header(&self) -> [u8; DCZ_HEADER_BYTES] {
        let mut header = [0; DCZ_HEADER_BYTES];
        header[..DCZ_MAGIC.len()].copy_from_slice(&DCZ_MAGIC);
        header[DCZ_MAGIC.len()..].copy_from_slice(&self.hash);
        header
    }

    /// Reads the header of a `dcz` body, which says whether it was made with this dictionary.
    pub(super) fn admit(&self, from: &mut dyn Read) -> Result<(), CodingError> {
        let mut header = [0; DCZ_HEADER_BYTES];
        from.read_exact(&mut header).map_err(|_| CodingError::Damaged)?;
        match header.split_at(DCZ_MAGIC.len()) {
            (magic, _) if magic != DCZ_MAGIC => Err(CodingError::Damaged),
            (_, hash) if hash != self.hash => Err(CodingError::OtherDictionary),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dictionary({} bytes)", self.content.len())
    }
}

/// `Available-Dictionary` (RFC 9842, 2.2): what a request that accepts `dcz` says it has. There is
/// no `Dictionary-ID` beside it: only the server that gave a dictionary its id may get it, and
/// ours come from a file.
pub fn available_dictionary(dictionary: &Dictionary) -> HeaderValue {
    let value = format!(":{}:", STANDARD.encode(dictionary.hash));
    HeaderValue::from_str(&value).expect("base64 between colons is visible ASCII")
}

fn hash_of(content: &[u8]) -> [u8; HASH_BYTES] {
    digest(&SHA256, content).as_ref().try_into().expect("SHA-256 has 32 bytes")
}
