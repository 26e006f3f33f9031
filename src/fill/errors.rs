//! Remembers the failures of the last seconds, including bodies too large to hold, so that a storm
//! of misses does not become a storm of races. Readers of the same key are answered at once, for 1
//! to 5 s.
//!
//! A memory belongs to one generation, so that after an announcement regions are asked again.
//! Number and bytes are bounded. Making room scans everything at most once per second.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::limits;
use super::outcome::{Failed, Filled};
use crate::cache::key::Key;
use crate::model::ids::Generation;
use crate::model::time::Moment;

pub(crate) struct Errors {
    known: Mutex<Known>,
    most_bytes: usize,
}

#[derive(Default)]
struct Known {
    by_key: HashMap<Key, Remembered>,
    bytes: usize,
    purged: Moment,
}

struct Remembered {
    what: What,
    generation: Generation,
    until: Moment,
    wait: Duration,
    bytes: usize,
}

enum What {
    Failed(Arc<Failed>),
    TooLarge,
    NoRoom,
}

impl Errors {
    /// At most this many bytes of them.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self { known: Mutex::default(), most_bytes }
    }

    /// Result of the last fill of `key`, if it failed moments ago in this generation.
    pub(crate) fn of(&self, key: &Key, generation: Generation, now: Moment) -> Option<Filled> {
        let known = self.known();
        let last = known.by_key.get(key).filter(|last| now < last.until && last.generation == generation)?;
        Some(match &last.what {
            What::Failed(failed) => Filled::Failed(failed.clone()),
            What::TooLarge => Filled::TooLarge,
            What::NoRoom => Filled::NoRoom,
        })
    }

    pub(crate) fn forget_all(&self) {
        *self.known() = Known::default();
    }

    /// Remembers a failure: for a second the first time, twice as long each time in a row, five
    /// seconds at most. Without room it is not remembered.
    pub(crate) fn note(&self, key: &Key, generation: Generation, filled: &Filled, now: Moment) {
        let (what, body) = match filled {
            Filled::Failed(failed) => {
                let body = failed.best_error.as_ref().map_or(0, |error| error.entry.weight());
                (What::Failed(failed.for_others()), body)
            }
            Filled::TooLarge => (What::TooLarge, 0),
            Filled::NoRoom => (What::NoRoom, 0),
            Filled::Got(_) | Filled::Busy => return,
        };
        let bytes = size_of::<(Key, Remembered)>() + key.len() + body;
        let (first, last) = limits::ERROR_MEMORY;
        let mut known = self.known();
        let before = known.remove(key).filter(|before| now.since(before.until) <= last);
        let wait = before.map_or(first, |before| (before.wait * 2).min(last));
        if known.make_room(bytes, self.most_bytes, now) {
            known.bytes += bytes;
            known.by_key.insert(key.clone(), Remembered { what, generation, until: now + wait, wait, bytes });
        }
    }

    /// A fill brought something, so the next failure counts as a first one again.
    pub(crate) fn forget(&self, key: &Key) {
        self.known().remove(key);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // A panic elsewhere cannot leave an entry half-written; at worst `bytes` is a little off
        // until the next purge.
        self.known.lock()
    }
}

impl Known {
    fn remove(&mut self, key: &Key) -> Option<Remembered> {
        let gone = self.by_key.remove(key)?;
        self.bytes = self.bytes.saturating_sub(gone.bytes);
        Some(gone)
    }

    fn make_room(&mut self, bytes: usize, most: usize, now: Moment) -> bool {
        if !self.fits(bytes, most) && now.since(self.purged) >= limits::ERROR_MEMORY.0 {
            self.purged = now;
            self.by_key.retain(|_, error| now < error.until);
            self.bytes = self.by_key.values().map(|error| error.bytes).sum();
        }
        self.fits(bytes, most)
    }

    fn fits(&self, bytes: usize, most: usize) -> bool {
        self.by_key.len() < limits::REMEMBERED_ERRORS && self.bytes + bytes <= most
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};

