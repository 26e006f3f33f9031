//! Codings that regions are asked for, and the treatment of a reply that they compressed: the same
//! reply without its coding.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::body::decode_within;
use super::content_coding::Coding;
use super::dictionary::{Dictionary, available_dictionary};
use super::error::CodingError;

const AVAILABLE_DICTIONARY: HeaderName = HeaderName::from_static("available-dictionary");
const USE_AS_DICTIONARY: HeaderName = HeaderName::from_static("use-as-dictionary");
/// Digests of the coded bytes: RFC 9530 has a coding belong to what `Repr-Digest` is of, too.
const DIGESTS: [HeaderName; 4] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
];

/// The content codings that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Codings {
    Gzip,
    /// Else gzip.
    Zstd,
    /// zstd with a dictionary, else without one, else gzip. Only for requests over https.
    Dcz(Dictionary),
}

impl Codings {
    /// Returns the codings for replies that a dictionary must not touch.
    #[must_use]
    pub fn without_dictionary(&self) -> Self {
        if *self == Self::Gzip { Self::Gzip } else { Self::Zstd }
    }

    /// Asks for them instead of for whatever a request asked for.
    pub fn put(&self, headers: &mut HeaderMap) {
        let accepted = match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd, gzip;q=0.5",
            Self::Dcz(_) => "dcz, zstd;q=0.9, gzip;q=0.5",
        };
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted));
        if let Self::Dcz(dictionary) = self {
            headers.insert(AVAILABLE_DICTIONARY, available_dictionary(dictionary));
        }
    }

    /// The coding of a reply, if it was asked for. What a region says of dictionaries of its own is
    /// taken off: callers do not come over https.
    pub fn of_reply(&self, headers: &mut HeaderMap) -> Result<Coding, CodingError> {
        headers.remove(USE_AS_DICTIONARY);
        match (Coding::of(headers)?, self) {
            (Coding::Zstd, Self::Gzip) | (Coding::Dcz, Self::Gzip | Self::Zstd) => Err(CodingError::Unknown),
            (coding, _) => Ok(coding),
        }
    }

    /// Takes the coding off a body, as [`super::decode`] does. `has_room` is asked before memory is
    /// taken, with how many bytes it is in all.
    pub fn decode(
        &self,
        coding: Coding,
        body: &Bytes,
        limit: usize,
        has_room: impl FnMut(usize) -> bool,
    ) -> Result<Bytes, CodingError> {
        let dictionary = match self {
            Self::Dcz(dictionary) => Some(dictionary),
            Self::Gzip | Self::Zstd => None,
        };
        decode_within(coding, body, limit, dictionary, has_room)
    }
}

/// True if a reply of this status has a body that could be coded.
pub fn has_body(status: StatusCode) -> bool {
    status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED
}

/// Makes the headers of a coded reply those of what it holds, which is so long; `None` without a
/// body.
pub fn uncoded(headers: &mut HeaderMap, length: Option<usize>) {
    headers.remove(header::CONTENT_ENCODING);
    headers.remove(header::CONTENT_LENGTH);
    DIGESTS.iter().for_each(|name| drop(headers.remove(name)));
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, length.into());
        if !headers.get_all(header::VARY).iter().any(names_accept_encoding) {
            headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
        }
    }
    let tag = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()).and_then(uncoded_tag);
    if let Some(Ok(tag)) = tag.map(HeaderValue::try_from) {
        headers.insert(header::ETAG, tag);
    }
}

/// True if this line of `Vary` covers `Accept-Encoding`.
fn names_accept_encoding(line: &HeaderValue) -> bool {
    let mut names = line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    names.any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"))
}

/// Suffix of the entity tag of a coded reply from one of our nodes. A strong tag is that of one
/// coding (RFC 9110, 8.8.3.3).
pub const CODED_TAG: &str = "~zstd";

/// The tag that one of our nodes gives the same bytes without a coding; `None` if `tag` is that
/// already, or another server's.
fn uncoded_tag(tag: &str) -> Option<String> {
    Some(format!("{}\"", tag.strip_suffix('"')?.strip_suffix(CODED_TAG)?))
}
