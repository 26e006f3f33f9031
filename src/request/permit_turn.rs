//! Turns of the readers who need one permit (R22): the first asks the regions, the others wait for it
//! and look again.

use std::sync::Arc;

use tokio_util::sync::DropGuard;

use super::caller::Caller;
use super::found::{Found, Plan};
use super::lookup::lookup;
use super::settings::Settings;
use crate::fill::permits::{PermitKey, Turn};
use crate::http::admission::Admitted;

/// Result of waiting for another reader's request.
pub(super) enum Permitted {
    /// Ask for it: this reader's own request may bring the permit. Others wait for the guard.
    Ask(Box<Plan>, Option<DropGuard>),
    /// Look at the store after that.
    Served(Found),
}

/// Takes the reader's turn to ask for a permit, or waits until another has, and looks again.
pub(super) async fn turn(
    settings: &Arc<Settings>,
    plan: Box<Plan>,
    key: PermitKey,
    admitted: &Admitted,
) -> Permitted {
    let waited = match settings.fill.shared.fills.permits.turn(key) {
        Turn::Lead(guard) => return Permitted::Ask(plan, Some(guard)),
        Turn::Follow(waited) => waited,
    };
    // Its batch does not wait for it.
    plan.ask.withdraw();
    waited.cancelled().await;
    match lookup(settings, &mut Caller::of(&admitted.headers), admitted.head(), false) {
        // It is not stored any more, or still not allowed: this reader asks like any other miss.
        Found::Ask(plan) => Permitted::Ask(plan, None),
        found => Permitted::Served(found),
    }
}
