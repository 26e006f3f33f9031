//! Stores a reply in as little memory as possible: header lines, body and key in one allocation.
//! The header lines of the request it answers are shared between entries ([`request_lines`]).
//!
//! A reply arrives as slices of a connection's read buffer and would keep that buffer alive, so it
//! is copied out. HTTP/1.1 hits copy lines and body from here onto the wire; HTTP/2 gets a
//! `HeaderMap` and a body that share the entry ([`super::entry::Entry::share`]). A `HeaderMap` of
//! its own would take 104 bytes per line, half of them spare, where the line's text takes thirty.
//!
//! What comes out is what went in: every line, in its order, byte for byte. The exception is
//! `Set-Cookie`: it belongs to the one caller whose request was answered
//! ([`crate::shape::cookies::Cookies`]), and an entry serves others too.

use std::ops::Range;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::cache::limits;

mod lines;
pub(crate) mod request_lines;

use lines::{WAS_A_VALUE, append, lines, put_line, size, write};
use request_lines::RequestLines;

/// A reply's headers and body, and its request's headers.
#[derive(Clone)]
pub struct Content {
    /// The reply's header lines in HTTP/1.1 form (`name: value`, CR, LF) without its length; the
    /// length line; the body, unless it is stored apart; the key's bytes; in this order.
    block: Box<[u8]>,
    /// The request's header lines.
    request: Arc<Vec<u8>>,
    /// Bytes of the request's lines that count towards this entry's weight.
    request_weight: u16,
    /// Length of the key, which is the last part of the block.
    key_len: u16,
    /// A body that is better sent from where it lies than copied.
    apart: Option<Box<Bytes>>,
    /// Offset in the reply's lines at which the length line stood.
    length_at: u32,
    ends: Ends,
}

/// Ends of the parts of the block. A part begins at the end of the previous one.
#[derive(Clone, Copy)]
struct Ends {
    lines: u32,
    length: u32,
}

impl Content {
    /// A reply without a request or key.
    pub fn new(headers: &HeaderMap, body: &Bytes) -> Self {
        Self::answering(headers, body, RequestLines::default(), &[])
    }

    /// Also takes the header lines of the request to send when the reply is fetched again, and the
    /// bytes of the key that it will be stored under.
    pub fn answering(headers: &HeaderMap, body: &Bytes, request: RequestLines, key: &[u8]) -> Self {
        if body.len() <= limits::COPIED_BODY_BYTES {
            Self::of(headers, body, None, request, key)
        } else {
            Self::of(headers, &[], Some(Box::new(kept(body))), request, key)
        }
    }

    /// Returns the body under other headers, as the answer to another request for the same key.
    #[must_use]
    pub fn under(&self, headers: &HeaderMap, request: RequestLines) -> Self {
        Self::of(headers, self.to_copy().unwrap_or_default(), self.apart.clone(), request, self.key())
    }

    /// The body is given either to copy into the block or to keep apart.
    fn of(headers: &HeaderMap, inside: &[u8], apart: Option<Box<Bytes>>, request: RequestLines, key: &[u8]) -> Self {
        let before = shared(headers).take_while(|(name, _)| *name != header::CONTENT_LENGTH);
        let lines = size(without_length(headers));
        let stated = lines + size(length(headers));
        // A key too long for `key_len` is stored beside the entry, as other kinds' keys are.
        let (key, key_len) = u16::try_from(key.len()).map_or((&[][..], 0), |length| (key, length));
        let mut block = Vec::with_capacity(stated as usize + inside.len() + key.len());
        write(without_length(headers).chain(length(headers)), &mut block);
        block.put_slice(inside);
        block.put_slice(key);
        Self {
            block: block.into(),
            request: request.lines,
            request_weight: request.weight,
            key_len,
            apart,
            length_at: size(before),
            ends: Ends { lines, length: stated },
        }
    }

