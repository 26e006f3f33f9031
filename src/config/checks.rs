//! The rules between settings: combinations that make no sense although each value alone is
//! allowed, and those that only deserve a warning.
//!
//! [`super::read`] has read every setting by itself, and code behind this need not check a `Config`
//! again. A setting that already has a mistake is not judged twice.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::scope::Collector;
use super::settings::{self as schema, Setting};
use super::variables::{first_route, variable_name};
use super::{Config, Drain, IdentityMode, Route, Transport};
use crate::config::error::{ConfigError, ConfigProblem, quoted};
use crate::config::limits;
use crate::config::overrides::{impersonates, is_override};

mod admin;
mod batch;
mod compression;
mod regions;
mod second;
mod signer;
mod tls;

pub(super) use compression::dictionary_without_zstd;
pub(super) use regions::primary;
pub(super) use second::{credentials_for_all, form_without_schema};
pub(super) use tls::client_certificate;

/// How long ECS and Kubernetes wait after SIGTERM unless told otherwise.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Notes every mistake and warning that shows only when settings are seen together.
pub(super) fn check(ledger: &mut Collector, config: &Config) {
    regions::check(ledger, config);
    routes(ledger, &config.service.routes);
    for (at, route) in config.service.routes.iter().enumerate() {
        route_headers(ledger, route, at);
    }
    batch::check(ledger, &config.service.routes);
    second::check(ledger, &config.service, config.listen.tcp);
    compression::check(ledger, &config.service);
    listeners(ledger, config);
    admin::check(ledger, config);
    signer::check(ledger, config);
    times(ledger, config);
}

/// Notes a mistake where the setting was written.
pub(super) fn refuse(
    ledger: &mut Collector,
    setting: &'static Setting,
    item: Option<usize>,
    what: String,
    instead: &str,
) {
    let place = ledger.origins.place(setting, item);
    ledger.mistake(setting, item, place, ConfigProblem::new(what, instead));
}

pub(super) fn warn(ledger: &mut Collector, setting: &'static Setting, item: Option<usize>, text: String) {
    let place = ledger.origins.place(setting, item);
    ledger.warn(place, text);
}

/// Refuses tables of a list that no variable could tell apart.
pub(super) fn names_apart<'n>(
    ledger: &mut Collector,
    setting: &'static Setting,
    of: &str,
    names: impl Iterator<Item = &'n str>,
) {
    let mut known: BTreeMap<String, &str> = BTreeMap::new();
    for (at, name) in names.enumerate() {
        if let Some(other) = known.insert(variable_name(name), name) {
            let what = match other == name {
                true => format!("a second {of} called {}", quoted(other)),
                false => format!("{} cannot be told from {} in a variable", quoted(name), quoted(other)),
            };
            refuse(ledger, setting, Some(at), what, &format!("give each {of} a name of its own"));
        }
    }
}

fn routes(ledger: &mut Collector, routes: &[Route]) {
    if routes.is_empty() {
        let place = ledger.root.clone();
        ledger.warn(
            place,
            format!(
                "no route: no announcement keeps anything fresh, cache.unrouted says what becomes of every path; {}",
                first_route()
            ),
        );
    }
    if routes.len() > limits::ROUTES {
        let place = ledger.origins.place(&schema::ROUTE_PATH, Some(limits::ROUTES));
        let wrong =
            ConfigProblem::new(format!("{} routes", routes.len()), format!("write at most {}", limits::ROUTES));
        ledger.mistakes.push(ConfigError::new(place, "service.route", wrong));
    }
    for (at, route) in routes.iter().enumerate().take(limits::ROUTES) {
        if ledger.is_mistaken(&schema::ROUTE_PATH, Some(at)) {
            continue;
        }
        for record in &route.records {
            if let Err(wrong) = record.check_against(&route.path) {
                let place = ledger.origins.place(&schema::ROUTE_RECORDS, Some(at));
                ledger.mistake(&schema::ROUTE_RECORDS, Some(at), place, wrong);
            }
        }
        for (before, earlier) in routes[..at].iter().enumerate() {
            if ledger.is_mistaken(&schema::ROUTE_PATH, Some(before)) {
                continue;
            }
            let (mine, theirs) = (quoted(&route.path.text), quoted(&earlier.path.text));
            if earlier.path.covers(&route.path) {
                let what = format!("{mine} is never reached: {theirs} before it takes every such path");
                refuse(
                    ledger,
                    &schema::ROUTE_PATH,
                    Some(at),
                    what,
                    "remove one of the two, or put the narrower first",
                );
            } else if earlier.path.overlaps(&route.path) && !route.path.covers(&earlier.path) {
                let text = format!("{mine} and {theirs} share paths: the first in the file takes them");
                warn(ledger, &schema::ROUTE_PATH, Some(at), text);
            }
        }
    }
}

