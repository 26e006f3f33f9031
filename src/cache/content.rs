//! Owns what a stored reply says, in as little memory as it takes: its header lines, its body, and the header lines of
//! the request that it answers, in one allocation of their own.
//!
//! Before it: a fill has a reply whose lines and body are slices of a connection's read buffer, which they would keep
//! alive. After it: a hit gets headers and body back as they were, sharing the allocation. A `HeaderMap` takes 104 bytes
//! per line, half of them spare, where the line's text takes thirty: so names are shared by all replies that have the
//! same, and values lie one after the other.
//!
//! Invariant: what comes out is what went in: every line, in its order, byte for byte.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::limits;

/// A reply's headers and body, and its request's headers.
pub struct Content {
    names: Arc<Names>,
    /// The length of every value (seven bits a byte), the reply's values, the request's, and the body unless it is apart.
    block: Bytes,
    /// A body too large to be copied.
    apart: Option<Box<Bytes>>,
}

/// The names of header lines, in their order.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Names {
    /// The reply's, then the request's.
    lines: Box<[HeaderName]>,
    /// How many are the reply's.
    reply: usize,
    /// Kept for others that have the same.
    shared: bool,
}

impl Content {
    /// A reply's lines and body.
    pub fn new(headers: &HeaderMap, body: &Bytes) -> Self {
        Self::answering(headers, body, &HeaderMap::new())
    }

    /// The same, with the lines of the request that is to be sent when it is asked for again.
    pub fn answering(headers: &HeaderMap, body: &Bytes, request: &HeaderMap) -> Self {
        let inside: &[u8] = if body.len() <= limits::COPIED_BODY_BYTES { body } else { &[] };
        let lines = || headers.iter().chain(request);
        let text: usize = lines().map(|(_, value)| value.len()).sum();
        let lengths: usize = lines().map(|(_, value)| length_len(value.len())).sum();
        let mut block = Vec::with_capacity(lengths + text + inside.len());
        lines().for_each(|(_, value)| put_length(&mut block, value.len()));
        lines().for_each(|(_, value)| block.extend_from_slice(value.as_bytes()));
        block.extend_from_slice(inside);
        let apart = (inside.len() < body.len()).then(|| Box::new(body.clone()));
        Self { names: names_of(headers, request), block: block.into(), apart }
    }

    /// The same body under other headers and as the answer to another request.
    #[must_use]
    pub fn under(&self, headers: &HeaderMap, request: &HeaderMap) -> Self {
        Self::answering(headers, &self.body(), request)
    }

    /// The reply's headers, with room for two more.
    pub fn headers(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.names.reply + 2);
        self.each(|place, name, value| {
            if place < self.names.reply {
                map.append(name.clone(), self.value(value));
            }
        });
        map
    }

    /// The first of the reply's lines with this name.
    pub fn header(&self, wanted: &HeaderName) -> Option<HeaderValue> {
        let mut found = None;
        if self.names.lines[..self.names.reply].contains(wanted) {
            self.each(|place, name, value| {
                if place < self.names.reply && found.is_none() && name == wanted {
                    found = Some(self.value(value));
                }
            });
        }
        found
    }

    /// How many header lines the reply has.
    pub fn lines(&self) -> usize {
        self.names.reply
    }

    /// The request's headers.
    pub fn request(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.names.lines.len() - self.names.reply);
        self.each(|place, name, value| {
            if place >= self.names.reply {
                map.append(name.clone(), self.value(value));
            }
        });
        map
    }

    /// The body, sharing its bytes.
    pub fn body(&self) -> Bytes {
        match &self.apart {
            Some(body) => (**body).clone(),
            None => self.block.slice(self.end_of_values()..),
        }
    }

    /// The body's length, bytes.
    pub fn body_len(&self) -> usize {
        self.apart.as_ref().map_or_else(|| self.block.len() - self.end_of_values(), |body| body.len())
    }

    /// The memory it takes beside itself, bytes. Names are shared, unless they are too many to be.
    pub fn weight(&self) -> usize {
        /// What `Bytes` allocates to count its sharers.
        const SHARED: usize = 24;
        let names = if self.names.shared { 0 } else { size_of_val(&*self.names.lines) };
        let apart = self.apart.as_ref().map_or(0, |body| size_of::<Bytes>() + SHARED + body.len());
        self.block.len() + SHARED + apart + names
    }

    fn end_of_values(&self) -> usize {
        let mut end = 0;
        self.each(|_, _, value| end = value.end);
        end
    }

    /// Every line: its place, its name, and where in the block its value is.
    fn each<'a>(&'a self, mut line: impl FnMut(usize, &'a HeaderName, std::ops::Range<usize>)) {
        let (mut lengths, mut at) = (0, 0);
        // The values begin where the lengths end.
        for _ in &self.names.lines {
            take_length(&self.block, &mut at);
        }
        for (place, name) in self.names.lines.iter().enumerate() {
            let length = take_length(&self.block, &mut lengths);
            line(place, name, at..at + length);
            at += length;
        }
    }

    fn value(&self, place: std::ops::Range<usize>) -> HeaderValue {
        HeaderValue::from_maybe_shared(self.block.slice(place)).expect("it was a header's value before")
    }
}

/// No value and nothing of the body is shown: they hold credentials.
impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Content({} headers, body {} bytes)", self.names.reply, self.body_len())
    }
}

