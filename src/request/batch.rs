//! Many keys of one route in one request. Each is looked up, asked for and labelled as a GET of its
//! path with the same head would be; the answer is always 200 and has one part for each key, in
//! their order.
//!
//! What is stored is answered at once. The rest is asked for in waves of bounded size, which share
//! a bounded part of the regions' permits with all other batches; a wave's keys travel to a region
//! in one request where regions take that ([`crate::race::gather`]).

use std::sync::Arc;

use self::wave::{Batch, ExecutePlan};
use super::answer::Outcome;
use super::claimant::prove_first;
use super::settings::Settings;
use crate::http::admission::Admitted;
use crate::model::ids::RouteIndex;
use crate::race::gather::request::{Refused, read};
use crate::telemetry::metrics::operations::Budget;

mod answering;
pub(crate) mod batches;
mod limits;
mod part;
#[cfg(test)]
mod tests;
mod wave;
mod worst;

/// Answers a batch for the route at this index.
pub(super) async fn answer(
    settings: &Arc<Settings>,
    index: RouteIndex,
    admitted: Admitted,
    execute_plan: ExecutePlan,
) -> Outcome {
    let request = match read(&admitted.headers, &admitted.body) {
        Ok(request) => request,
        Err(refused) => return refuse(settings, refused),
    };
    let keys = request.keys.len() as u64;
    let parts = (keys as usize * limits::PART_BYTES).min(limits::HELD_BYTES) as u64;
    let held = admitted.body.len() as u64 + 2 * limits::CHUNK_BYTES as u64 + keys * limits::HELD_PER_KEY + parts;
    let Some(reserved) = settings.shared.bodies.reserve(held) else {
        settings.fill.shared.metrics.operations.over_budget(Budget::Batches);
        return refuse(settings, Refused::NoRoom);
    };
    settings.fill.shared.metrics.batches.batch();
    prove_first(settings, &admitted.headers, index).await;
    answering::begin(Arc::new(Batch::of(settings, index, admitted, request, execute_plan)), reserved).await
}

fn refuse(settings: &Settings, refused: Refused) -> Outcome {
    settings.fill.shared.metrics.requests.refused(refused.reason());
    Outcome::RefusedBatch(refused)
}
