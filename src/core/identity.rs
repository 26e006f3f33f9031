//! Owns who asks and how it is named here: keyed hashes of callers, records and publishers, and the sidecar's own
//! credentials.
//!
//! Before it: a request is admitted, an announcement decoded. After it: the key of a representation, the id of a
//! record. The hash keys are drawn when the process starts, so that nobody outside can aim at a collision, and what
//! is hashed (tokens, record keys) is not kept.
//!
//! Invariant: two callers share an identity only when every named header has the same values in the same order.

use std::collections::{HashMap, HashSet};
use std::hash::Hasher;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::{HeaderMap, HeaderName, HeaderValue};
use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher128};

use crate::config::limits::TOKEN_BYTES;
use crate::config::{Credentials, IdentityMode, Service};
use crate::core::limits;
use crate::model::ids::{RecordId, TypeId};
use crate::model::time::Moment;
use crate::tasks::Tasks;

/// Whose reply an entry is: 0 is everybody's who reaches the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(pub u128);

impl Identity {
    /// Anybody who reaches the listener (`sidecar`).
    pub const SIDECAR: Self = Self(0);
}

/// The process's hash keys, and the record types that its routes name.
///
/// A type keeps its id for as long as the process runs, also when no route names it any more: what its announcements say
/// is remembered, so that it may come back.
pub struct KeyedHashes {
    records: (u64, u64),
    callers: (u64, u64),
    types: ArcSwap<HashMap<String, Known>>,
}

/// A record type.
#[derive(Clone, Copy)]
struct Known {
    id: TypeId,
    /// Since when its announcements are heeded: a moment after the start for a type that a reload brought.
    since: Moment,
}

/// A reload brought more record types than a process can tell apart: only a restart helps.
#[derive(Debug, thiserror::Error)]
#[error("more than {} record types since the start", limits::RECORD_TYPES)]
pub struct TooManyTypes;

impl KeyedHashes {
    /// Draws new keys for the record types of `service`'s routes.
    pub fn new(service: &Service) -> Self {
        let mut types = HashMap::new();
        add(&mut types, service, Moment::ZERO);
        let draw = || (fastrand::u64(..), fastrand::u64(..));
        Self { records: draw(), callers: draw(), types: ArcSwap::from_pointee(types) }
    }

    /// Heeds the record types of `service`'s routes from `now` on, besides those that it knows.
    ///
    /// # Errors
    /// When there are too many; then nothing has changed.
    pub fn learn(&self, service: &Service, now: Moment) -> Result<(), TooManyTypes> {
        let mut types = HashMap::clone(&self.types.load());
        add(&mut types, service, now);
        if types.len() > limits::RECORD_TYPES {
            return Err(TooManyTypes);
        }
        self.types.store(Arc::new(types));
        Ok(())
    }

    /// Whether announcements of this type were heeded at `then`. What was asked for too soon after a reload brought it may
    /// have missed one (R2).
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

    /// What the configuration calls a record type.
    pub fn type_name(&self, record_type: TypeId) -> Option<String> {
        self.types.load().iter().find(|(_, known)| known.id == record_type).map(|(name, _)| name.clone())
    }

    /// A publisher's name as a number.
    pub fn publisher(&self, name: &str) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.records.1, self.records.0);
        hasher.write(name.as_bytes());
        hasher.finish()
    }

    /// The caller, by the values of the headers that `mode` names.
    pub fn identity(&self, mode: &IdentityMode, headers: &HeaderMap) -> Identity {
        match mode {
            IdentityMode::Sidecar(_) => Identity::SIDECAR,
            IdentityMode::Exact(names) => Identity(self.fingerprint(headers, names.iter()).max(1)),
        }
    }

    /// A keyed hash over the values of `names` in `headers`, unambiguous in their number and lengths.
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

/// The sidecar's own credentials could not be read: the operator's to mend; a later try may succeed.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file is missing or unreadable.
    #[error("the credentials file {0} cannot be read: {1}; create it or correct the route's credentials.file")]
    Unreadable(PathBuf, std::io::Error),
    /// The file does not hold a header value.
    #[error("the credentials file {0} does not hold one line of at most {1} bytes that a header may carry")]
    NotAValue(PathBuf, u64),
}

