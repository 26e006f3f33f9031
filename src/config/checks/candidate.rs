//! The candidate of a route: it names the same segments, differs from the current upstream in
//! something, and sends nobody's credentials where they do not belong.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::regions::leads_to;
use crate::config::error::quoted;
use crate::config::schema;
use crate::config::scope::Collector;
use crate::config::settings::{Section, Setting};
use crate::config::{Candidate, MigrationMode, Route, Service, Share, is_loopback};

pub(super) fn check(collector: &mut Collector, service: &Service, own: Option<SocketAddr>) {
    for (at, route) in service.routes.iter().enumerate() {
        forms(collector, route, at);
        credentials(collector, route, at);
        let Some(candidate) = &route.candidate else { continue };
        path(collector, route, candidate, at);
        url(collector, service, own, candidate, at);
        let has_error = [&schema::CANDIDATE_PATH, &schema::CANDIDATE_FORM, &schema::CANDIDATE_URL]
            .iter()
            .any(|setting| collector.has_error(setting, Some(at)));
        let differs = candidate.path.as_ref().is_some_and(|path| *path != route.path)
            || candidate.form.is_some()
            || candidate.url.is_some();
        if !differs && !has_error {
            let what = "the candidate is the current upstream: it has no path, form or url of its own".to_owned();
            collector.refuse(written(collector, at), Some(at), what, "write what differs, or remove `candidate`");
        }
        shares(collector, candidate, at);
        let is_left_alone = candidate.url.is_some() && candidate.credentials.is_none();
        if is_left_alone && route.identity.own().is_some() {
            let text =
                "the other service gets no credentials: the route's own are for its regions; write credentials_file";
            collector.warn_of(&schema::CANDIDATE_URL, Some(at), text.to_owned());
        }
    }
}

/// A setting of a route's candidate whose place is known.
fn written(collector: &Collector, at: usize) -> &'static Setting {
    let mut settings = collector.schema.settings_of(Section::Candidate);
    settings.find(|setting| collector.origins.is_written(setting, Some(at))).unwrap_or(&schema::CANDIDATE_MODE)
}

/// Modes that are chosen and have nothing to do.
fn shares(collector: &mut Collector, candidate: &Candidate, at: usize) {
    let none = Share::of(0.0);
    if candidate.mode == MigrationMode::Check && candidate.check_share == none {
        let text = "nothing is compared: write a larger check_share, or mode = \"old\"";
        collector.warn_of(&schema::CANDIDATE_CHECK_SHARE, Some(at), text.to_owned());
    }
    if candidate.mode == MigrationMode::New && candidate.new_share == none {
        let text = "the current upstream answers for every record: write a larger new_share, or mode = \"old\"";
        collector.warn_of(&schema::CANDIDATE_NEW_SHARE, Some(at), text.to_owned());
    }
}

fn path(collector: &mut Collector, route: &Route, candidate: &Candidate, at: usize) {
    let Some(path) = &candidate.path else { return };
    let [own, routes]: [BTreeSet<&str>; 2] = [path, &route.path].map(|it| it.names().collect());
    if !collector.has_error(&schema::ROUTE_PATH, Some(at)) && own != routes {
        let what = format!("{} does not name what {} names", quoted(&path.text), quoted(&route.path.text));
        collector.refuse(&schema::CANDIDATE_PATH, Some(at), what, "write the same `{named}` segments, in any order");
    }
}

/// `own` is where applications reach the sidecar.
fn url(collector: &mut Collector, service: &Service, own: Option<SocketAddr>, candidate: &Candidate, at: usize) {
    let Some(url) = &candidate.url else { return };
    for region in &service.regions {
        match url.of(&region.name) {
            None => {
                let what = format!("no URL for region {}", quoted(&region.name));
                let suggestion = "write {region} where the region's name can stand";
                collector.refuse(&schema::CANDIDATE_URL, Some(at), what, suggestion);
            }
            Some(url) if own.is_some_and(|own| leads_to(&url, own)) => {
                let what = format!("{url} is where this sidecar itself listens: it would ask itself");
                collector.refuse(&schema::CANDIDATE_URL, Some(at), what, "write where the other service is");
                return;
            }
            Some(url) if url == region.url => {
                let (what, suggestion) =
                    (format!("{url} is the URL of region {} itself", quoted(&region.name)), "leave `url` out");
                if candidate.path.is_none() && candidate.form.is_none() {
                    collector.refuse(&schema::CANDIDATE_URL, Some(at), what, "write where the other service is");
                } else {
                    collector.warn_of(&schema::CANDIDATE_URL, Some(at), format!("{what}: {suggestion}"));
                }
                return;
            }
            Some(url) if url.scheme() == "http" && !is_loopback(&url) => {
                let text = "the candidate is asked over plain http: replies and credentials can be read on the way; \
                            write https://";
                collector.warn_of(&schema::CANDIDATE_URL, Some(at), text.to_owned());
                return;
            }
            Some(_) => {}
        }
    }
}

/// `form` on a route without a schema.
fn forms(collector: &mut Collector, route: &Route, at: usize) {
    for setting in [&schema::ROUTE_FORM, &schema::CANDIDATE_FORM] {
        if route.payload.message.is_none() && collector.origins.is_changed(setting, Some(at)) {
            let what = "it belongs to a route with a `schema`".to_owned();
            collector.refuse(setting, Some(at), what, "write the route's `schema`, or remove this");
        }
    }
}

/// Anybody's reply must not come out of an entry that belongs to one caller.
fn credentials(collector: &mut Collector, route: &Route, at: usize) {
    let setting = &schema::CANDIDATE_CREDENTIALS_FILE;
    if route.identity.own().is_none() && collector.origins.is_changed(setting, Some(at)) {
        let what = "credentials of the sidecar's on a route whose callers send their own".to_owned();
        let suggestion =
            "write identity = \"sidecar\", or remove it: the callers' own headers go to the candidate too";
        collector.refuse(setting, Some(at), what, suggestion);
    }
}
