//! `nearside explain`: what a path is to the sidecar by its configuration, and what a running
//! sidecar holds for it.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::json;

use super::args;
use super::ctl::{self, Reach};
use super::error::CommandError;
use super::load::{settings, variables};
use crate::config::{Config, IdentityMode, PermitsConfig, Route, Unrouted};
use crate::http::admission::Head;
use crate::migration::candidate;
use crate::request::sent::request_of_caller;
use crate::routing::headers::goes_along;
use crate::routing::router::{Matched, Router};

mod access;
mod headers;
mod payload;

use headers::names;
use payload::Wanted;

/// `nearside explain`
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// The path as callers write it, with any query
    #[arg(value_parser = args::path, required_unless_present = "services")]
    pub path: Option<String>,
    /// Say instead who may read, write and operate by this file of the services
    #[arg(long, value_name = "FILE", conflicts_with = "path")]
    pub services: Option<PathBuf>,
    /// A header that callers send; may be given several times
    #[arg(long, value_name = "NAME: VALUE", value_parser = args::header)]
    pub header: Vec<(HeaderName, HeaderValue)>,
    #[command(flatten)]
    pub reach: Reach,
}

/// Advice for a path that was given alone.
const WITH_WHAT: &str = "nothing says which routes there are: give --config FILE, as nearside run gets it; or ask a \
                         running sidecar what it has stored for the path, with --socket PATH (its admin.unix) or --admin \
                         ADDRESS and --token-file FILE";

pub(super) fn explain(args: &ExplainArgs) -> Result<(), CommandError> {
    match (&args.path, &args.services) {
        (None, Some(file)) => print(&access::services(file)?),
        (path, _) => explain_path(args, path.as_deref().unwrap_or("/")),
    }
}

fn explain_path(args: &ExplainArgs, path: &str) -> Result<(), CommandError> {
    let path_len = path.find('?').unwrap_or(path.len());
    let reach = &args.reach;
    let by_env = variables().any(|(name, _)| name.starts_with("NEARSIDE__SERVICE__"));
    if reach.config.is_none() && !by_env && (reach.socket.is_some() || reach.admin.is_some()) {
        let mut lines = vec!["route, records and what goes along: with --config".to_owned(), String::new()];
        lines.extend(stored(args, &path[..path_len]));
        return print(&lines);
    }
    if reach.config.is_none() && !by_env {
        return Err(CommandError::Usage(WITH_WHAT.to_owned()));
    }
    let (config, _) = settings(reach.config.as_deref())?;
    let mut headers = HeaderMap::new();
    for (name, value) in &args.header {
        headers.append(name.clone(), value.clone());
    }
    let router = Router::new(&config.service);
    let mut matched = router.find(&path[..path_len]);
    matched.iter_mut().for_each(candidate::choose);
    let mut lines = match &matched {
        Some(matched) => {
            let head = Head { method: &http::Method::GET, path_and_query: path, path_len, headers: &headers };
            let wanted = payload::wanted(matched.route, head);
            let mut lines = routed(matched, head, &wanted, &config.access);
            let asked = payload::asked_at(&config, matched, &wanted, path);
            lines.insert(1, format!("asked at  {}", asked.join(payload::BELOW)));
            lines.extend(payload::lines(&config, matched, &wanted, path));
            lines
        }
        None => payload::batch(&router, &path[..path_len])
            .unwrap_or_else(|| unrouted(&config, &router, &path[..path_len])),
    };
    if matched.is_some() {
        lines.push(String::new());
        lines.extend(stored(args, &path[..path_len]));
    }
    print(&lines)
}

fn print(lines: &[String]) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    lines.iter().try_for_each(|line| writeln!(out, "{line}")).map_err(|error| CommandError::Failed(error.to_string()))
}