    /// The lines of another body that is made of this one: the same, except those that describe
    /// the bytes which the region sent, and with `own` instead of those of its name.
    pub fn outline(&self, own: Option<(&str, &str)>) -> Outline {
        let mut lines = Vec::with_capacity(self.ends.lines as usize + 64);
        for (name, value) in self.lines() {
            let is_own = own.is_some_and(|(own, _)| name == own.as_bytes());
            if !is_own && !OF_THE_SENT_BYTES.iter().any(|sent| name == sent.as_bytes()) {
                put_line(name, value, &mut lines);
            }
        }
        if let Some((name, value)) = own {
            put_line(name.as_bytes(), value.as_bytes(), &mut lines);
        }
        let tag = self.value(&header::ETAG).filter(|tag| is_entity_tag(tag));
        if let Some(tag) = tag {
            lines.put_slice(b"etag: ");
            lines.put_slice(&tag[..tag.len() - 1]);
        }
        Outline { lines: lines.into(), has_tag: tag.is_some() }
    }

    /// The bytes of the key. Empty if the reply is not stored under one, or if the key is stored
    /// beside it.
    pub fn key(&self) -> &[u8] {
        &self.block[self.key_at()..]
    }

    fn key_at(&self) -> usize {
        self.block.len() - usize::from(self.key_len)
    }

    /// The reply's lines as they go on the wire, without the length line.
    pub fn wire(&self) -> &[u8] {
        &self.block[..self.ends.lines as usize]
    }

    /// The reply's header lines as names, in small letters, and values.
    pub fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.reply().into_iter().flat_map(|part| lines(&self.block[part]))
    }

    /// The whole block. Once shared, it is what [`Content::put`] and [`Content::cut`] take slices
    /// of.
    pub fn block(&self) -> &[u8] {
        &self.block
    }

    /// Appends the reply's lines with `wanted` names to `headers`, as slices of `block`.
    pub fn put(&self, block: &Bytes, headers: &mut HeaderMap, wanted: impl Fn(&[u8]) -> bool) {
        for part in self.reply() {
            append(&block.slice(part), headers, &wanted);
        }
    }

    /// Like [`super::entry::Entry::share`], for content that no entry is made of.
    pub fn share(self: &Arc<Self>) -> Bytes {
        struct Shared(Arc<Content>);
        impl AsRef<[u8]> for Shared {
            fn as_ref(&self) -> &[u8] {
                self.0.block()
            }
        }
        Bytes::from_owner(Shared(Arc::clone(self)))
    }

    /// The body as a slice of `block`.
    pub fn cut(&self, block: &Bytes) -> Bytes {
        self.apart.as_deref().map_or_else(|| block.slice(self.ends.length as usize..self.key_at()), Bytes::clone)
    }

    /// A copy of the reply's headers.
    pub fn headers(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.lines().count());
        self.put(&Bytes::copy_from_slice(&self.block[..self.ends.length as usize]), &mut map, |_| true);
        map
    }

    /// The value of the reply's first line with this name.
    pub fn value(&self, wanted: &HeaderName) -> Option<&[u8]> {
        self.lines().find(|(name, _)| *name == wanted.as_str().as_bytes()).map(|(_, value)| value)
    }

    /// Like [`Content::value`], but owned.
    pub fn header(&self, wanted: &HeaderName) -> Option<HeaderValue> {
        self.value(wanted).map(|value| HeaderValue::from_bytes(value).expect(WAS_A_VALUE))
    }

    pub fn request(&self) -> HeaderMap {
        let mut map = HeaderMap::new();
        append(&Bytes::copy_from_slice(&self.request), &mut map, &|_| true);
        map
    }

    /// The body; copied unless it is stored apart.
    pub fn body(&self) -> Bytes {
        self.to_copy().map_or_else(Bytes::clone, Bytes::copy_from_slice)
    }

    /// `Ok` with a body to copy, or `Err` with one that is stored apart and better sent from where
    /// it lies.
    pub fn to_copy(&self) -> Result<&[u8], &Bytes> {
        self.apart.as_deref().map_or_else(|| Ok(&self.block[self.ends.length as usize..self.key_at()]), Err)
    }

    pub fn body_len(&self) -> usize {
        self.to_copy().map_or_else(Bytes::len, <[u8]>::len)
    }

    /// Memory used beyond the struct itself, in bytes.
    pub fn weight(&self) -> usize {
        /// The reference count behind a shared `Bytes`.
        const SHARED: usize = 24;
        let apart = self.apart.as_ref().map_or(0, |body| size_of::<Bytes>() + SHARED + body.len());
        self.block.len() + apart + self.request_weight as usize
    }

    /// Ranges of the reply's lines in the block, in their original order.
    fn reply(&self) -> [Range<usize>; 3] {
        let (lines, length) = (self.ends.lines as usize, self.ends.length as usize);
        let length_at = self.length_at as usize;
        [0..length_at, lines..length, length_at..lines]
    }
}

