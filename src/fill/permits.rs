//! Permits: what a sidecar remembers of a caller and a view, so that what is stored goes on being
//! served only to whom the regions' grants allow it (R22).
//!
//! A permit says under which version of the grants a region last answered that caller for that view
//! with something else than a refusal. It holds while that version is not below the floor, for
//! `access.recheck`; without one, one request goes to the regions and the others wait for it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::limits::{PERMITS, REFUSAL_BYTES, REFUSALS, RETRY_WAIT};
use crate::cache::entry::Entry;
use crate::config::PermitsConfig;
use crate::config::services::WhenUnknown;
use crate::model::time::Moment;
use crate::switch::{Rule, is_on};

/// A permit is rechecked in the background in the last fifth of its time.
const RECHECKED_IN_LAST: u32 = 5;
const SHARDS: usize = 16;

/// A caller and a view, as a keyed hash ([`crate::routing::keyed_hashes`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitKey(u64, u64);

impl From<u128> for PermitKey {
    fn from(hash: u128) -> Self {
        Self((hash >> 64) as u64, hash as u64)
    }
}

impl std::hash::Hash for PermitKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.1);
    }
}

impl PermitKey {
    /// Number that tells it from most others.
    pub(crate) fn short(self) -> u32 {
        (self.1 as u32).max(1)
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.0) << 64 | u128::from(self.1)).to_be_bytes()
    }
}

/// The keys are hashes already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type ByKey<T> = HashMap<PermitKey, T, BuildHasherDefault<AsItIs>>;

/// Extent to which a caller may have what is stored of a view, now.
#[derive(Clone)]
pub enum Permission {
    /// All of it, `until` then if the grants stay and nobody is refused. With `recheck`, the regions
    /// should be asked again before the permit ends.
    Granted { recheck: bool, until: Moment },
    /// All of it, labelled: no region could confirm its permit.
    Unproven,
    /// Nothing: a region refused it moments ago, with this answer.
    Refused(Arc<Entry>),
    /// The regions have to say.
    Unknown,
    /// Nothing: regions did not say, and it was allowed too long ago or never.
    Withheld,
}

/// A reader's part in asking the regions for a permit.
pub enum Turn {
    /// This reader; the others wait until the guard is dropped.
    Lead(DropGuard),
    Follow(CancellationToken),
}

#[derive(Clone, Copy, Default)]
struct Permit {
    /// Version of the grants by which it was given; 0 for none.
    version: u64,
    /// The request that confirmed it was sent then.
    confirmed: Moment,
    /// Version of the grants by which it was refused; 0 for never.
    refused: u64,
    /// Regions are not asked for it again before, unless the floor moved from where it was then.
    next_try: (u64, Moment),
    /// Its credential ends then.
    ends: Moment,
    /// It was given by regions that check nobody: a refusal by the same version beats it.
    is_unchecked: bool,
}

struct Refusal {
    entry: Arc<Entry>,
    /// The floor when it came: when that moves, it may be wrong.
    floor: u64,
    until: Moment,
}

#[derive(Default)]
struct Shard {
    permits: ByKey<Permit>,
    refusals: ByKey<Refusal>,
    turns: ByKey<CancellationToken>,
}

/// The permits of one process. A lost one costs a request.
#[derive(Default)]
pub struct Permits {
    shards: [Mutex<Shard>; SHARDS],
    /// Counts refusals.
    epoch: AtomicU64,
}

impl Permits {
    /// A number that moves when anybody is refused: what was allowed before may be no longer.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Permission of `key` now, with the grants at `floor`.
    pub fn permission(&self, key: PermitKey, floor: u64, now: Moment, terms: &PermitsConfig) -> Permission {
        if !is_on(Rule::R22) {
            return Permission::Granted { recheck: false, until: Moment::ZERO };
        }
        let mut shard = self.shard(key);
        if let Some(refusal) = shard.refusals.get(&key) {
            if refusal.floor == floor && now < refusal.until {
                return Permission::Refused(refusal.entry.clone());
            }
            shard.refusals.remove(&key);
        }
        let Some(permit) = shard.permits.get_mut(&key) else { return Permission::Unknown };
        permit.permission(floor, now, terms)
    }

