//! One fill from its turn to its end.

use super::ask::{Ask, Of};
use super::leader::Leader;
use super::outcome::Filled;
use super::{audit, routed, unrouted};
use crate::telemetry::metrics::operations::Budget;

#[expect(clippy::manual_async_fn, reason = "an async fn's future has room for its arguments twice")]
pub(super) fn run(mut leader: Leader, mut ask: Ask) -> impl Future<Output = ()> + Send {
    async move {
        if !leader.take_turn().await {
            leader.settings.shared.metrics.operations.over_budget(Budget::Races);
            return leader.finish(Filled::Busy);
        }
        match &ask.of {
            Of::Route(routing) => {
                let tally = routed::run(&mut leader, &ask, routing).await;
                if let Some(tally) = tally.filter(|tally| audit::is_disputed(&leader.settings, &ask, routing, tally))
                {
                    // Boxed, so that a miss that replaces nothing has no room for it.
                    Box::pin(audit::follow(&leader.settings, &ask, routing, &tally)).await;
                }
            }
            Of::Path(_) => unrouted::run(&mut leader, &mut ask).await,
        }
    }
}
