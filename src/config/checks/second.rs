//! The second way of a route: it names the same segments, differs from the first in something, and
//! sends nobody's credentials where they do not belong.

use std::net::SocketAddr;

use super::regions::leads_to;
use super::{refuse, warn};
use crate::config::error::quoted;
use crate::config::scope::Collector;
use crate::config::settings as schema;
use crate::config::settings::{Section, Setting};
use crate::config::{IdentityMode, Route, SecondWay, Service, Share, Way, is_loopback};

pub(super) fn check(ledger: &mut Collector, service: &Service, own: Option<SocketAddr>) {
    for (at, route) in service.routes.iter().enumerate() {
        let Some(second) = &route.second else { continue };
        path(ledger, route, second, at);
        url(ledger, service, own, second, at);
        let is_mistaken = |ledger: &Collector| {
            [&schema::SECOND_PATH, &schema::SECOND_FORM, &schema::SECOND_URL]
                .iter()
                .any(|setting| ledger.is_mistaken(setting, Some(at)))
        };
        let differs = second.path.as_ref().is_some_and(|path| *path != route.path)
            || second.form.is_some()
            || second.url.is_some();
        if !differs && !is_mistaken(ledger) {
            let what = "the second way is the first: it has no path, form or url of its own".to_owned();
            refuse(ledger, written(ledger, at), Some(at), what, "write what differs, or remove `second`");
        }
        shares(ledger, second, at);
        let is_left_alone = second.url.is_some() && second.credentials.is_none();
        if is_left_alone && matches!(route.identity, IdentityMode::Sidecar(_)) {
            let text =
                "the other service gets no credentials: the route's own are for its regions; write credentials_file";
            warn(ledger, &schema::SECOND_URL, Some(at), text.to_owned());
        }
    }
}

/// A setting of a route's second way whose place is known.
fn written(ledger: &Collector, at: usize) -> &'static Setting {
    let is_written = |setting: &&Setting| ledger.origins.is_written(setting, Some(at));
    schema::of(Section::Second).find(is_written).unwrap_or(&schema::SECOND_WAY)
}

/// Ways that are chosen and lead nowhere.
fn shares(ledger: &mut Collector, second: &SecondWay, at: usize) {
    let none = Share::of(0.0);
    if second.way == Way::Check && second.check_share == none {
        let text = "nothing is compared: write a larger check_share, or way = \"old\"";
        warn(ledger, &schema::SECOND_CHECK_SHARE, Some(at), text.to_owned());
    }
    if second.way == Way::New && second.new_share == none {
        let text = "the first way answers for every record: write a larger new_share, or way = \"old\"";
        warn(ledger, &schema::SECOND_NEW_SHARE, Some(at), text.to_owned());
    }
}

fn path(ledger: &mut Collector, route: &Route, second: &SecondWay, at: usize) {
    let Some(path) = &second.path else { return };
    let sorted = |names: &mut dyn Iterator<Item = &str>| {
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names
    };
    if !ledger.is_mistaken(&schema::ROUTE_PATH, Some(at))
        && sorted(&mut path.names()) != sorted(&mut route.path.names())
    {
        let what = format!("{} does not name what {} names", quoted(&path.text), quoted(&route.path.text));
        refuse(ledger, &schema::SECOND_PATH, Some(at), what, "write the same `{named}` segments, in any order");
    }
}

/// `own` is where applications reach the sidecar.
fn url(ledger: &mut Collector, service: &Service, own: Option<SocketAddr>, second: &SecondWay, at: usize) {
    let Some(url) = &second.url else { return };
    for region in &service.regions {
        match url.of(&region.name) {
            None => {
                let what = format!("no URL for region {}", quoted(&region.name));
                let instead = "write {region} where the region's name can stand";
                refuse(ledger, &schema::SECOND_URL, Some(at), what, instead);
            }
            Some(url) if own.is_some_and(|own| leads_to(&url, own)) => {
                let what = format!("{url} is where this sidecar itself listens: it would ask itself");
                refuse(ledger, &schema::SECOND_URL, Some(at), what, "write where the other service is");
                return;
            }
            Some(url) if url == region.url => {
                let (what, instead) =
                    (format!("{url} is the URL of region {} itself", quoted(&region.name)), "leave `url` out");
                match second.path.is_none() && second.form.is_none() {
                    true => refuse(ledger, &schema::SECOND_URL, Some(at), what, "write where the other service is"),
                    false => warn(ledger, &schema::SECOND_URL, Some(at), format!("{what}: {instead}")),
                }
                return;
            }
            Some(url) if url.scheme() == "http" && !is_loopback(&url) => {
                let text = "the second way is asked over plain http: replies and credentials can be read on the way; \
                            write https://";
                warn(ledger, &schema::SECOND_URL, Some(at), text.to_owned());
                return;
            }
            Some(_) => {}
        }
    }
}

/// `form` of the second way on a route without a schema.
pub(in crate::config) fn form_without_schema(ledger: &mut Collector, item: Option<usize>) {
    let what = "it belongs to a route with a `schema`".to_owned();
    refuse(ledger, &schema::SECOND_FORM, item, what, "write the route's `schema`, or remove this");
}

/// Anybody's reply must not come out of an entry that belongs to one caller.
pub(in crate::config) fn credentials_for_all(ledger: &mut Collector, item: Option<usize>) {
    let what = "credentials of the sidecar's on a route whose callers send their own".to_owned();
    let instead = "write identity = \"sidecar\", or remove it: the callers' own headers go to the second way too";
    refuse(ledger, &schema::SECOND_CREDENTIALS_FILE, item, what, instead);
}
