//! Requests that are passed to one region as they are: unsafe methods, ranges, bodies, and replies too large to hold.
//!
//! Before it: [`super`] saw that neither race nor store applies. After it: the reply streams to the caller, and a
//! successful unsafe request invalidates what RFC 9111, 4.4 names. Invariant: an unsafe request is sent at most once.

use std::sync::Arc;

use http::{Method, header};

use super::Sidecar;
use crate::cache::fill::ask;
use crate::cache::policy;
use crate::config::IdentityMode;
use crate::origin::reply::Streamed;
use crate::request::Admitted;
use crate::response::{Attempted, Blame, CacheLine, Detail, Fwd, Outcome};

/// Passes a request to one region; `route` is the route that its path belongs to.
pub(super) async fn pass(sidecar: &Arc<Sidecar>, admitted: &Admitted, route: Option<usize>) -> Outcome {
    let started = sidecar.clock.now();
    let safe = matches!(admitted.method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE);
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
    let passed = sidecar.regions.pass(request, safe).await;
    let outcome = match passed {
        Ok(Streamed { region, status, headers, body }) => {
            if !safe && !status.is_client_error() && !status.is_server_error() {
                invalidate(sidecar, admitted, &headers);
            }
            let line = CacheLine {
                fwd: Some(fwd),
                fwd_status: Some(status.as_u16()),
                detail: Some(Detail::Region(region)),
                ..CacheLine::default()
            };
            Outcome::Streamed { status, headers, body, line }
        }
        Err((region, failure)) => {
            let region = region.map_or("none", |region| sidecar.names[region.index()].as_str()).to_owned();
            let outcome = failure.word().to_owned();
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

/// RFC 9111, 4.4: the target, and what Location and Content-Location name on the same origin.
fn invalidate(sidecar: &Sidecar, admitted: &Admitted, reply: &http::HeaderMap) {
    for target in policy::invalidated(&admitted.path_and_query, &admitted.headers, reply) {
        sidecar.store.invalidate(&target);
    }
}
