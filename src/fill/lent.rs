//! Callers' credentials with which background work asks regions that answer each caller by its own
//! (`identity = "granted"`, [`super::lending`]).

use std::collections::{HashMap, VecDeque};

use http::HeaderValue;
use parking_lot::Mutex;

use super::permits::PermitKey;
use crate::access::token;
use crate::model::ids::RouteId;
use crate::model::time::Wall;

/// The newest credentials that regions gave a permit, by route. They are in no log and on no page.
#[derive(Default)]
pub(crate) struct Lent(Mutex<HashMap<RouteId, VecDeque<LentCredential>>>);

struct LentCredential {
    /// Key of its permit, or of its caller where each reply has a permit of its own.
    of: PermitKey,
    /// Its `exp`, if it states one.
    ends: Option<Wall>,
    value: HeaderValue,
}

impl Lent {
    /// Notes a credential that a region just gave a permit, by the key `of` that or of its caller, and keeps the newest `most` of the route's.
    pub(crate) fn note(&self, route: RouteId, of: PermitKey, value: &HeaderValue, most: usize) {
        let mut known = self.0.lock();
        let known = known.entry(route).or_default();
        known.retain(|lent| lent.of != of);
        known.truncate(most - 1);
        let mut value = value.clone();
        value.set_sensitive(true);
        let ends = token::bearer(value.as_bytes()).and_then(token::stated_end);
        known.push_front(LentCredential { of, ends, value });
    }

    /// Drops those of all routes but these: a reload took the others away.
    pub(crate) fn keep(&self, is_routed: impl Fn(RouteId) -> bool) {
        self.0.lock().retain(|route, _| is_routed(*route));
    }

    /// The newest credential of this caller that has not ended.
    pub(super) fn of(&self, route: RouteId, caller: PermitKey, now: Wall) -> Option<HeaderValue> {
        let known = self.0.lock();
        let mut own = known.get(&route)?.iter().filter(|lent| lent.of == caller && lent.holds(now));
        own.next().map(|lent| lent.value.clone())
    }

    /// The newest credential that has not ended and whose permit `holds`. Others are dropped: their readers
    /// bring them again.
    pub(super) fn newest(
        &self,
        route: RouteId,
        now: Wall,
        holds: impl Fn(PermitKey) -> bool,
    ) -> Option<(PermitKey, HeaderValue)> {
        let mut known = self.0.lock();
        let known = known.get_mut(&route)?;
        known.retain(|lent| lent.holds(now) && holds(lent.of));
        known.front().map(|lent| (lent.of, lent.value.clone()))
    }
}

impl LentCredential {
    fn holds(&self, now: Wall) -> bool {
        self.ends.is_none_or(|ends| now < ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::limits::LENT_CREDENTIALS;

    fn newest(lent: &Lent, holds: fn(PermitKey) -> bool) -> Option<PermitKey> {
        lent.newest(RouteId(0), Wall::default(), holds).map(|(permit, _)| permit)
    }

    #[test]
    fn newest_credential_with_permit_is_lent() {
        let (lent, route) = (Lent::default(), RouteId(0));
        for number in 0..LENT_CREDENTIALS as u128 + 2 {
            lent.note(route, number.into(), &HeaderValue::from(number as u64), LENT_CREDENTIALS);
        }
        assert_eq!(newest(&lent, |_| true), Some(5.into()));
        assert_eq!(newest(&lent, |permit| permit == 3.into()), Some(3.into()));
        assert_eq!(newest(&lent, |_| true), Some(3.into()), "those without a permit are gone");
        lent.note(RouteId(1), 9.into(), &HeaderValue::from_static("9"), LENT_CREDENTIALS);
        lent.keep(|route| route == RouteId(1));
        assert_eq!(newest(&lent, |_| true), None, "of a route that is gone");
        assert!(lent.newest(RouteId(1), Wall::default(), |_| true).is_some());
    }
}
