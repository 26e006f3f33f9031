//! Callers' credentials with which background work asks regions that answer each caller by its own
//! (`identity = "granted"`, [`super::lending`]).

use std::collections::{HashMap, VecDeque};

use http::HeaderValue;
use parking_lot::Mutex;

use super::limits::LENT_CREDENTIALS;
use super::permits::PermitKey;
use crate::model::ids::RouteId;

/// The newest credentials that regions gave a permit, by route. They are in no log and on no page.
#[derive(Default)]
pub(crate) struct Lent(Mutex<HashMap<RouteId, VecDeque<LentCredential>>>);

struct LentCredential {
    permit: PermitKey,
    value: HeaderValue,
}

impl Lent {
    /// Notes a credential that a region just gave `permit`.
    pub(crate) fn note(&self, route: RouteId, permit: PermitKey, value: &HeaderValue) {
        let mut known = self.0.lock();
        let known = known.entry(route).or_default();
        known.retain(|lent| lent.permit != permit);
        known.truncate(LENT_CREDENTIALS - 1);
        let mut value = value.clone();
        value.set_sensitive(true);
        known.push_front(LentCredential { permit, value });
    }

    /// Drops those of all routes but these: a reload took the others away.
    pub(crate) fn keep(&self, is_routed: impl Fn(RouteId) -> bool) {
        self.0.lock().retain(|route, _| is_routed(*route));
    }

    /// The newest credential whose permit `holds`. Others are dropped: their readers bring them again.
    pub(super) fn newest(
        &self,
        route: RouteId,
        holds: impl Fn(PermitKey) -> bool,
    ) -> Option<(PermitKey, HeaderValue)> {
        let mut known = self.0.lock();
        let known = known.get_mut(&route)?;
        known.retain(|lent| holds(lent.permit));
        known.front().map(|lent| (lent.permit, lent.value.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newest(lent: &Lent, holds: fn(PermitKey) -> bool) -> Option<PermitKey> {
        lent.newest(RouteId(0), holds).map(|(permit, _)| permit)
    }

    #[test]
    fn newest_credential_with_permit_is_lent() {
        let (lent, route) = (Lent::default(), RouteId(0));
        for number in 0..LENT_CREDENTIALS as u128 + 2 {
            lent.note(route, number.into(), &HeaderValue::from(number as u64));
        }
        assert_eq!(newest(&lent, |_| true), Some(5.into()));
        assert_eq!(newest(&lent, |permit| permit == 3.into()), Some(3.into()));
        assert_eq!(newest(&lent, |_| true), Some(3.into()), "those without a permit are gone");
        lent.note(RouteId(1), 9.into(), &HeaderValue::from_static("9"));
        lent.keep(|route| route == RouteId(1));
        assert_eq!(newest(&lent, |_| true), None, "of a route that is gone");
        assert!(lent.newest(RouteId(1), |_| true).is_some());
    }
}
