//! Callers, records and publishers as keyed hashes. The keys are drawn when the process starts, so
//! that nobody outside can aim at a collision, and what is hashed (tokens, record keys) is not
//! kept. Two callers share an identity only when every named header has the same values in the same
//! order.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName};
use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher128};

use crate::access::claims::{ClaimsError, TokenClaims};
use crate::access::principal::Principal;
use crate::cache::key::{HashKey, KeyRef};
use crate::config::{Claims, IdentityMode, Service};
use crate::model::ids::{RecordId, RouteId, TypeId};
use crate::model::time::Moment;
use crate::routing::limits::RECORD_TYPES;

/// Owner of a reply, or a caller; 0 for replies that all share, and for the sidecar itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(pub u128);

impl Identity {
    /// All who may read (`sidecar`, `granted`).
    pub const SHARED: Self = Self(0);
}

/// The process's hash keys, and the record types that its routes name.
///
/// A type keeps its id for as long as the process runs, even when no route names it any more: what
/// its announcements said is remembered, and the type may come back.
pub struct KeyedHashes {
    records: (u64, u64),
    callers: (u64, u64),
    types: ArcSwap<HashMap<String, Known>>,
}

#[derive(Clone, Copy)]
struct Known {
    id: TypeId,
    /// Since when its announcements are heeded; later than the start for a type that a reload
    /// brought.
    since: Moment,
}

/// A reload brought more record types than a process can tell apart. Only a restart helps.
#[derive(Debug, thiserror::Error)]
#[error("more than {} record types since the start", RECORD_TYPES)]
pub struct TooManyTypes;

impl KeyedHashes {
    /// Derives its keys from the process's `key`, and takes the record types from `service`'s routes.
    pub fn new(service: &Service, key: HashKey) -> Self {
        let mut types = HashMap::new();
        add(&mut types, service, Moment::ZERO);
        Self { records: key.derived(0), callers: key.derived(1), types: ArcSwap::from_pointee(types) }
    }

    /// Heeds the record types of `service`'s routes from `now` on, in addition to those it knows.
    ///
    /// # Errors
    /// When there are too many; then nothing has changed.
    pub fn learn(&self, service: &Service, now: Moment) -> Result<(), TooManyTypes> {
        let mut types = HashMap::clone(&self.types.load());
        add(&mut types, service, now);
        if types.len() > RECORD_TYPES {
            return Err(TooManyTypes);
        }
        self.types.store(Arc::new(types));
        Ok(())
    }

    /// True if announcements of this type were heeded at `then`. What was asked for too soon after
    /// a reload brought the type may have missed one (R2).
    pub fn heeded(&self, record_type: TypeId, then: Moment) -> bool {
        self.types.load().values().any(|known| known.id == record_type && known.since <= then)
    }

    /// The id of a record; `None` when no route names its type (R14).
    pub fn record(&self, record_type: &str, key: &str) -> Option<RecordId> {
        let record_type = self.type_id(record_type)?;
        let mut hasher = SipHasher24::new_with_keys(self.records.0, self.records.1);
        hasher.write_u16(record_type.0);
        hasher.write(key.as_bytes());
        Some(RecordId { record_type, hash: hasher.finish() })
    }

    /// The id of a record type; `None` when no route names it.
    pub fn type_id(&self, record_type: &str) -> Option<TypeId> {
        self.types.load().get(record_type).map(|known| known.id)
    }

    /// Configured name of a record type.
    pub fn type_name(&self, record_type: TypeId) -> Option<String> {
        self.types.load().iter().find(|(_, known)| known.id == record_type).map(|(name, _)| name.clone())
    }

    pub fn publisher(&self, name: &str) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.records.1, self.records.0);
        hasher.write(name.as_bytes());
        hasher.finish()
    }

    /// Owner of a reply, by the values of the headers that `mode` puts into keys.
    pub fn owner(&self, mode: &IdentityMode, headers: &HeaderMap) -> Identity {
        if mode.is_shared() { Identity::SHARED } else { self.caller(mode, headers) }
    }

    /// Caller, by the values of the headers by which regions know it; with credentials of the sidecar's
    /// own all are one.
    pub fn caller(&self, mode: &IdentityMode, headers: &HeaderMap) -> Identity {
        match mode {
            IdentityMode::Sidecar(_) => Identity::SHARED,
            IdentityMode::Exact(_) | IdentityMode::Granted | IdentityMode::Verified(_) => {
                Identity(self.fingerprint(headers, mode.headers().iter()).max(1))
            }
        }
    }

    /// Caller, by those claims of its verified token that tell callers apart.
    ///
    /// # Errors
    /// [`ClaimsError`], if it lacks one of them: two callers without it may differ all the same.
    pub fn claimed(&self, claims: &Claims, of_token: &TokenClaims) -> Result<Identity, ClaimsError> {
        let mut hasher = SipHasher128::new_with_keys(self.callers.0, self.callers.1);
        hasher.write(b"claims");
        let named = match claims {
            Claims::Named(names) => names.iter().map(String::as_str).chain(["iss"]).collect::<Vec<_>>(),
            Claims::All => of_token.names().filter(|name| claims.tells_apart(name)).collect(),
        };
        for name in named {
            hasher.write_usize(name.len());
            hasher.write(name.as_bytes());
            hasher.write(of_token.digest(name)?);
        }
        Ok(Identity(hasher.finish128().as_u128().max(1)))
    }

    /// Caller, by who its verified credential says it is.
    pub fn principal(&self, principal: &Principal) -> Identity {
        let mut hasher = SipHasher128::new_with_keys(self.callers.0, self.callers.1);
        hasher.write(b"principal");
        principal.hash(&mut hasher);
        Identity(hasher.finish128().as_u128().max(1))
    }

    /// Key of a permit for one representation, whose key has its owner in it.
    pub fn permit_of_reply(&self, key: KeyRef<'_>) -> u128 {
        let mut hasher = SipHasher128::new_with_keys(self.callers.1, self.callers.0);
        hasher.write(b"reply");
        hasher.write(key.bytes());
        hasher.finish128().as_u128()
    }

    /// Key of a permit: a caller of a route, and a view (R22). Whom credentials of the sidecar's own speak
    /// for is the route's.
    pub fn permit(&self, route: RouteId, caller: Identity, view: &str) -> u128 {
        let mut hasher = SipHasher128::new_with_keys(self.callers.1, self.callers.0);
        hasher.write_u16(route.0);
        hasher.write(&caller.0.to_ne_bytes());
        hasher.write(view.as_bytes());
        hasher.finish128().as_u128()
    }

    /// A keyed hash over the values of `names` in `headers`. Their number and lengths are part of
    /// it, so it is unambiguous.
    pub fn fingerprint<'a>(&self, headers: &HeaderMap, names: impl Iterator<Item = &'a HeaderName>) -> u128 {
        let mut hasher = SipHasher128::new_with_keys(self.callers.0, self.callers.1);
        for name in names {
            for value in headers.get_all(name) {
                hasher.write_usize(value.len() + 1);
                hasher.write(value.as_bytes());
            }
            hasher.write_usize(0);
        }
        hasher.finish128().as_u128()
    }
}

/// Gives each record type that `service`'s routes name an id, unless it has one.
fn add(types: &mut HashMap<String, Known>, service: &Service, since: Moment) {
    for record in service.routes.iter().flat_map(|route| &route.records) {
        let id = TypeId(types.len() as u16);
        types.entry(record.record_type.clone()).or_insert(Known { id, since });
    }
}

#[cfg(test)]
mod tests;