/// The lines of what is made of a reply, up to where its entity tag goes on with a suffix.
#[derive(Clone)]
pub struct Outline {
    lines: Box<[u8]>,
    has_tag: bool,
}

impl Outline {
    /// A body that was made, whose entity tag is the region's with `suffix`. Without a request or
    /// key.
    pub fn of(&self, suffix: &str, body: Bytes) -> Content {
        let is_apart = body.len() > limits::COPIED_BODY_BYTES;
        let copied = if is_apart { 0 } else { body.len() };
        const CLOSE: &[u8] = b"\"\r\n";
        let mut block = Vec::with_capacity(self.lines.len() + suffix.len() + CLOSE.len() + copied);
        block.put_slice(&self.lines);
        if self.has_tag {
            block.put_slice(suffix.as_bytes());
            block.put_slice(CLOSE);
        }
        let lines = u32::try_from(block.len()).expect("heads are bounded far below");
        block.put_slice(&body[..copied]);
        Content {
            block: block.into(),
            request: Arc::default(),
            request_weight: 0,
            key_len: 0,
            apart: is_apart.then(|| Box::new(body)),
            length_at: lines,
            ends: Ends { lines, length: lines },
        }
    }

    /// Memory used beyond the struct itself, in bytes.
    pub fn weight(&self) -> usize {
        self.lines.len()
    }
}

/// RFC 9110, 8.8.3. What is none could not be distinguished from others once it had a suffix.
fn is_entity_tag(tag: &[u8]) -> bool {
    let opaque = tag.strip_prefix(b"W/").unwrap_or(tag);
    let within = opaque.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    within.is_some_and(|within| within.iter().all(|byte| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)))
}

/// Shows no header value.
impl std::fmt::Debug for Outline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Outline({} bytes)", self.lines.len())
    }
}

/// Shows no header value and nothing of the body: they hold credentials.
impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Content({} headers, body {} bytes)", self.lines().count(), self.body_len())
    }
}

/// Lines about the bytes that the region sent, or about parts of them: they hold of nothing that is
/// made from these.
const OF_THE_SENT_BYTES: [&str; 8] = [
    "etag",
    "content-length",
    "content-encoding",
    "content-digest",
    "repr-digest",
    "digest",
    "content-md5",
    "accept-ranges",
];

/// The lines that an entry keeps, since they may serve others.
fn shared(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    headers.iter().filter(|(name, _)| *name != header::SET_COOKIE)
}

fn without_length(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    shared(headers).filter(|(name, _)| *name != header::CONTENT_LENGTH)
}

fn length(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    shared(headers).filter(|(name, _)| *name == header::CONTENT_LENGTH)
}