fn route_headers(ledger: &mut Collector, route: &Route, at: usize) {
    let sent: Vec<_> = match &route.identity {
        IdentityMode::Exact(headers) => headers.iter().collect(),
        IdentityMode::Sidecar(credentials) => vec![&credentials.header],
    };
    for header in &route.forward {
        let what = match header.as_str() {
            "traceparent" | "tracestate" | "baggage" | "x-request-id" => {
                format!("`{header}` would make every request an entry of its own")
            }
            "x-record-floor" => format!("`{header}` is stated by the sidecar itself"),
            _ if sent.contains(&header) => format!("`{header}` is the route's identity already"),
            _ if is_override(header) => {
                format!("`{header}` may make another request of a read, which no announcement of this route is about")
            }
            _ if impersonates(header) && matches!(route.identity, IdentityMode::Sidecar(_)) => {
                format!("with `{header}` the sidecar's own credentials would speak for whom the caller names")
            }
            _ => continue,
        };
        let instead = match ["traceparent", "tracestate", "baggage", "x-request-id"].contains(&header.as_str()) {
            true => "remove it: it goes along by itself, from the first reader, and does not join the key",
            false if is_override(header) => {
                "remove it: a read with it is passed on; where the service does not know it, `ignore` it"
            }
            false => "remove it from `forward`",
        };
        refuse(ledger, &schema::ROUTE_FORWARD, Some(at), what, instead);
    }
    for pattern in &route.ignore {
        if let Some(named) = route.forward.iter().chain(sent.iter().copied()).find(|name| pattern.fits(name)) {
            let what = format!("`{pattern}` and what is sent to the regions, `{named}`, cannot both hold");
            refuse(ledger, &schema::ROUTE_IGNORE, Some(at), what, "remove one of the two");
        }
    }
    if route.forward.contains(&http::header::USER_AGENT) {
        warn(ledger, &schema::ROUTE_FORWARD, Some(at), "every client software keeps entries of its own".to_owned());
    }
    match &route.identity {
        IdentityMode::Exact(headers) if headers.is_empty() => {
            let text = "no identity headers: replies are shared by all callers; a request with credentials is passed on, unless \
                        `ignore` names their header";
            warn(ledger, &schema::ROUTE_IDENTITY_HEADERS, Some(at), text.to_owned());
        }
        IdentityMode::Exact(headers)
            if headers.iter().any(|header| {
                ["traceparent", "tracestate", "baggage", "x-request-id", "x-record-floor"].contains(&header.as_str())
                    || is_override(header)
            }) =>
        {
            let what = "a header that is no caller's own, or differs in every request".to_owned();
            refuse(ledger, &schema::ROUTE_IDENTITY_HEADERS, Some(at), what, "name headers that tell callers apart");
        }
        _ => {}
    }
}

/// Settings that mean something only on a route with a `schema`.
pub(super) fn without_schema(ledger: &mut Collector, item: Option<usize>, settings: [&'static Setting; 4]) {
    for setting in settings {
        if ledger.origins.is_changed(setting, item) {
            let what = "it belongs to a route with a `schema`".to_owned();
            refuse(ledger, setting, item, what, "write the route's `schema`, or remove this");
        }
    }
}

fn listeners(ledger: &mut Collector, config: &Config) {
    let listen = &config.listen;
    let nowhere = listen.tcp.is_none() && listen.unix.is_none();
    if nowhere && !ledger.is_mistaken(&schema::LISTEN_UNIX, None) {
        let what = "no port and no Unix socket: applications could not connect".to_owned();
        refuse(
            ledger,
            &schema::LISTEN_TCP,
            None,
            what,
            "write tcp = \"127.0.0.1:8700\", or unix = \"/run/nearside.sock\"",
        );
    }
    match &listen.unix {
        Some(unix) if unix.path.as_os_str().len() > limits::SOCKET_PATH_BYTES => {
            let what = format!("a path of {} bytes", unix.path.as_os_str().len());
            let instead = format!("write one of at most {} bytes: sockets take no more", limits::SOCKET_PATH_BYTES);
            refuse(ledger, &schema::LISTEN_UNIX, None, what, &instead);
        }
        Some(_) => {}
        None => {
            for setting in [&schema::LISTEN_UNIX_MODE, &schema::LISTEN_UNIX_UIDS] {
                if ledger.origins.is_changed(setting, None) {
                    warn(ledger, setting, None, format!("{} has no effect without listen.unix", setting.path()));
                }
            }
        }
    }
    if listen.token_file.is_none() && listen.tcp.is_some_and(|address| !address.ip().is_loopback()) {
        let text = "other machines reach this port and no token guards it: write listen.token_file";
        warn(ledger, &schema::LISTEN_TCP, None, text.to_owned());
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
                refuse(ledger, setting, None, what, "write another port");
            }
        }
    }
}

