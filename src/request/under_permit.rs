//! Fills where callers share what is stored, and each needs a permit of its own (`identity =
//! "granted"`): who began one may have its reply, the others as far as regions allow it to them.

use std::sync::Arc;

use super::limits;
use super::settings::Settings;
use crate::cache::entry::Entry;
use crate::fill::ask::{Ask, AskedPermit};
use crate::fill::flight;
use crate::fill::outcome::{Filled, Got, Role};
use crate::fill::permits::{Permission, PermitKey, Turn};
use crate::shape::cookies::Cookies;

/// Fills for a caller, and again with its own credentials if the shared fill was another caller's and
/// regions have not said that this one may have its reply.
pub(super) async fn fill_under_permit(settings: &Arc<Settings>, ask: &Ask, permit: AskedPermit) -> (Filled, Role) {
    // What is stored would do: another caller's request would not help.
    if permit.is_missing {
        return flight::fill_alone(&settings.fill, ask).await;
    }
    for _ in 0..limits::JOINED_FILLS {
        let (filled, share) = flight::fill(&settings.fill, ask).await;
        if share != Role::Follower {
            return (filled, share);
        }
        settings.fill.shared.metrics.requests.fill_shared();
        if !filled.is_for_its_reader() {
            return shared_fill(settings, ask, permit.key, filled).await;
        }
        // Its answer was for the one who began it. Now one of those who waited begins another.
        if let Some(refused) = allowed(settings, permit.key, None) {
            return (refused, share);
        }
    }
    own_fill(settings, ask).await
}

/// The result of another caller's fill, if regions have said that this one may have it; else that of
/// a fill of its own.
async fn shared_fill(settings: &Arc<Settings>, ask: &Ask, key: PermitKey, filled: Filled) -> (Filled, Role) {
    if !matches!(filled, Filled::Got(_)) {
        return (filled, Role::Follower);
    }
    if let Some(answer) = allowed(settings, key, Some(&filled)) {
        return (answer, Role::Follower);
    }
    // One request for all requests of this caller that wait here.
    let waited = match settings.fill.shared.fills.permits.turn(key) {
        Turn::Lead(_held) => return own_fill(settings, ask).await,
        Turn::Follow(waited) => waited,
    };
    waited.cancelled().await;
    match allowed(settings, key, Some(&filled)) {
        Some(answer) => (answer, Role::Follower),
        None => own_fill(settings, ask).await,
    }
}

/// The answer for this caller, if regions have said whether it may have what was `filled`, if anything
/// was.
fn allowed(settings: &Settings, key: PermitKey, filled: Option<&Filled>) -> Option<Filled> {
    let (shared, terms) = (&settings.fill.shared, &settings.fill.config.access);
    let (floor, now) = (shared.freshness.grants().floor(), shared.clock.now());
    match shared.fills.permits.permission(key, floor, now, terms) {
        Permission::Granted { .. } => filled.cloned(),
        Permission::Refused(entry) => Some(refused(entry)),
        Permission::Unproven | Permission::Unknown | Permission::Withheld => None,
    }
}

fn refused(entry: Arc<Entry>) -> Filled {
    let fwd_status = entry.status.as_u16();
    Filled::Got(Got { entry, fwd_status, stored: false, shareable: false, label: None, cookies: Cookies::NONE })
}

/// A fill with the caller's own credentials, and the validators of what the shared one stored.
async fn own_fill(settings: &Arc<Settings>, ask: &Ask) -> (Filled, Role) {
    let mut ask = ask.clone();
    if !ask.no_cache {
        ask.previous = settings.fill.shared.store.get(ask.key.as_ref()).or(ask.previous);
    }
    flight::fill_alone(&settings.fill, &ask).await
}