    /// True if `key` may have what is stored, and no region has to be asked first.
    pub(crate) fn allows(&self, key: PermitKey, floor: u64, now: Moment, recheck: Duration) -> bool {
        self.shard(key).permits.get(&key).is_some_and(|permit| permit.allows(floor, now, recheck))
    }

    /// True if a region refused it by newer grants than these, and none allowed it since.
    pub fn is_refused_since(&self, key: PermitKey, version: u64) -> bool {
        self.shard(key).permits.get(&key).is_some_and(|permit| permit.refused > version)
    }

    /// Notes that a region answered a request from `sent` by this version of the grants, with something
    /// else than a refusal. The caller's credential ends at `ends`. A refusal by newer ones stands, as
    /// long as regions are held to them.
    pub fn granted(&self, key: PermitKey, version: u64, floor: u64, sent: Moment, ends: Moment) {
        let mut shard = self.shard(key);
        let permit = shard.permit(key);
        let is_older = permit.version == 0 && sent < permit.confirmed;
        if is_older || version < floor && (version < permit.version || version < permit.refused) {
            return;
        }
        let confirmed = permit.confirmed.max(sent);
        *permit = Permit { version, confirmed, refused: 0, ends, is_unchecked: false, ..*permit };
        shard.refusals.remove(&key);
    }

    /// Notes that regions answered a request from `sent`, and none of them goes by grants: their modes are
    /// `off`, and the document is there already. A refusal by grants at the floor stands.
    pub fn unchecked(&self, key: PermitKey, floor: u64, sent: Moment, ends: Moment) {
        let mut shard = self.shard(key);
        let permit = shard.permit(key);
        if permit.refused >= floor {
            return;
        }
        let (is_unchecked, confirmed) = (permit.is_unchecked || permit.version < floor, permit.confirmed.max(sent));
        *permit = Permit { version: permit.version.max(floor), confirmed, ends, is_unchecked, ..*permit };
        shard.refusals.remove(&key);
    }

    /// Notes that regions refused it by this version of the grants, with `entry`. Another region may
    /// have allowed it by the same: then that holds, for `recheck`.
    pub fn refused(
        &self,
        key: PermitKey,
        version: u64,
        entry: &Arc<Entry>,
        (floor, recheck): (u64, Duration),
        now: Moment,
    ) {
        let mut shard = self.shard(key);
        let permit = shard.permit(key);
        let is_fresh = now.since(permit.confirmed) < recheck;
        if version < permit.version || version == permit.version && is_fresh && !permit.is_unchecked {
            return;
        }
        *permit = Permit { version: 0, refused: version, ..*permit };
        self.epoch.fetch_add(1, Ordering::Release);
        shard.remember(key, entry, floor, now);
    }

    /// Notes that a region showed nothing to a caller of those who share a reply by their claims, and no other
    /// answered better. With `entry`, all of them get that for a moment; without, the next asks again. An
    /// answer to what was sent before gives nothing back. What a request confirmed that was sent after
    /// `unless_since` stands.
    pub fn ended(
        &self,
        key: PermitKey,
        entry: Option<&Arc<Entry>>,
        (floor, unless_since): (u64, Moment),
        now: Moment,
    ) {
        let mut shard = self.shard(key);
        let permit = shard.permit(key);
        if permit.confirmed > unless_since {
            return;
        }
        *permit = Permit { version: 0, confirmed: now, ..*permit };
        if let Some(entry) = entry {
            shard.remember(key, entry, floor, now);
        }
    }

