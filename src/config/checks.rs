//! The rules between settings: combinations that make no sense although each value alone is
//! allowed, and those that only deserve a warning.
//!
//! [`super::read`] has read every setting by itself, and code behind this need not check a `Config`
//! again. A setting that already has an error is not judged twice.

use std::net::SocketAddr;
use std::time::Duration;

use super::schema;
use super::scope::Collector;
use super::variables::first_route;
use super::{Config, Drain, IdentityMode, Route, Transport};
use crate::config::error::{ConfigError, ConfigProblem, quoted};
use crate::config::grants_version::GRANTS_VERSION_NAME;
use crate::config::limits;
use crate::config::overrides::{impersonates, is_override};
use crate::config::record_floor::RECORD_FLOOR_NAME;

mod batch;
mod candidate;
mod compression;
mod credentials;
pub(in crate::config) mod issuers;
mod names;
mod regions;
mod signer;
mod sockets;
pub(in crate::config) mod tls;
mod verified;

pub(super) use names::refuse_clashing_names;

/// Time that ECS and Kubernetes wait after SIGTERM unless set otherwise.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Notes every error and warning that shows only when settings are seen together.
pub(super) fn check(collector: &mut Collector, config: &Config) {
    non_loopback(collector, config);
    regions::check(collector, config);
    routes(collector, &config.service.routes);
    for (at, route) in config.service.routes.iter().enumerate() {
        route_headers(collector, route, at);
    }
    batch::check(collector, &config.service.routes);
    candidate::check(collector, &config.service, config.listen.tcp);
    compression::check(collector, &config.service);
    credentials::check(collector, &config.service);
    verified::check(collector, config);
    tls::lent_certificate(collector, &config.service);
    listeners(collector, config);
    sockets::check(collector, config);
    signer::check(collector, config);
    times(collector, config);
}

fn routes(collector: &mut Collector, routes: &[Route]) {
    if routes.is_empty() {
        let place = collector.root.clone();
        collector.warn(
            place,
            format!(
                "no route: no announcement keeps anything fresh, cache.unrouted says what becomes of every path; {}",
                first_route()
            ),
        );
    }
    if routes.len() > limits::ROUTES {
        let place = collector.origins.place(&schema::ROUTE_PATH, Some(limits::ROUTES));
        let wrong =
            ConfigProblem::new(format!("{} routes", routes.len()), format!("write at most {}", limits::ROUTES));
        collector.errors.push(ConfigError::new(place, "service.route", wrong));
    }
    for (at, route) in routes.iter().enumerate().take(limits::ROUTES) {
        if collector.has_error(&schema::ROUTE_PATH, Some(at)) {
            continue;
        }
        for record in &route.records {
            if let Err(wrong) = record.check_against(&route.path) {
                let place = collector.origins.place(&schema::ROUTE_RECORDS, Some(at));
                collector.error(&schema::ROUTE_RECORDS, Some(at), place, wrong);
            }
        }
        for (before, earlier) in routes[..at].iter().enumerate() {
            if collector.has_error(&schema::ROUTE_PATH, Some(before)) {
                continue;
            }
            let (mine, theirs) = (quoted(&route.path.text), quoted(&earlier.path.text));
            if earlier.path.covers(&route.path) {
                let what = format!("{mine} is never reached: {theirs} before it takes every such path");
                collector.refuse(
                    &schema::ROUTE_PATH,
                    Some(at),
                    what,
                    "remove one of the two, or put the narrower first",
                );
            } else if earlier.path.overlaps(&route.path) && !route.path.covers(&earlier.path) {
                let text = format!("{mine} and {theirs} share paths: the first in the file takes them");
                collector.warn_of(&schema::ROUTE_PATH, Some(at), text);
            }
        }
    }
}

fn route_headers(collector: &mut Collector, route: &Route, at: usize) {
    let own = route.identity.own();
    let sent: Vec<_> = route.identity.headers().iter().chain(own.map(|own| &own.header)).collect();
    for header in &route.forward {
        let what = match header.as_str() {
            "traceparent" | "tracestate" | "baggage" | "x-request-id" => {
                format!("`{header}` would make every request an entry of its own")
            }
            RECORD_FLOOR_NAME | GRANTS_VERSION_NAME => format!("`{header}` is stated by the sidecar itself"),
            _ if sent.contains(&header) => format!("`{header}` is the route's identity already"),
            _ if is_override(header) => {
                format!("`{header}` may make another request of a read, which no announcement of this route is about")
            }
            _ if impersonates(header) && own.is_some() => {
                format!("with `{header}` the sidecar's own credentials would speak for whom the caller names")
            }
            _ => continue,
        };
        let suggestion = if ["traceparent", "tracestate", "baggage", "x-request-id"].contains(&header.as_str()) {
            "remove it: it goes along by itself, from the first reader, and does not join the key"
        } else if is_override(header) {
            "remove it: a read with it is passed on; where the service does not know it, `ignore` it"
        } else {
            "remove it from `forward`"
        };
        collector.refuse(&schema::ROUTE_FORWARD, Some(at), what, suggestion);
    }
    for pattern in &route.ignore {
        if let Some(named) = route.forward.iter().chain(sent.iter().copied()).find(|name| pattern.fits(name)) {
            let what = format!("`{pattern}` and what is sent to the regions, `{named}`, cannot both hold");
            collector.refuse(&schema::ROUTE_IGNORE, Some(at), what, "remove one of the two");
        }
    }
    if route.forward.contains(&http::header::USER_AGENT) {
        collector.warn_of(
            &schema::ROUTE_FORWARD,
            Some(at),
            "every client software keeps entries of its own".to_owned(),
        );
    }
    match &route.identity {
        IdentityMode::Exact(headers) if headers.is_empty() => {
            let text = "no identity headers: replies are shared by all callers; a request with credentials is passed on, unless \
                        `ignore` names their header";
            collector.warn_of(&schema::ROUTE_IDENTITY_HEADERS, Some(at), text.to_owned());
        }
        IdentityMode::Exact(headers)
            if headers.iter().any(|header| {
                ["traceparent", "tracestate", "baggage", "x-request-id"].contains(&header.as_str())
                    || [RECORD_FLOOR_NAME, GRANTS_VERSION_NAME].contains(&header.as_str())
                    || is_override(header)
            }) =>
        {
            let what = "a header that is no caller's own, or differs in every request".to_owned();
            collector.refuse(&schema::ROUTE_IDENTITY_HEADERS, Some(at), what, "name headers that tell callers apart");
        }
        _ => {}
    }
}