fn routed(matched: &Matched<'_>, head: Head<'_>, wanted: &Wanted, terms: &PermitsConfig) -> Vec<String> {
    let route = matched.route;
    let records: Vec<_> = matched.records().map(|(record_type, key)| format!("{record_type}:{key}")).collect();
    let request = request_of_caller(head, route);
    let mut lines = vec![
        format!("route     {}", route.path.text),
        format!("records   {}", records.join(", ")),
        "          announcements must name exactly these: recordType before the colon, key after it".to_owned(),
        format!("shared    {}", shared(route)),
    ];
    if payload::is_refused(wanted) {
        return lines;
    }
    let is_own_coding = payload::is_own_coding(matched, wanted);
    let along = request.headers.keys().filter(|name| !is_own_coding || *name != header::ACCEPT_ENCODING);
    let along = Some(names(along)).filter(|along| !along.is_empty());
    lines.push(format!("goes along  {}", along.as_deref().unwrap_or("nothing")));
    let coding = [header::ACCEPT_ENCODING].into_iter().filter(|_| !is_own_coding);
    let may = goes_along(route).chain(coding).map(|name| name.to_string()).collect::<Vec<_>>().join(", ");
    lines.push(format!("            (of these, where a caller sends them: {may})"));
    let accept = if payload::keeps_accept_apart(wanted) { ", Accept" } else { "" };
    let coding = if is_own_coding { "" } else { ", Accept-Encoding" };
    let query = if route.payload.fields.is_some() { "query without its fields" } else { "query" };
    lines.push(format!(
        "kept apart  by path and {query}{accept}{coding}{}: each combination has its own reply",
        keyed(route)
    ));
    let is_made = payload::is_made(matched, wanted);
    lines.extend(headers::lines(route, head.headers, &request.headers, is_made));
    lines.push(format!("kept for  {} once confirmed (ttl)", humantime::format_duration(route.ttl)));
    lines.extend(access::permits(route, terms));
    lines
}

/// Two requests of callers who share a reply may still be of different replies.
const ALIKE: &str = ", where nothing in `kept apart` differs";

fn shared(route: &Route) -> String {
    match &route.identity {
        IdentityMode::Exact(headers) if headers.is_empty() => format!("by all callers{ALIKE}"),
        IdentityMode::Exact(headers) => {
            format!("by callers with the same {} (identity = \"exact\"){ALIKE}", names(headers.iter()))
        }
        IdentityMode::Granted => format!(
            "by all callers whom the regions' grants allow the view (identity = \"granted\"){ALIKE}: each asks once with \
             its own authorization, and again when the grants change or access.recheck is over"
        ),
        IdentityMode::Verified(claims) => format!(
            "by callers whose verified tokens agree in: {claims} (identity = \"verified\"){ALIKE}; regions are asked with \
             a caller's own authorization, once per access.recheck for each such set"
        ),
        IdentityMode::Sidecar(credentials) => format!(
            "by all callers (identity = \"sidecar\"){ALIKE}: their credentials stay here, {} goes in {}",
            credentials.origin(),
            credentials.header
        ),
    }
}

fn keyed(route: &Route) -> String {
    let claims = route.identity.claims().map(|claims| format!(", what the token says of {claims}"));
    let identity = if claims.is_some() { &[] } else { route.identity.keyed() };
    let names = identity.iter().chain(&route.forward).map(|name| format!(", {name}"));
    claims.into_iter().chain(names).collect()
}

fn unrouted(config: &Config, router: &Router, path: &str) -> Vec<String> {
    let mut lines = vec!["no route names it: announcements cannot keep it fresh".to_owned()];
    if router.is_near(path) {
        lines.push(
            "but it is nearly a route's: the letter case, a slash, an escape or its length differs from what the route says"
                .to_owned(),
        );
    }
    lines.push(match config.cache.unrouted {
        Unrouted::Pass => "it is passed on to one region and not stored (cache.unrouted = \"pass\")".to_owned(),
        Unrouted::Cache => "it is stored as RFC 9111 allows (cache.unrouted = \"cache\")".to_owned(),
    });
    lines.push("routes, in order:".to_owned());
    lines.extend(router.routes().map(|route| format!("  {}", route.path.text)));
    lines
}

/// Answer of a running sidecar. This command does not fail if there is none, or if it lets nobody
/// in.
fn stored(args: &ExplainArgs, path: &str) -> Vec<String> {
    match ctl::ask_for(args.reach.clone(), "inspect", &json!({ "path": path })).and_then(|it| ctl::inspected(&it)) {
        Ok(text) => text.lines().map(str::to_owned).collect(),
        Err(CommandError::Usage(why) | CommandError::Failed(why)) => {
            vec![format!("what is stored for it could not be looked at: {why}")]
        }
    }
}