    use super::*;
    use crate::cache::content::Content;
    use crate::cache::entry::{Entry, Validity};
    use crate::cache::key::{HashKey, KeyBuffer};
    use crate::cache::limits::REMEMBERED_ERROR_BYTES;
    use crate::fill::outcome::BestError;
    use crate::fill::outcome::Lack;
    use crate::model::ids::RegionId;
    use crate::model::time::ShortSpan;
    use crate::shape::cookies::Cookies;

    const G: Generation = Generation(0);

    fn key(number: usize) -> Key {
        KeyBuffer::new(HashKey::fixed(1)).primary(&format!("/{number}")).to_key()
    }

    fn at(millis: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(1_000) + Duration::from_millis(millis)
    }

    fn failed(body: usize) -> Filled {
        let error = Entry {
            status: StatusCode::SERVICE_UNAVAILABLE,
            content: Content::new(&HeaderMap::new(), &Bytes::from(vec![0; body])),
            region: RegionId(0),
            sent: at(0),
            age_at_receipt: ShortSpan::default(),
            derived: crate::cache::derived::Derived::NONE,
            json: Default::default(),
            validity: Validity::Uncacheable,
        };
        let best_error = Some(BestError { entry: Arc::new(error), cookies: Cookies::NONE });
        Filled::Failed(Arc::new(Failed { best_error, asked: Vec::new(), lack: Lack::Answers }))
    }

    #[test]
    fn remembered_failure_backs_off_exponentially() {
        let (errors, key) = (Errors::new(REMEMBERED_ERROR_BYTES), key(1));
        let mut now = 0;
        for wait in [1_000, 2_000, 4_000, 5_000, 5_000] {
            errors.note(&key, G, &failed(0), at(now));
            assert!(errors.of(&key, G, at(now + wait - 1)).is_some(), "{wait}");
            assert!(errors.of(&key, G, at(now + wait)).is_none(), "{wait}");
            now += wait + 4_999;
        }
        now += 2;
        errors.note(&key, G, &failed(0), at(now));
        assert!(errors.of(&key, G, at(now + 1_000)).is_none(), "long after the last one it is a first one");
        errors.forget(&key);
        errors.note(&key, G, &Filled::TooLarge, at(now));
        assert!(matches!(errors.of(&key, G, at(now + 999)), Some(Filled::TooLarge)));
    }

    #[test]
    fn announcement_clears_remembered_failure() {
        let (errors, key) = (Errors::new(REMEMBERED_ERROR_BYTES), key(1));
        errors.note(&key, G, &failed(0), at(0));
        assert!(errors.of(&key, Generation(1), at(1)).is_none());
    }

    #[test]
    fn error_bodies_are_bounded_by_bytes() {
        let errors = Errors::new(REMEMBERED_ERROR_BYTES);
        let body = REMEMBERED_ERROR_BYTES / 4;
        for number in 0..100 {
            errors.note(&key(number), G, &failed(body), at(0));
        }
        assert!(errors.known().bytes <= REMEMBERED_ERROR_BYTES);
        assert_eq!(errors.known().by_key.len(), 3);
        for number in 100..200 {
            errors.note(&key(number), G, &failed(body), at(1_500));
        }
        let held = (0..200).filter(|number| errors.of(&key(*number), G, at(2_000)).is_some()).count();
        assert_eq!(held, 3, "what is over makes room");
        let known = errors.known();
        assert_eq!(known.bytes, known.by_key.values().map(|error| error.bytes).sum::<usize>());
    }

    #[test]
    fn remembered_failures_are_bounded() {
        let errors = Errors::new(REMEMBERED_ERROR_BYTES);
        for number in 0..limits::REMEMBERED_ERRORS + 100 {
            errors.note(&key(number), G, &Filled::TooLarge, at(0));
        }
        assert_eq!(errors.known().by_key.len(), limits::REMEMBERED_ERRORS);
    }
}
