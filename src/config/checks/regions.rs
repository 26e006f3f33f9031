//! Regions: names, URLs and topics of their own, and none that is the sidecar itself.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use url::Url;

use super::{names_apart, refuse, tls, warn};
use crate::config::error::{ConfigError, ConfigProblem, nearest, quoted};
use crate::config::scope::Collector;
use crate::config::settings as schema;
use crate::config::variables::first_region;
use crate::config::{Config, RegionConfig, Transport, arn, is_loopback};
use crate::protocol::limits::REGIONS;

pub(super) fn check(ledger: &mut Collector, config: &Config) {
    regions(ledger, &config.service.regions, config.listen.tcp);
    topics(ledger, config);
}

/// `own` is where applications reach the sidecar.
fn regions(ledger: &mut Collector, regions: &[RegionConfig], own: Option<SocketAddr>) {
    if regions.is_empty() {
        let place = ledger.root.clone();
        let wrong = ConfigProblem::new("no region to ask", first_region());
        ledger.mistakes.push(ConfigError::new(place, "service.region", wrong));
    }
    if regions.len() > REGIONS {
        let what = format!("{} regions", regions.len());
        let place = ledger.origins.place(&schema::REGION_NAME, Some(REGIONS));
        let wrong = ConfigProblem::new(what, format!("write at most {}", REGIONS));
        ledger.mistakes.push(ConfigError::new(place, "service.region", wrong));
    }
    names_apart(ledger, &schema::REGION_NAME, "region", regions.iter().map(|region| region.name.as_str()));
    let mut urls: BTreeMap<&str, &str> = BTreeMap::new();
    for (at, region) in regions.iter().enumerate() {
        if let Some(other) = urls.insert(region.url.as_str(), &region.name) {
            let what = format!("the same URL as region {}", quoted(other));
            refuse(ledger, &schema::REGION_URL, Some(at), what, "write the URL of this region alone");
        }
        if own.is_some_and(|own| leads_to(&region.url, own)) {
            let what = format!("{} is where this sidecar itself listens: it would ask itself", region.url);
            refuse(ledger, &schema::REGION_URL, Some(at), what, "write where the service is, or another listen.tcp");
        }
        if region.url.scheme() == "http" && !is_loopback(&region.url) {
            let text = format!(
                "region {} is asked over plain http: replies and credentials can be read on the way; write https://",
                region.name
            );
            warn(ledger, &schema::REGION_URL, Some(at), text);
        }
        tls::of_a_plain_region(ledger, region, at);
    }
}

/// Whether a request for `url` arrives at `listener` of this machine.
pub(super) fn leads_to(url: &Url, listener: SocketAddr) -> bool {
    let (port, any) = (url.port_or_known_default(), listener.ip().is_unspecified());
    // Whoever listens on 127.0.0.1 listens there too.
    let is_beside = |address| listener.ip() == Ipv4Addr::LOCALHOST && address == Ipv6Addr::LOCALHOST;
    let is_there = match url.host() {
        Some(url::Host::Ipv4(address)) => address == listener.ip() || any && address.is_loopback(),
        Some(url::Host::Ipv6(address)) => {
            address == listener.ip() || any && address.is_loopback() || is_beside(address)
        }
        Some(url::Host::Domain(_)) => is_loopback(url) && (any || listener.ip().is_loopback()),
        None => false,
    };
    is_there && port == Some(listener.port())
}

fn topics(ledger: &mut Collector, config: &Config) {
    let regions = &config.service.regions;
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for (at, region) in regions.iter().enumerate() {
        let Some(topic) = &region.topic else { continue };
        if let Some(other) = owners.insert(&topic.arn, &region.name) {
            let what = format!("the topic of region {}", quoted(other));
            let instead = "write this region's own topic: the topic tells which region announced";
            refuse(ledger, &schema::REGION_TOPIC, Some(at), what, instead);
        }
        if arn::is_like_aws(&region.name) && region.name != topic.region {
            let text = format!(
                "region {0} has its topic in {1}: what that topic announces counts as {0}'s; write the ARN of the topic on \
                 which {0} announces, unless it is that one",
                region.name, topic.region
            );
            warn(ledger, &schema::REGION_TOPIC, Some(at), text);
        }
    }
    let soft = humantime::format_duration(config.cache.soft_ttl);
    let transport = &schema::ANNOUNCEMENTS_TRANSPORT;
    if config.announcements.transport == Transport::Off {
        if ledger.origins.is_written(transport, None) && !owners.is_empty() {
            warn(
                ledger,
                transport,
                None,
                format!("topics are configured but not listened to: every reply is kept for cache.soft_ttl ({soft})"),
            );
        }
    } else if owners.is_empty() && !regions.is_empty() && !config.service.routes.is_empty() {
        let text = format!(
            "no region has a topic: nothing announces changes, so every reply is kept for cache.soft_ttl ({soft}); \
             write topic = \"arn:aws:sns:..\" for each region"
        );
        warn(ledger, transport, None, text);
    } else if !owners.is_empty() {
        for (at, region) in regions.iter().enumerate().filter(|(_, region)| region.topic.is_none()) {
            if !ledger.is_mistaken(&schema::REGION_TOPIC, Some(at)) {
                warn(
                    ledger,
                    &schema::REGION_NAME,
                    Some(at),
                    format!("region {} has no topic: it announces nothing", region.name),
                );
            }
        }
    }
}

/// The place of the region to ask first; 0 if none is named, or no region has the name.
pub(in crate::config) fn primary(ledger: &mut Collector, regions: &[RegionConfig], name: Option<&str>) -> usize {
    let Some(name) = name else { return 0 };
    if let Some(at) = regions.iter().position(|region| region.name == name) {
        return at;
    }
    let unsure = (0..regions.len()).any(|at| ledger.is_mistaken(&schema::REGION_NAME, Some(at)));
    if !unsure && !regions.is_empty() {
        let known = || regions.iter().map(|region| region.name.as_str());
        let instead = match nearest(name, known()) {
            Some(name) => format!("did you mean \"{name}\"?"),
            None => format!("write one of {}", known().collect::<Vec<_>>().join(", ")),
        };
        refuse(ledger, &schema::RACE_PRIMARY, None, format!("no region is called {}", quoted(name)), &instead);
    }
    0
}