fn listeners(collector: &mut Collector, config: &Config) {
    let listen = &config.listen;
    let nowhere = listen.tcp.is_none() && listen.unix.is_none();
    if nowhere && !collector.has_error(&schema::LISTEN_UNIX, None) {
        let what = "no port and no Unix socket: applications could not connect".to_owned();
        collector.refuse(
            &schema::LISTEN_TCP,
            None,
            what,
            "write tcp = \"127.0.0.1:8700\", or unix = \"/run/nearside.sock\"",
        );
    }
    if listen.token_file.is_none() && listen.tcp.is_some_and(|address| !address.ip().is_loopback()) {
        let text = "other machines reach this port and no token guards it: write listen.token_file";
        collector.warn_of(&schema::LISTEN_TCP, None, text.to_owned());
    }
    let posts = match &config.announcements.transport {
        Transport::Http { listen, .. } => Some(*listen),
        _ => None,
    };
    let named = [
        (&schema::LISTEN_TCP, listen.tcp),
        (&schema::ADMIN_LISTEN, Some(config.admin.listen)),
        (&schema::ANNOUNCEMENTS_HTTP_LISTEN, posts),
    ];
    for (at, (setting, address)) in named.iter().enumerate() {
        for (other, taken) in &named[..at] {
            if let (Some(address), Some(taken)) = (address, taken)
                && clash(*address, *taken)
            {
                let what = format!("port {} is {}'s already", address.port(), other.path());
                collector.refuse(setting, None, what, "write another port");
            }
        }
    }
}

/// Returns whether the two cannot both be bound.
pub(super) fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && (any || one.ip() == other.ip())
}

fn times(collector: &mut Collector, config: &Config) {
    let time = humantime::format_duration;
    let (cache, race, drain) = (&config.cache, &config.race, &config.drain);
    if cache.soft_ttl > cache.ttl && collector.origins.is_written(&schema::CACHE_SOFT_TTL, None) {
        let what = format!("longer than cache.ttl ({})", time(cache.ttl));
        collector.refuse(&schema::CACHE_SOFT_TTL, None, what, "write a time of at most cache.ttl");
    }
    if config.freshness.worst_lag >= cache.ttl {
        let what = format!("not shorter than cache.ttl ({}): no reply would ever be kept for long", time(cache.ttl));
        let setting = &schema::FRESHNESS_WORST_LAG;
        let (setting, what) = if collector.origins.is_written(setting, None) {
            (setting, what)
        } else {
            let lag = time(config.freshness.worst_lag);
            let what = format!("not longer than freshness.worst_lag ({lag}): no reply would ever be kept for long");
            (&schema::CACHE_TTL, what)
        };
        collector.refuse(setting, None, what, "let cache.ttl be longer than freshness.worst_lag");
    }
    if drain.deadline < race.deadline {
        let what =
            format!("shorter than race.deadline ({}): requests under way would be cut off", time(race.deadline));
        let setting = &schema::DRAIN_DEADLINE;
        let setting = if collector.origins.is_written(setting, None) { setting } else { &schema::RACE_DEADLINE };
        let what = if setting == &schema::DRAIN_DEADLINE {
            what
        } else {
            format!("longer than drain.deadline ({}): requests under way would be cut off", time(drain.deadline))
        };
        collector.refuse(setting, None, what, "let drain.deadline be at least race.deadline");
    }
    stop_timeout(collector, *drain);
}

/// Warns about a stop that takes longer than a container's runtime waits for it.
pub(super) fn stop_timeout(collector: &mut Collector, drain: Drain) {
    let stop = drain.linger + drain.deadline;
    if stop > STOP_TIMEOUT {
        let text = format!(
            "drain.linger and drain.deadline together are {}: raise the container's stop timeout (30s unless set \
             otherwise in ECS and Kubernetes) above that",
            humantime::format_duration(stop)
        );
        collector.warn_of(&schema::DRAIN_LINGER, None, text);
    }
}

/// Refuses addresses that other machines can reach and nobody said so.
fn non_loopback(collector: &mut Collector, config: &Config) {
    let Config { listen, admin, .. } = config;
    let addresses = [
        (&schema::LISTEN_TCP, &schema::LISTEN_ALLOW_NON_LOOPBACK, listen.tcp, listen.allow_non_loopback),
        (&schema::ADMIN_LISTEN, &schema::ADMIN_ALLOW_NON_LOOPBACK, Some(admin.listen), admin.allow_non_loopback),
    ];
    for (setting, leave, address, is_allowed) in addresses {
        if let Some(address) = address.filter(|address| !address.ip().is_loopback() && !is_allowed) {
            let suggestion =
                format!("write 127.0.0.1:{}, or {} = true when that is meant", address.port(), leave.path());
            let what = format!("other machines could reach {}", quoted(&address.to_string()));
            collector.refuse(setting, None, what, &suggestion);
        }
    }
}

#[cfg(test)]
mod tests;