/// The credentials of one `sidecar` route, read again when the file changes.
#[derive(Clone)]
pub struct HeldCredentials {
    /// The header they go in.
    pub header: HeaderName,
    value: Arc<ArcSwapOption<HeaderValue>>,
    stamp: Option<Stamp>,
}

/// When a file was last written and how long it is: what changes with its content.
type Stamp = (std::time::SystemTime, u64);

impl HeldCredentials {
    /// Reads the file once; the error is for `run` to report, and the sidecar does not start with it.
    pub fn read(credentials: &Credentials) -> Result<Self, CredentialsError> {
        // Before the content, so that a write in between is seen as a change later.
        let stamp = stamp(credentials);
        let value = Arc::new(ArcSwapOption::from_pointee(read(credentials)?));
        Ok(Self { header: credentials.header.clone(), value, stamp })
    }

    /// The value to send now; `None` after the file became unreadable.
    pub fn value(&self) -> Option<HeaderValue> {
        self.value.load().as_ref().map(|value| HeaderValue::clone(value))
    }

    /// Watches the file until the process stops, or nobody has these any more. A file that went bad keeps the last good value: tokens are
    /// replaced by rename, and between two of them a file may be missing for a moment.
    pub fn watch(&self, credentials: Credentials, tasks: &Tasks) {
        let (value, stopping) = (Arc::downgrade(&self.value), tasks.stopping());
        let mut seen = self.stamp;
        tasks.spawn("credentials", async move {
            while stopping.run_until_cancelled(tokio::time::sleep(limits::WATCH_EVERY)).await.is_some() {
                let Some(held) = Weak::upgrade(&value) else { return };
                let now = stamp(&credentials);
                if now == seen {
                    continue;
                }
                match read(&credentials) {
                    Ok(value) => {
                        held.store(Some(Arc::new(value)));
                        seen = now;
                        tracing::info!(file = %credentials.file.display(), "credentials were read again");
                    }
                    Err(error) => tracing::warn!(%error, "the last good credentials stay in use"),
                }
            }
        });
    }
}

fn stamp(credentials: &Credentials) -> Option<Stamp> {
    let meta = std::fs::metadata(&credentials.file).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

fn read(credentials: &Credentials) -> Result<HeaderValue, CredentialsError> {
    let file = &credentials.file;
    let unreadable = |error| CredentialsError::Unreadable(file.clone(), error);
    let not_a_value = || CredentialsError::NotAValue(file.clone(), TOKEN_BYTES);
    if std::fs::metadata(file).map_err(unreadable)?.len() > TOKEN_BYTES {
        return Err(not_a_value());
    }
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    if text.trim().is_empty() {
        return Err(not_a_value());
    }
    let mut value =
        HeaderValue::try_from(format!("{}{}", credentials.prefix, text.trim())).map_err(|_| not_a_value())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Notices callers that mint a new token per request: under `exact` they would never hit.
///
/// Bounded: at most `RECORDS_WATCHED` records at a time, each up to the number that raises the warning.
#[derive(Default)]
pub struct Churn {
    seen: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    since: Moment,
    records: HashMap<RecordId, HashSet<u128>>,
    raised: u64,
}

const RECORDS_WATCHED: usize = 1024;
const WATCH_FOR: Duration = Duration::from_secs(600);

impl Churn {
    /// Notes a fill of `record` for `identity`; true when the record just passed the number that raises the warning.
    pub fn note(&self, record: RecordId, identity: Identity, now: Moment) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if now.since(seen.since) > WATCH_FOR {
            seen.records.clear();
            seen.since = now;
        }
        if seen.records.len() >= RECORDS_WATCHED && !seen.records.contains_key(&record) {
            return false;
        }
        let callers = seen.records.entry(record).or_default();
        if callers.len() >= limits::IDENTITIES_PER_RECORD || !callers.insert(identity.0) {
            return false;
        }
        let raised = callers.len() == limits::IDENTITIES_PER_RECORD;
        seen.raised += u64::from(raised);
        raised
    }

    /// How many times the warning was raised since the start.
    pub fn raised(&self) -> u64 {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).raised
    }
}

#[cfg(test)]
mod tests;