    /// Notes that regions were asked by a request from `sent`. If they gave no permit, they are not asked
    /// for it again at once.
    pub fn tried(&self, key: PermitKey, floor: u64, sent: Moment, now: Moment) {
        let mut shard = self.shard(key);
        let permit = shard.permit(key);
        let is_given = permit.version > 0 && permit.version >= floor && permit.confirmed >= sent;
        permit.next_try = (floor, if is_given { now } else { now + retry_wait() });
    }

    /// Notes that a region did not believe the caller's credential, or refused it by grants that nobody else
    /// knows, and answered with `entry`. It says nothing of a permit that still holds: that region may lack
    /// a key.
    pub fn turned_away(&self, key: PermitKey, entry: &Arc<Entry>, floor: u64, now: Moment) {
        let mut shard = self.shard(key);
        if !shard.permit(key).is_allowed(now) {
            shard.remember(key, entry, floor, now);
        }
    }

    /// The turn of a reader who needs a permit.
    pub fn turn(&self, key: PermitKey) -> Turn {
        let mut shard = self.shard(key);
        if let Some(turn) = shard.turns.get(&key).filter(|turn| !turn.is_cancelled()) {
            return Turn::Follow(turn.clone());
        }
        shard.turns.retain(|_, turn| !turn.is_cancelled());
        let turn = CancellationToken::new();
        shard.turns.insert(key, turn.clone());
        Turn::Lead(turn.drop_guard())
    }

    /// Number of permits that are remembered.
    pub fn remembered(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().permits.len()).sum()
    }

    fn shard(&self, key: PermitKey) -> MutexGuard<'_, Shard> {
        // Each change is one insertion or removal, whole.
        self.shards[key.0 as usize % SHARDS].lock()
    }
}

impl Permit {
    fn is_allowed(&self, now: Moment) -> bool {
        self.version > 0 && now < self.ends
    }

    fn allows(&self, floor: u64, now: Moment, recheck: Duration) -> bool {
        self.is_allowed(now) && self.version >= floor && now.since(self.confirmed) < recheck
    }

    fn permission(&mut self, floor: u64, now: Moment, terms: &PermitsConfig) -> Permission {
        let age = now.since(self.confirmed);
        let is_allowed = self.is_allowed(now);
        let may_ask = now >= self.next_try.1 || self.next_try.0 != floor;
        if self.allows(floor, now, terms.recheck) {
            let due = self.confirmed + (terms.recheck - terms.recheck / RECHECKED_IN_LAST);
            let is_due = may_ask && now >= due;
            if is_due {
                self.next_try = (floor, now + RETRY_WAIT.0);
            }
            return Permission::Granted { recheck: is_due, until: due.min(self.ends) };
        }
        if may_ask {
            return Permission::Unknown;
        }
        let goes_on = is_allowed && age < terms.max_age && terms.when_unknown == WhenUnknown::Serve;
        if goes_on { Permission::Unproven } else { Permission::Withheld }
    }
}

impl Shard {
    /// The permit at `key`, made if there is none. One that was not used is dropped for it.
    fn permit(&mut self, key: PermitKey) -> &mut Permit {
        if self.permits.len() >= PERMITS / SHARDS && !self.permits.contains_key(&key) {
            // The oldest of a few, so that this costs the same however many there are.
            let oldest = self.permits.iter().take(8).min_by_key(|(_, permit)| permit.confirmed);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.permits.remove(&oldest);
            }
        }
        self.permits.entry(key).or_default()
    }

    /// Remembers an answer that refused the caller, if there is room.
    fn remember(&mut self, key: PermitKey, entry: &Arc<Entry>, floor: u64, now: Moment) {
        if self.refusals.len() >= REFUSALS / SHARDS {
            self.refusals.retain(|_, refusal| now < refusal.until);
        }
        if self.refusals.len() < REFUSALS / SHARDS && entry.weight() <= REFUSAL_BYTES {
            self.refusals.insert(key, Refusal { entry: entry.clone(), floor, until: now + retry_wait() });
        }
    }
}

fn retry_wait() -> Duration {
    let (least, most) = RETRY_WAIT;
    least + (most - least).mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests;
