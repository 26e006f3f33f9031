//! Regions: names, URLs and topics of their own, and none that is the sidecar itself.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use url::Url;

use super::names::refuse_clashing_names;
use super::tls;
use crate::config::error::{ConfigError, ConfigProblem, nearest, quoted};
use crate::config::schema;
use crate::config::scope::Collector;
use crate::config::variables::first_region;
use crate::config::{Config, RegionConfig, Transport, arn, is_loopback};
use crate::protocol::limits::REGIONS;

pub(super) fn check(collector: &mut Collector, config: &Config) {
    regions(collector, &config.service.regions, config.listen.tcp);
    topics(collector, config);
    primary(collector, &config.service.regions);
}

/// `own` is where applications reach the sidecar.
fn regions(collector: &mut Collector, regions: &[RegionConfig], own: Option<SocketAddr>) {
    if regions.is_empty() {
        let place = collector.root.clone();
        let wrong = ConfigProblem::new("no region to ask", first_region());
        collector.errors.push(ConfigError::new(place, "service.region", wrong));
    }
    if regions.len() > REGIONS {
        let what = format!("{} regions", regions.len());
        let place = collector.origins.place(&schema::REGION_NAME, Some(REGIONS));
        let wrong = ConfigProblem::new(what, format!("write at most {}", REGIONS));
        collector.errors.push(ConfigError::new(place, "service.region", wrong));
    }
    refuse_clashing_names(
        collector,
        &schema::REGION_NAME,
        "region",
        regions.iter().map(|region| region.name.as_str()),
    );
    let mut urls: BTreeMap<&str, &str> = BTreeMap::new();
    for (at, region) in regions.iter().enumerate() {
        if let Some(other) = urls.insert(region.url.as_str(), &region.name) {
            let what = format!("the same URL as region {}", quoted(other));
            collector.refuse(&schema::REGION_URL, Some(at), what, "write the URL of this region alone");
        }
        if own.is_some_and(|own| leads_to(&region.url, own)) {
            let what = format!("{} is where this sidecar itself listens: it would ask itself", region.url);
            collector.refuse(
                &schema::REGION_URL,
                Some(at),
                what,
                "write where the service is, or another listen.tcp",
            );
        }
        if region.url.scheme() == "http" && !is_loopback(&region.url) {
            let text = format!(
                "region {} is asked over plain http: replies and credentials can be read on the way; write https://",
                region.name
            );
            collector.warn_of(&schema::REGION_URL, Some(at), text);
        }
        tls::client_certificate(collector, at);
        tls::of_a_plain_region(collector, region, at);
    }
}

/// Returns whether a request for `url` arrives at `listener` of this machine.
pub(super) fn leads_to(url: &Url, listener: SocketAddr) -> bool {
    let (port, any) = (url.port_or_known_default(), listener.ip().is_unspecified());
    let is_there = match url.host() {
        Some(url::Host::Ipv4(address)) => address == listener.ip() || any && address.is_loopback(),
        Some(url::Host::Ipv6(address)) => {
            // A listener on 127.0.0.1 has that of ::1 too.
            let is_beside = listener.ip() == Ipv4Addr::LOCALHOST && address == Ipv6Addr::LOCALHOST;
            address == listener.ip() || any && address.is_loopback() || is_beside
        }
        Some(url::Host::Domain(_)) => is_loopback(url) && (any || listener.ip().is_loopback()),
        None => false,
    };
    is_there && port == Some(listener.port())
}

fn topics(collector: &mut Collector, config: &Config) {
    let regions = &config.service.regions;
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for (at, region) in regions.iter().enumerate() {
        let Some(topic) = &region.topic else { continue };
        if let Some(other) = owners.insert(&topic.arn, &region.name) {
            let what = format!("the topic of region {}", quoted(other));
            let suggestion = "write this region's own topic: the topic tells which region announced";
            collector.refuse(&schema::REGION_TOPIC, Some(at), what, suggestion);
        }
        if arn::is_like_aws(&region.name) && region.name != topic.region {
            let text = format!(
                "region {0} has its topic in {1}: what that topic announces counts as {0}'s; write the ARN of the topic on \
                 which {0} announces, unless it is that one",
                region.name, topic.region
            );
            collector.warn_of(&schema::REGION_TOPIC, Some(at), text);
        }
    }
    let soft = humantime::format_duration(config.cache.soft_ttl);
    let transport = &schema::ANNOUNCEMENTS_TRANSPORT;
    if config.announcements.transport == Transport::Off {
        if collector.origins.is_written(transport, None) && !owners.is_empty() {
            collector.warn_of(
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
        collector.warn_of(transport, None, text);
    } else if !owners.is_empty() {
        for (at, region) in regions.iter().enumerate().filter(|(_, region)| region.topic.is_none()) {
            if !collector.has_error(&schema::REGION_TOPIC, Some(at)) {
                collector.warn_of(
                    &schema::REGION_NAME,
                    Some(at),
                    format!("region {} has no topic: it announces nothing", region.name),
                );
            }
        }
    }
}

/// The region to ask first is one of them.
fn primary(collector: &mut Collector, regions: &[RegionConfig]) {
    let setting = &schema::RACE_PRIMARY;
    let Some(name) = collector.origins.text(setting, None).map(str::to_owned) else { return };
    let is_known = name.is_empty() || regions.iter().any(|region| region.name == name);
    let is_unsure = (0..regions.len()).any(|at| collector.has_error(&schema::REGION_NAME, Some(at)));
    if is_known || is_unsure || regions.is_empty() {
        return;
    }
    let known: Vec<_> = regions.iter().map(|region| region.name.as_str()).collect();
    let suggestion = match nearest(&name, known.iter().copied()) {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => format!("write one of {}", known.join(", ")),
    };
    collector.refuse(setting, None, format!("no region is called {}", quoted(&name)), &suggestion);
}