/// Bytes that a length takes.
const fn length_len(length: usize) -> usize {
    (usize::BITS - (length | 1).leading_zeros()).div_ceil(7) as usize
}

/// Seven bits a byte, the lowest first; the last byte's highest bit is clear.
fn put_length(block: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        block.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    block.push(length as u8);
}

fn take_length(block: &[u8], at: &mut usize) -> usize {
    let (mut length, mut shift) = (0, 0);
    loop {
        let byte = block[*at];
        *at += 1;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return length;
        }
        shift += 7;
    }
}

/// Sets of names that are shared, with the names that are not the standard's kept for good: counting who shares one
/// would make all cores write to one place.
#[derive(Default)]
struct Known {
    sets: HashSet<Arc<Names>>,
    lasting: HashSet<&'static str>,
}

fn names_of(headers: &HeaderMap, request: &HeaderMap) -> Arc<Names> {
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let names = |headers: &HeaderMap| -> Vec<HeaderName> { headers.iter().map(|(name, _)| name.clone()).collect() };
    let mut lines = names(headers);
    let reply = lines.len();
    lines.extend(names(request));
    let wanted = Names { lines: lines.into(), reply, shared: true };
    // A set is added whole: a panic elsewhere cannot leave half of one.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(names) = known.sets.get(&wanted) {
        return names.clone();
    }
    if wanted.lines.len() > limits::SHARED_NAMES.1 || known.sets.len() >= limits::SHARED_NAMES.0 {
        return Arc::new(Names { shared: false, ..wanted });
    }
    let lines = wanted.lines.iter().map(|name| known.lasting(name)).collect();
    let names = Arc::new(Names { lines, reply, shared: true });
    known.sets.insert(names.clone());
    names
}

impl Known {
    fn lasting(&mut self, name: &HeaderName) -> HeaderName {
        let (most, longest) = limits::LASTING_NAMES;
        match self.lasting.get(name.as_str()) {
            Some(known) => HeaderName::from_static(known),
            None if self.lasting.len() >= most || name.as_str().len() > longest => name.clone(),
            None => {
                let text: &'static str = Box::leak(Box::from(name.as_str()));
                self.lasting.insert(text);
                HeaderName::from_static(text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header;
    use proptest::prelude::*;

    use super::*;

    fn map(lines: &[(String, Vec<u8>)]) -> HeaderMap {
        let line = |(name, value): &(String, Vec<u8>)| {
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
        };
        let mut map = HeaderMap::new();
        lines.iter().filter_map(line).for_each(|(name, value)| {
            map.append(name, value);
        });
        map
    }

    fn lines() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
        let names = prop_oneof!["[a-z][a-z-]{0,20}", Just("etag".to_owned()), Just("x-record-version".to_owned())];
        let visible = prop_oneof![0x20_u8..0x7f, 0x80_u8..=0xff];
        prop::collection::vec((names, prop::collection::vec(visible, 0..300)), 0..12)
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(
            reply in lines(),
            request in lines(),
            body in prop_oneof![0_usize..2000, Just(limits::COPIED_BODY_BYTES), Just(limits::COPIED_BODY_BYTES + 1)],
        ) {
            let (reply, request, body) = (map(&reply), map(&request), Bytes::from(vec![b'x'; body]));
            let content = Content::answering(&reply, &body, &request);
            prop_assert_eq!(content.headers(), reply.clone());
            prop_assert_eq!(content.request(), request.clone());
            prop_assert_eq!(content.body(), body.clone());
            prop_assert_eq!((content.body_len(), content.lines()), (body.len(), reply.len()));
            prop_assert!(content.headers().iter().eq(reply.iter()), "in the same order");
            for name in reply.keys().chain(request.keys()) {
                let found = content.header(name);
                prop_assert_eq!(found.as_ref(), reply.get(name));
            }
            let again = content.under(&request, &reply);
            prop_assert_eq!((again.headers(), again.request(), again.body()), (request, reply, body));
        }
    }

    #[test]
    fn a_read_buffer_is_not_kept_for_a_small_body_in_it() {
        let buffer = Bytes::from(vec![b'x'; 8192]);
        let value = HeaderValue::from_maybe_shared(buffer.slice(..10)).unwrap();
        let headers = HeaderMap::from_iter([(header::ETAG, value)]);
        let content = Content::new(&headers, &buffer.slice(100..1124));
        drop(headers);
        assert!(buffer.try_into_mut().is_ok(), "nobody else holds it");
        assert_eq!((content.body_len(), content.lines()), (1024, 1));
    }

    #[test]
    fn names_are_shared_by_all_that_have_the_same() {
        let with = |value| HeaderMap::from_iter([(HeaderName::from_static("x-shared-here"), value)]);
        let [one, other] =
            ["1", "2"].map(|value| Content::new(&with(HeaderValue::from_static(value)), &Bytes::new()));
        assert!(Arc::ptr_eq(&one.names, &other.names));
        assert_eq!(one.header(&HeaderName::from_static("x-shared-here")).unwrap(), "1");
    }

    #[test]
    fn a_length_takes_as_many_bytes_as_it_says() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152] {
            let mut block = Vec::new();
            put_length(&mut block, length);
            assert_eq!(block.len(), length_len(length), "{length}");
            assert_eq!(take_length(&block, &mut 0), length);
        }
    }
}