/// Whether the two cannot both be bound.
pub(super) fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && (any || one.ip() == other.ip())
}

fn times(ledger: &mut Collector, config: &Config) {
    let time = humantime::format_duration;
    let (cache, race, drain) = (&config.cache, &config.race, &config.drain);
    if cache.soft_ttl > cache.ttl && ledger.origins.is_written(&schema::CACHE_SOFT_TTL, None) {
        let what = format!("longer than cache.ttl ({})", time(cache.ttl));
        refuse(ledger, &schema::CACHE_SOFT_TTL, None, what, "write a time of at most cache.ttl");
    }
    if config.freshness.worst_lag >= cache.ttl {
        let what = format!("not shorter than cache.ttl ({}): no reply would ever be kept for long", time(cache.ttl));
        let setting = &schema::FRESHNESS_WORST_LAG;
        let (setting, what) = match ledger.origins.is_written(setting, None) {
            true => (setting, what),
            false => {
                let lag = time(config.freshness.worst_lag);
                (
                    &schema::CACHE_TTL,
                    format!("not longer than freshness.worst_lag ({lag}): no reply would ever be kept for long"),
                )
            }
        };
        refuse(ledger, setting, None, what, "let cache.ttl be longer than freshness.worst_lag");
    }
    if drain.deadline < race.deadline {
        let what =
            format!("shorter than race.deadline ({}): requests under way would be cut off", time(race.deadline));
        let setting = &schema::DRAIN_DEADLINE;
        let setting = if ledger.origins.is_written(setting, None) { setting } else { &schema::RACE_DEADLINE };
        let what = match setting == &schema::DRAIN_DEADLINE {
            true => what,
            false => {
                format!("longer than drain.deadline ({}): requests under way would be cut off", time(drain.deadline))
            }
        };
        refuse(ledger, setting, None, what, "let drain.deadline be at least race.deadline");
    }
    stop_timeout(ledger, *drain);
}

/// Warns about a stop that takes longer than a container's runtime waits for it.
pub(super) fn stop_timeout(ledger: &mut Collector, drain: Drain) {
    let stop = drain.linger + drain.deadline;
    if stop > STOP_TIMEOUT {
        let text = format!(
            "drain.linger and drain.deadline together are {}: raise the container's stop timeout (30s unless told \
             otherwise in ECS and Kubernetes) above that",
            humantime::format_duration(stop)
        );
        warn(ledger, &schema::DRAIN_LINGER, None, text);
    }
}

/// Refuses an address that other machines can reach; `leave` is the setting that would allow it.
pub(super) fn refuse_non_loopback(
    ledger: &mut Collector,
    setting: &'static Setting,
    leave: &'static Setting,
    address: SocketAddr,
) {
    let instead = format!("write 127.0.0.1:{}, or {} = true when that is meant", address.port(), leave.path());
    let what = format!("other machines could reach {}", quoted(&address.to_string()));
    refuse(ledger, setting, None, what, &instead);
}

/// Notes what `transport = "http"` lacks.
pub(super) fn incomplete_http(ledger: &mut Collector, no_listen: bool, no_public_url: bool) {
    let place = ledger.origins.place(&schema::ANNOUNCEMENTS_TRANSPORT, None);
    let needs = [
        (no_listen, &schema::ANNOUNCEMENTS_HTTP_LISTEN, "0.0.0.0:8702"),
        (no_public_url, &schema::ANNOUNCEMENTS_HTTP_PUBLIC_URL, "https://announcements.example.com"),
    ];
    for (missing, setting, example) in needs {
        if missing {
            let wrong = ConfigProblem::new(
                "missing, and transport = \"http\" needs it",
                format!("write {} = \"{example}\"", setting.key),
            );
            ledger.mistake(setting, None, place.clone(), wrong);
        }
    }
}

#[cfg(test)]
mod tests;
