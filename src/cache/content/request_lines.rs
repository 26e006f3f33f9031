//! Shares the header lines of the requests that entries answer: one copy for all entries with
//! identical lines, which on a route is nearly all of them.
//!
//! The table has a fixed number of places and holds lines only weakly. Lines that no entry holds
//! are never handed out; their remaining memory is freed when their place is used again.

use std::sync::{Arc, Weak};

use http::HeaderMap;
use parking_lot::Mutex;
use siphasher::sip::SipHasher13;

use super::lines::{size, write};
use crate::cache::limits;

/// Header lines in HTTP/1.1 form (`name: value`, CR, LF).
#[derive(Clone, Default)]
pub struct RequestLines {
    pub(super) lines: Arc<Vec<u8>>,
    /// Memory the lines take, in bytes, capped at `u16::MAX`. Zero when another entry already
    /// counts it.
    pub(super) weight: u16,
}

impl RequestLines {
    /// Lines that no other entry shares.
    pub fn alone(headers: &HeaderMap) -> Self {
        let mut lines = Vec::with_capacity(size(headers.iter()) as usize);
        write(headers.iter(), &mut lines);
        Self::counted(Arc::new(lines))
    }

    fn counted(lines: Arc<Vec<u8>>) -> Self {
        /// The `Vec` itself, and the reference counts.
        const SHARED: u16 = 24 + 16;
        let weight = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(SHARED);
        Self { lines, weight }
    }
}

/// Shows no line: they hold credentials.
impl std::fmt::Debug for RequestLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RequestLines({} bytes)", self.lines.len())
    }
}

/// Finds lines that some entry already has, by their hash; one set of lines per place.
#[derive(Debug)]
pub(crate) struct Requests(Mutex<Box<[Place]>>);

type Place = Option<Weak<Vec<u8>>>;

impl Default for Requests {
    fn default() -> Self {
        Self(Mutex::new(vec![None; limits::SHARED_REQUESTS].into()))
    }
}

impl Requests {
    /// Returns these lines, sharing another entry's copy if there is one.
    pub(crate) fn share(&self, headers: &HeaderMap) -> RequestLines {
        let own = RequestLines::alone(headers);
        if own.lines.len() > limits::SHARED_REQUEST_BYTES {
            return own;
        }
        let mut places = self.0.lock();
        let place = SipHasher13::new().hash(&own.lines) as usize % places.len();
        match places[place].as_ref().and_then(Weak::upgrade).filter(|known| **known == *own.lines) {
            // An entry that replaces the only holder counts the weight from now on.
            Some(lines) if Arc::strong_count(&lines) <= 2 => RequestLines { lines, weight: own.weight },
            Some(lines) => RequestLines { lines, weight: 0 },
            None => {
                places[place] = Some(Arc::downgrade(&own.lines));
                own
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header};

    use super::*;

    fn accepting(what: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(what))])
    }

    #[test]
    fn equal_lines_are_weighed_once() {
        let requests = Requests::default();
        let [first, second, third, other] =
            ["text/html", "text/html", "text/html", "text/plain"].map(|what| requests.share(&accepting(what)));
        assert!(Arc::ptr_eq(&first.lines, &second.lines) && !Arc::ptr_eq(&first.lines, &other.lines));
        assert_eq!((&first.lines[..], first.weight, third.weight), (&b"accept: text/html\r\n"[..], 59, 0));
        assert_eq!(&other.lines[..], b"accept: text/plain\r\n");
    }

    /// A fill stores its entry again once all regions have answered.
    #[test]
    fn replacement_of_only_holder_weighs_lines() {
        let requests = Requests::default();
        let mut only = requests.share(&accepting("text/html"));
        for _ in 0..3 {
            only = requests.share(&accepting("text/html"));
            assert_eq!(only.weight, 59);
        }
        drop(only);
    }

    #[test]
    fn table_alone_keeps_no_lines() {
        let requests = Requests::default();
        let lines = Arc::downgrade(&requests.share(&accepting("text/html")).lines);
        assert!(lines.upgrade().is_none());
        assert_eq!(
            requests.share(&accepting("text/html")).weight,
            59,
            "a request that brings them again weighs them"
        );
    }
}
