//! Passes one request to one region and streams its reply: unsafe methods, Range, replies too large
//! to store. An unsafe request is sent once, to one region. A safe one may be tried at the next
//! region until a usable head has arrived. One region's reply is passed on.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream::StreamExt;

use super::question::Purpose;
use super::region::Regions;
use super::verdict::is_worthless;
use crate::http::exchange::{Failure, Outgoing, Streamed};
use crate::model::ids::{RegionId, RegionSet};
use crate::model::time::Moment;
use crate::tasks::TaskGroup;
use crate::telemetry::metrics::races::AttemptOutcome;

/// One region's head, or why there is none.
type Head = (RegionId, Result<Streamed, Failure>);

impl Regions {
    /// Passes `request` to the healthiest region outside `avoid` (inside it, if there is no other).
    /// A safe request goes on to the next one when a region fails or is slower than its p95. The
    /// first head that is not a 5xx or 429 wins; without one, the first of those is passed on.
    ///
    /// # Errors
    /// The last region's failure when no head arrived by the race's deadline. The region may still
    /// have acted on an unsafe request, unless [`Failure::is_without_effect`].
    pub async fn pass(self: &Arc<Self>, request: Outgoing, avoid: RegionSet) -> Result<Streamed, Failure> {
        self.pass_along(request, self.line_up(avoid).into()).await
    }

    /// Passes `request` to the first of `line`, and a safe one on to the others as [`Self::pass`]
    /// does.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub async fn pass_along(
        self: &Arc<Self>,
        request: Outgoing,
        mut line: VecDeque<RegionId>,
    ) -> Result<Streamed, Failure> {
        let deadline = self.clock.now() + self.deadline();
        let is_safe = request.is_safe();
        if !is_safe {
            line.truncate(1);
        }
        if line.is_empty() {
            return Err(Failure::Drained);
        }
        let request = Arc::new(request);
        let mut heads = TaskGroup::new();
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
                    until = self.clock.now() + self.hedge_delay(RegionSet::EMPTY.with(region));
                }
            }
            let wait = until.min(deadline) - self.clock.now();
            match tokio::time::timeout(wait, heads.next()).await {
                Ok(Some((_, Ok(head)))) if !is_worthless(head.status) || !is_safe => {
                    return Ok(head);
                }
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

    /// One region's head. The permit stays with the body until that has ended or is dropped.
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
                    AttemptOutcome::Passed
                }
                Err(failure) => {
                    regions.note_failure(region, failure);
                    failure.outcome()
                }
            };
            regions.metrics.races.attempt(region, word, took);
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

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::config::RaceMode;
    use crate::race::scripted::{Act, DEADLINE, body, get, ms, regions, status};

    const A: RegionId = RegionId(0);
    const B: RegionId = RegionId(1);
    const C: RegionId = RegionId(2);

    fn post() -> Outgoing {
        Outgoing { method: Method::POST, ..get() }
    }

    /// A read that frameworks take for a write.
    fn overridden() -> Outgoing {
        let name = http::HeaderName::from_static("x-http-method-override");
        let headers = http::HeaderMap::from_iter([(name, http::HeaderValue::from_static("PUT"))]);
        Outgoing { headers, ..get() }
    }

    #[tokio::test(start_paused = true)]
    async fn unsafe_request_reaches_one_region_once() {
        for act in [body("x"), status(500), Act::Fail(Failure::Truncated), Act::Hang] {
            for request in [post(), overridden()] {
                let (script, regions) = regions(RaceMode::All, 8, [(5, act.clone()), (5, body("x")), (5, body("x"))]);
                let passed = regions.pass(request, RegionSet::EMPTY).await;
                assert_eq!(*script.asked.lock(), [A]);
                match &act {
                    Act::Say { status, .. } => {
                        assert_eq!(passed.map(|head| head.status.as_u16()).ok(), Some(*status))
                    }
                    Act::Fail(failure) => assert_eq!(passed.err(), Some(failure.clone())),
                    Act::Hang => assert_eq!(passed.err(), Some(Failure::Deadline { within: DEADLINE, head: false })),
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn safe_request_stays_with_prompt_region() {
        let (script, regions) = regions(RaceMode::All, 8, [(5, body("x")), (5, body("x")), (5, body("x"))]);
        for times in 1..=3 {
            assert!(regions.pass(get(), RegionSet::EMPTY).await.is_ok());
            assert_eq!(script.asked.lock().len(), times);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn safe_request_fails_over_to_next() {
        for act in [status(503), Act::Fail(Failure::Connect), Act::Hang] {
            let (_, regions) = regions(RaceMode::All, 8, [(5, act), (5, body("x")), (5, body("x"))]);
            let start = regions.clock.now();
            let head = regions.pass(get(), RegionSet::EMPTY).await.ok().unwrap();
            assert_eq!(head.region, B);
            assert!(regions.clock.now() - start < ms(300));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn real_error_is_preferred_to_failure() {
        let acts = [(5, Act::Fail(Failure::Connect)), (5, status(503)), (5, Act::Fail(Failure::Garbage))];
        let (script, regions) = regions(RaceMode::All, 8, acts);
        assert_eq!(regions.pass(get(), RegionSet::EMPTY).await.ok().unwrap().status, 503);
        script.acts.lock()[1].1 = Act::Fail(Failure::Connect);
        assert!(regions.pass(get(), RegionSet::EMPTY).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn avoided_region_last_outliers_after_fit() {
        let acts = [(5, body("x")), (5, Act::Fail(Failure::Connect)), (9, body("x"))];
        let (_, regions) = regions(RaceMode::All, 8, acts);
        for _ in 0..5 {
            let _ = regions.pass(post(), RegionSet::EMPTY.with(A).with(C)).await;
        }
        assert_eq!(regions.line_up(RegionSet::EMPTY).last(), Some(&B));
        assert_eq!(regions.pass(post(), RegionSet::EMPTY.with(A)).await.ok().unwrap().region, C);
    }

    #[tokio::test(start_paused = true)]
    async fn permit_is_held_until_body_ends() {
        let (_, regions) = regions(RaceMode::All, 1, [(5, body("x")), (5, body("x")), (5, body("x"))]);
        let head = regions.pass(post(), RegionSet::EMPTY).await.ok().unwrap();
        assert_eq!(regions.status()[head.region.index()].in_flight, 1);
        let again = regions.head(head.region, Arc::new(post()), regions.clock.now() + ms(10)).await;
        assert_eq!(again.1.err(), Some(Failure::Saturated));
        let region = head.region;
        drop(head);
        assert_eq!(regions.status()[region.index()].in_flight, 0);
    }
}
