//! Permission of a caller for what is stored (R22): asked by the one lookup and by all who serve what is
//! stored later than that.

use std::sync::Arc;

use super::answer::Outcome;
use super::caller::{Caller, Standing};
use super::found::Found;
use super::settings::Settings;
use crate::access::denial::Denial;
use crate::cache::entry::Entry;
use crate::cache::key::KeyRef;
use crate::fill::ask::{Ask, AskedPermit};
use crate::fill::background::Refresh;
use crate::fill::permits::Permission;
use crate::http::admission::Head;
use crate::model::time::Moment;
use crate::protocol::label::Label;
use crate::race::question::Purpose;
use crate::routing::router::Matched;
use crate::shape::cache_status::{CacheLine, Detail};
use crate::shape::shown::Shown;

/// Permission of `caller` for what is stored of the view that `matched` shows. All of it, as long as
/// no grants are known, unless the route shares it by grants alone.
#[inline]
pub(super) fn permission(
    settings: &Settings,
    caller: &mut Caller,
    head: Head<'_>,
    matched: &Matched<'_>,
    stored_at: KeyRef<'_>,
    now: Moment,
) -> Permission {
    let floor = settings.fill.shared.freshness.grants().floor();
    if floor == 0 && !matched.route.identity.needs_permits() {
        return Permission::Granted { recheck: false, until: Moment::ZERO };
    }
    let (permits, terms) = (&settings.fill.shared.fills.permits, &settings.fill.config.access);
    if matched.route.identity.claims().is_some() {
        let key = caller.permit_key(settings, head.headers, matched, stored_at);
        return permits.permission(key, floor, now, terms);
    }
    // Taken before the permit is looked up: a refusal in between makes that look again.
    let standing = Standing { floor, epoch: permits.epoch() };
    if let Some(until) = caller.permitted(matched.id, standing).filter(|until| now < *until) {
        return Permission::Granted { recheck: false, until };
    }
    let key = caller.permit_key(settings, head.headers, matched, stored_at);
    let permission = permits.permission(key, floor, now, terms);
    let until = if let Permission::Granted { until, .. } = permission { until } else { Moment::ZERO };
    caller.note_permit(matched.id, key, standing, until);
    permission
}

/// The permit that a fill for this caller may bring.
pub(super) fn asked_permit(
    settings: &Settings,
    caller: &Caller,
    head: Head<'_>,
    matched: &Matched<'_>,
    asked: KeyRef<'_>,
) -> AskedPermit {
    let key = caller.permit_key(settings, head.headers, matched, asked);
    let is_claimed = caller.claimant.on(matched.id).is_some();
    let credential = if is_claimed { caller.own_permit_key(settings, head.headers, matched).short() } else { 0 };
    AskedPermit { key, credential, is_missing: false, is_needed: matched.route.identity.needs_permits() }
}

/// An answer by which a region refused the caller moments ago.
pub(super) fn refusal(caller: &Caller, head: Head<'_>, entry: &Arc<Entry>) -> Found {
    Found::Answer(caller.shown(head, entry, None, refused(entry)), None)
}

fn refused(entry: &Entry) -> CacheLine {
    CacheLine { hit: true, detail: Some(Detail::Region(entry.region)), ..CacheLine::default() }
}

/// The label of what is stored, where it is served by a permit that nobody could confirm.
pub(super) fn labelled(settings: &Settings, is_unproven: bool, label: Option<Label>) -> Option<Label> {
    if !is_unproven {
        return label;
    }
    settings.fill.shared.metrics.requests.stale(Label::GrantsUnproven);
    Some(Label::GrantsUnproven)
}

/// Asks the regions about a permit while readers are served by it.
pub(super) fn rechecked(mut ask: Ask) -> Box<Refresh> {
    ask.purpose = Purpose::Background;
    Box::new(Refresh::Fill(ask))
}

/// A stored reply that may not be shown, because regions did not say whether the caller still may
/// have it.
pub(super) fn stored_if(
    settings: &Settings,
    head: Head<'_>,
    permit: Option<AskedPermit>,
    now: Moment,
) -> Result<Option<Label>, Box<Outcome>> {
    let floor = settings.fill.shared.freshness.grants().floor();
    let Some(permit) = permit.filter(|permit| floor > 0 || permit.is_needed) else { return Ok(None) };
    match settings.fill.shared.fills.permits.permission(permit.key, floor, now, &settings.fill.config.access) {
        Permission::Granted { .. } => Ok(None),
        Permission::Unproven => Ok(Some(Label::GrantsUnproven)),
        Permission::Refused(entry) => Err(Box::new(Outcome::Shown(Shown::of(head, &entry, None, refused(&entry))))),
        Permission::Unknown | Permission::Withheld => Err(Box::new(Outcome::Denied(Denial::GrantsUnknown))),
    }
}
