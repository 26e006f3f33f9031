//! Requests that are passed to one region as they are: unsafe methods, ranges, bodies, and replies too large to hold.
//!
//! Before it: [`super`] saw that neither race nor store applies. After it: the reply streams to the caller, and a
//! successful unsafe request invalidates what RFC 9111, 4.4 names. Invariant: an unsafe request is sent at most once.

use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};

use super::Sidecar;
use crate::cache::fill::ask;
use crate::cache::key::KeyBuffer;
use crate::cache::policy::{self, Way};
use crate::config::IdentityMode;
use crate::freshness::words::{RegionId, RegionSet};
use crate::origin::reply::{Failure, Streamed};
use crate::request::Admitted;
use crate::response::{Attempted, Blame, CacheLine, Detail, Fwd, Outcome};

/// Passes a request to one region; `route` is the route that its path belongs to.
pub(super) async fn pass(sidecar: &Arc<Sidecar>, admitted: &Admitted, route: Option<usize>) -> Outcome {
    let started = sidecar.clock.now();
    let safe = policy::way(&admitted.method, &admitted.headers) != Way::Unsafe;
    let mut request = ask::unrouted_request(admitted);
    for condition in [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE] {
        if let Some(value) = admitted.headers.get(&condition) {
            request.headers.insert(condition, value.clone());
        }
    }
    if let (true, Some(route)) = (safe, route) {
        // Only reads are made in the sidecar's name: whoever reaches the listener may read, not write.
        if let IdentityMode::Sidecar(_) = sidecar.config.service.routes[route].identity {
            request.headers.remove(header::AUTHORIZATION);
            request.headers.remove(header::COOKIE);
            let Some(held) = &sidecar.credentials[route] else { return no_credentials() };
            let Some(value) = held.value() else { return no_credentials() };
            request.headers.insert(held.header.clone(), value);
        }
    }
    let fwd = if safe { Fwd::Bypass } else { Fwd::Method };
    let passed = sidecar.regions.pass(request, RegionSet::EMPTY).await;
    let outcome = match passed {
        Ok(Streamed { region, status, headers, body }) => {
            invalidate(sidecar, admitted, region, Some(status), &headers);
            let line = CacheLine {
                fwd: Some(fwd),
                fwd_status: Some(status.as_u16()),
                detail: Some(Detail::Region(region)),
                ..CacheLine::default()
            };
            Outcome::Streamed { status, headers, body, line }
        }
        Err(failure) => {
            // Nobody knows whether the region did what was asked, unless it never heard of it.
            if !matches!(failure, Failure::Connect | Failure::Saturated) {
                invalidate(sidecar, admitted, RegionId(0), None, &HeaderMap::new());
            }
            let (region, outcome) = ("one".to_owned(), failure.word().to_owned());
            Outcome::NoneAnswered(vec![Attempted { region, outcome, blame: Blame::of(&failure) }])
        }
    };
    sidecar.count_miss(&outcome, started);
    outcome
}

fn no_credentials() -> Outcome {
    let outcome = "credentials".to_owned();
    Outcome::NoneAnswered(vec![Attempted { region: "all".into(), outcome, blame: Blame::Unusable }])
}

/// RFC 9111, 4.4: the target, and what Location and Content-Location name on the same origin; nothing after a safe
/// request.
fn invalidate(
    sidecar: &Sidecar,
    admitted: &Admitted,
    region: RegionId,
    outcome: Option<StatusCode>,
    reply: &HeaderMap,
) {
    let host = admitted.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let base = &sidecar.config.service.regions[region.index()].url;
    let target = &admitted.path_and_query;
    let mut buffer = KeyBuffer::new(sidecar.seed);
    for target in policy::invalidates(&admitted.method, outcome, target, host, base, reply) {
        sidecar.store.invalidate(&mut buffer, &target, sidecar.clock.now());
    }
}