/// Copies a body that may share a read buffer with others; a larger one is kept as it is.
fn kept(body: &Bytes) -> Bytes {
    if body.len() <= limits::READ_BODY_BYTES { Bytes::copy_from_slice(body) } else { body.clone() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map(lines: &[(String, Vec<u8>)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        lines
            .iter()
            .filter_map(|(name, value)| {
                Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
            })
            .for_each(|(name, value)| {
                map.append(name, value);
            });
        map
    }

    fn lines() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
        let names = prop_oneof!["[a-z][a-z-]{0,20}", Just("etag".to_owned()), Just("content-length".to_owned())];
        let visible = prop_oneof![Just(b'\t'), 0x20_u8..0x7f, 0x80_u8..=0xff];
        prop::collection::vec((names, prop::collection::vec(visible, 0..300)), 0..12)
    }

    proptest! {
        #[test]
        fn content_round_trips(
            reply in lines(),
            request in lines(),
            body in prop_oneof![
                0_usize..2000,
                Just(limits::COPIED_BODY_BYTES),
                Just(limits::COPIED_BODY_BYTES + 1),
                Just(limits::READ_BODY_BYTES + 1),
            ],
        ) {
            let (reply, request, body) = (map(&reply), map(&request), Bytes::from(vec![b'x'; body]));
            let content = Content::answering(&reply, &body, RequestLines::alone(&request), b"key");
            prop_assert_eq!(content.key(), b"key");
            prop_assert_eq!(content.headers(), reply.clone());
            prop_assert_eq!(content.request(), request.clone());
            prop_assert_eq!(content.body(), body.clone());
            prop_assert_eq!(content.body_len(), body.len());
            prop_assert!(content.headers().iter().eq(reply.iter()), "in the same order");
            let (block, mut shared) = (Bytes::copy_from_slice(content.block()), HeaderMap::new());
            content.put(&block, &mut shared, |_| true);
            prop_assert_eq!((shared, content.cut(&block)), (reply.clone(), body.clone()));
            prop_assert!(content.lines().eq(reply.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))));
            let mut wire = Vec::new();
            for (name, value) in reply.iter().filter(|(name, _)| *name != header::CONTENT_LENGTH) {
                let parts = [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"];
                parts.iter().for_each(|part| wire.extend_from_slice(part));
            }
            prop_assert_eq!(content.wire(), &wire[..]);
            for name in reply.keys().chain(request.keys()) {
                let found = content.header(name);
                prop_assert_eq!(found.as_ref(), reply.get(name));
            }
            let again = content.under(&request, RequestLines::alone(&reply));
            prop_assert_eq!((again.headers(), again.request(), again.body()), (request, reply, body));
            prop_assert_eq!(again.key(), b"key");
        }
    }

    #[test]
    fn derived_content_suffixes_valid_etag() {
        for (tag, suffixed) in [("\"a\"", "\"a~s\""), ("W/\"a\"", "W/\"a~s\""), ("\"\"", "\"~s\"")] {
            assert_eq!(derived_tag(Some(tag)).as_deref(), Some(suffixed), "{tag}");
        }
        for none in [Some("a"), Some(""), Some("\""), Some("\"a\"b\""), Some("w/\"a\""), Some("\"a b\""), None] {
            assert_eq!(derived_tag(none), None, "{none:?}");
        }
    }

    /// The tag of content derived from content with this one.
    fn derived_tag(tag: Option<&'static str>) -> Option<String> {
        let headers = tag.map(|tag| (header::ETAG, HeaderValue::from_static(tag))).into_iter().collect();
        let content = Content::new(&headers, &Bytes::from_static(b"body"));
        let made = content.outline(Some(("content-type", "x/y"))).of("~s", Bytes::from_static(b"made"));
        assert_eq!(
            (made.body(), made.value(&header::CONTENT_TYPE)),
            (Bytes::from_static(b"made"), Some(&b"x/y"[..]))
        );
        made.value(&header::ETAG).map(|tag| String::from_utf8(tag.to_vec()).unwrap())
    }

    #[test]
    fn overlong_key_is_not_stored() {
        let body = Bytes::from_static(b"body");
        let longest = vec![b'k'; usize::from(u16::MAX)];
        let longer = [&longest[..], b"k"].concat();
        for (key, stored) in [(&longest, &longest[..]), (&longer, &[])] {
            let content = Content::answering(&HeaderMap::new(), &body, RequestLines::default(), key);
            assert_eq!((content.key(), content.body()), (stored, body.clone()));
        }
    }

    #[test]
    fn small_body_releases_read_buffer() {
        let buffer = Bytes::from(vec![b'x'; 8192]);
        let value = HeaderValue::from_maybe_shared(buffer.slice(..10)).unwrap();
        let headers = HeaderMap::from_iter([(header::ETAG, value)]);
        let content = Content::new(&headers, &buffer.slice(100..1124));
        drop(headers);
        assert!(buffer.try_into_mut().is_ok(), "nobody else holds it");
        assert_eq!((content.body_len(), content.lines().count()), (1024, 1));
        let buffer = Bytes::from(vec![b'x'; limits::READ_BODY_BYTES + 1]);
        let large = Content::new(&HeaderMap::new(), &buffer.slice(1..));
        assert!(buffer.try_into_mut().is_ok(), "nor for a larger one");
        assert_eq!((large.body_len(), large.to_copy().is_err()), (limits::READ_BODY_BYTES, true));
    }
}
