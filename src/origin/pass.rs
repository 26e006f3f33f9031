//! Owns passing one request through to one region, its reply streamed: unsafe methods, Range, replies too large to store.
//!
//! Before it: [`crate::serve`] decided that this request is not raced. After it: [`crate::response`] streams the body on.
//! Invariant: an unsafe request is sent to one region, once; a safe one may be tried at the next region while no head has
//! arrived, and one region's reply is passed on.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream::StreamExt;

use super::region::{Purpose, Regions};
use super::reply::{Failure, Outgoing, Streamed};
use super::verdict::is_worthless;
use crate::clock::Moment;
use crate::freshness::words::{RegionId, RegionSet};
use crate::tasks::Legs;

/// One region's head, or why there is none.
type Head = (RegionId, Result<Streamed, Failure>);

impl Regions {
    /// Passes `request` to the healthiest region outside `avoid` (inside it, when there is no other). A safe request goes
    /// to the next one when a region fails, or is slower than its p95; the first head that is no 5xx or 429 wins, else
    /// the first of those is passed on.
    ///
    /// # Errors
    /// The last region's failure when no head arrived by the race's deadline. For an unsafe request the region may have
    /// acted on it all the same, unless the failure is [`Failure::Connect`] or [`Failure::Saturated`].
    pub async fn pass(self: &Arc<Self>, request: Outgoing, avoid: RegionSet) -> Result<Streamed, Failure> {
        let deadline = self.clock.now() + self.deadline();
        let mut line: VecDeque<RegionId> = self.line_up(avoid).into();
        if !request.method.is_safe() {
            line.truncate(1);
        }
        let request = Arc::new(request);
        let mut heads = Legs::new();
        let mut flying = 0;
        let mut failure = Failure::Deadline { within: self.deadline(), head: false };
        let mut error = None;
        let mut next = line.pop_front();
        loop {
            let mut until = deadline;
            if let Some(region) = next.take() {
                heads.start(self.head(region, request.clone(), deadline));
                flying += 1;
                if !line.is_empty() {
                    until = self.clock.now() + self.patience(RegionSet::EMPTY.with(region));
                }
            }
            let wait = until.min(deadline) - self.clock.now();
            match tokio::time::timeout(wait, heads.next()).await {
                Ok(Some((_, Ok(head)))) if !is_worthless(head.status) || !request.method.is_safe() => return Ok(head),
                Ok(Some((_, ended))) => {
                    flying -= 1;
                    match ended {
                        Ok(head) => error = error.or(Some(head)),
                        Err(reason) => failure = reason,
                    }
                    next = line.pop_front();
                }
                Ok(None) => flying = 0,
                Err(_) => next = line.pop_front_if(|region| self.spend_token(*region)),
            }
            let over = self.clock.now() >= deadline;
            if over || (flying == 0 && next.is_none()) {
                return error.ok_or(failure);
            }
        }
    }

    /// One region's head; its permit stays with the body until that has ended or is dropped.
    fn head(
        self: &Arc<Self>,
        region: RegionId,
        request: Arc<Outgoing>,
        deadline: Moment,
    ) -> impl Future<Output = Head> + Send + use<> {
        let regions = self.clone();
        async move {
            let started = regions.clock.now();
            let permit = match regions.admit(region, Purpose::Foreground, started) {
                Ok(permit) => permit,
                Err(saturated) => return (region, Err(saturated)),
            };
            let within = deadline - started;
            let opened = tokio::time::timeout(within, regions.origin.open(region, request, within)).await;
            let opened = opened.unwrap_or(Err(Failure::Deadline { within, head: false }));
            let took = regions.clock.now() - started;
            let word = match &opened {
                Ok(head) => {
                    regions.note_reply(region, head.status, &head.headers, took);
                    "passed"
                }
                Err(failure) => {
                    regions.note_failure(region, failure);
                    failure.word()
                }
            };
            regions.metrics.leg(region, word, took);
            let held = opened.map(|head| {
                let body = head.body.map(move |chunk| {
                    let _held = &permit;
                    chunk
                });
                Streamed { body: body.boxed(), ..head }
            });
            (region, held)
        }
    }
}
