//! The rules between the services' settings.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::super::arn::is_like_aws;
use super::super::checks::tls::pair;
use super::super::checks::{clash, issuers, refuse_clashing_names, stop_timeout};
use super::super::scope::Collector;
use super::super::settings::{Section, Setting};
use super::access::{
    ACCESS_CATALOGUE_AUDIENCE, ACCESS_MODE, ACCESS_OPERATE_AUDIENCE, ACCESS_REGION_AUDIENCE, ADMIN_DNS, ADMIN_ISS,
    ADMIN_SPIFFE, AccessMode, AdminIdentity,
};
use super::config::{self as schema, EngineConfig, ServicesConfig};
use super::role::ServiceRole;
use super::tls::{
    CATALOGUE_TLS_CERTIFICATE, CATALOGUE_TLS_CLIENT_CA, CATALOGUE_TLS_KEY, SERVED_TLS_CERTIFICATE,
    SERVED_TLS_CLIENT_CA, SERVED_TLS_KEY, VIEWS_TLS_CERTIFICATE, VIEWS_TLS_KEY,
};
use crate::config::error::{ConfigError, ConfigProblem, Place, quoted};
use crate::config::limits;

/// Notes every error and warning that shows only when settings are seen together.
pub(super) fn check(collector: &mut Collector, config: &ServicesConfig, role: ServiceRole) {
    engine(collector, config, role);
    reachable(collector, config);
    certificates(collector, config);
    let types = &config.catalogue.types;
    refuse_clashing_names(collector, &schema::TYPE_NAME, "type", types.iter().map(|known| known.name.as_str()));
    refuse_clashing_names(
        collector,
        &schema::SERVED_NAME,
        "region",
        config.regions.iter().map(|region| region.name.as_str()),
    );
    collector.at_most(Section::RecordType, &schema::TYPE_NAME, types.len(), limits::RECORD_TYPES);
    collector.at_most(Section::ServedRegion, &schema::SERVED_NAME, config.regions.len(), limits::SERVED_REGIONS);
    topics(collector, config);
    ports(collector, config);
    callers(collector, config, role);
    operators(collector, config);
    needs_of(collector, config, role);
    stop_timeout(collector, config.drain);
}

/// Requires what one role cannot do without.
fn needs_of(collector: &mut Collector, config: &ServicesConfig, role: ServiceRole) {
    match role {
        ServiceRole::Catalogue if config.catalogue.types.is_empty() => {
            let place = collector.root.clone();
            let wrong = ConfigProblem::new("no type of records", "write [[catalogue.type]] with a name");
            collector.errors.push(ConfigError::new(place, "catalogue.type", wrong));
        }
        ServiceRole::Views if config.views.file.is_none() => {
            needed(collector, &schema::VIEWS_FILE, "`nearside views`", "views.toml");
        }
        ServiceRole::Region if config.regions.is_empty() => {
            let place = collector.root.clone();
            let wrong = ConfigProblem::new("no region", "write [[region]] with a name");
            collector.errors.push(ConfigError::new(place, "region", wrong));
        }
        _ => {}
    }
}

fn engine(collector: &mut Collector, config: &ServicesConfig, role: ServiceRole) {
    let of_others: &[&Setting] = match &config.engine {
        EngineConfig::Memory if collector.has_error(&schema::ENGINE_KIND, None) => &[],
        EngineConfig::Memory => {
            if matches!(role, ServiceRole::Views | ServiceRole::Region) {
                let text = "with the memory engine this process sees nothing that another one writes";
                collector.warn_of(&schema::ENGINE_KIND, None, text.to_owned());
            }
            &[&schema::ENGINE_DIRECTORY, &schema::ENGINE_REGION, &schema::ENGINE_PREFIX]
        }
        EngineConfig::Embedded { directory } => {
            if directory.as_os_str().is_empty() {
                needed(collector, &schema::ENGINE_DIRECTORY, "kind = \"embedded\"", "/var/lib/nearside");
            }
            &[&schema::ENGINE_REGION, &schema::ENGINE_PREFIX]
        }
        EngineConfig::Aws { region, .. } => {
            if region.is_empty() {
                needed(collector, &schema::ENGINE_REGION, "kind = \"aws\"", "eu-west-1");
            }
            aws_region(collector, &schema::ENGINE_REGION, None, region);
            for (at, region) in config.regions.iter().enumerate() {
                aws_region(collector, &schema::SERVED_NAME, Some(at), &region.name);
            }
            &[&schema::ENGINE_DIRECTORY]
        }
    };
    for setting in of_others.iter().filter(|setting| collector.origins.is_changed(setting, None)).collect::<Vec<_>>()
    {
        let text = format!("{} has no effect with kind = \"{}\"", setting.path(), config.engine.word());
        collector.warn_of(setting, None, text);
    }
}

/// Its tables lie in the AWS region of this name.
fn aws_region(collector: &mut Collector, setting: &'static Setting, item: Option<usize>, name: &str) {
    if !is_like_aws(name) && !collector.has_error(setting, item) {
        let what = format!("{} is not a region of AWS, and the aws engine keeps tables there", quoted(name));
        collector.refuse(setting, item, what, "write a region such as \"eu-west-1\"");
    }
}

fn topics(collector: &mut Collector, config: &ServicesConfig) {
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for (at, region) in config.regions.iter().enumerate() {
        let Some(topic) = &region.topic else {
            if matches!(config.engine, EngineConfig::Aws { .. }) {
                let place = collector.origins.place(&schema::SERVED_NAME, Some(at));
                let what = "missing, and the aws engine needs it";
                let suggestion = "write topic = \"arn:aws:sns:REGION:ACCOUNT:NAME\"";
                collector.error(&schema::SERVED_TOPIC, Some(at), place, ConfigProblem::new(what, suggestion));
            }
            continue;
        };
        if let Some(other) = owners.insert(&topic.arn, &region.name) {
            let what = format!("the topic of region {}", quoted(other));
            let suggestion = "write this region's own topic: the topic tells which region announced";
            collector.refuse(&schema::SERVED_TOPIC, Some(at), what, suggestion);
        }
        if is_like_aws(&region.name) && region.name != topic.region {
            let text = format!("region {} has its topic in {}: it is announced from afar", region.name, topic.region);
            collector.warn_of(&schema::SERVED_TOPIC, Some(at), text);
        }
    }
}

/// Two addresses of one process. Those of different ones may be on different machines.
fn ports(collector: &mut Collector, config: &ServicesConfig) {
    let catalogue = &config.catalogue;
    let listen = Listener { setting: &schema::CATALOGUE_LISTEN, address: catalogue.listen };
    let admin = Listener { setting: &schema::CATALOGUE_ADMIN, address: catalogue.admin };
    one_port(collector, None, listen, admin);
    for (at, region) in config.regions.iter().enumerate() {
        let listen = Listener { setting: &schema::SERVED_LISTEN, address: region.listen };
        let admin = Listener { setting: &schema::SERVED_ADMIN, address: region.admin };
        one_port(collector, Some(at), listen, admin);
    }
}

/// An address, and the setting that says it.
struct Listener {
    setting: &'static Setting,
    address: SocketAddr,
}

fn one_port(collector: &mut Collector, item: Option<usize>, listen: Listener, admin: Listener) {
    let is_refused = collector.has_error(listen.setting, item) || collector.has_error(admin.setting, item);
    if !is_refused && clash(listen.address, admin.address) {
        // Where somebody wrote it: the other one may be the default.
        let is_written = collector.origins.place(admin.setting, item) != Place::Default;
        let (wrong, other) =
            if is_written { (admin.setting, listen.setting) } else { (listen.setting, admin.setting) };
        let what = format!("port {} is {}'s already", admin.address.port(), other.path());
        collector.refuse(wrong, item, what, "write another port");
    }
}

/// Checks that it can be known who asks.
fn callers(collector: &mut Collector, config: &ServicesConfig, role: ServiceRole) {
    let access = &config.access;
    issuers::check(collector, &access.issuers);
    collector.at_most(Section::GrantsAdmin, &ADMIN_ISS, access.admins.len(), limits::GRANTS_ADMINS);
    if access.mode == AccessMode::Off {
        return;
    }
    // The views service has no callers but operators from elsewhere.
    let (views, has_operators) = (&config.views, !access.operate_audience.is_empty());
    let has_callers =
        role != ServiceRole::Views || !views.admin.ip().is_loopback() || (views.behind_proxy && has_operators);
    if access.issuers.is_empty() && has_callers {
        let place = collector.origins.place(&ACCESS_MODE, None);
        let wrong = ConfigProblem::new("no issuer whose tokens are believed", "write [[access.issuer]]");
        collector.errors.push(ConfigError::new(place, "access.issuer", wrong));
    }
    // Both in each file: a token that names two of our audiences is refused everywhere.
    for (setting, audience, example) in [
        (&ACCESS_CATALOGUE_AUDIENCE, &access.catalogue_audience, "https://catalogue.example"),
        (&ACCESS_REGION_AUDIENCE, &access.region_audience, "https://regions.example"),
    ] {
        if audience.is_empty() {
            needed(collector, setting, "access.mode", example);
        }
    }
    let operate = &access.operate_audience;
    if !operate.is_empty() && [&access.catalogue_audience, &access.region_audience].contains(&operate) {
        let what = "an audience that callers' tokens have: each of them would be an operator's".to_owned();
        collector.refuse(&ACCESS_OPERATE_AUDIENCE, None, what, "write an audience of the admin ports' own");
    }
    if access.catalogue_audience == access.region_audience && !access.region_audience.is_empty() {
        let what = "the catalogue's audience: a region that was taken over could write with its callers' tokens";
        collector.refuse(&ACCESS_REGION_AUDIENCE, None, what.to_owned(), "write an audience of the regions' own");
    }
    admins(collector, config, role);
}

/// Checks that each admin can prove who it is, and that one issuer's failure locks nobody out.
fn admins(collector: &mut Collector, config: &ServicesConfig, role: ServiceRole) {
    let (access, is_catalogue) = (&config.access, role == ServiceRole::Catalogue);
    let takes_certificates = config.catalogue.tls.server.as_ref().is_some_and(|server| server.client_ca.is_some());
    let mut issuers = BTreeSet::new();
    for (at, admin) in access.admins.iter().enumerate() {
        match &admin.who {
            _ if [&ADMIN_ISS, &ADMIN_SPIFFE, &ADMIN_DNS].iter().any(|it| collector.has_error(it, Some(at))) => {
                issuers.insert(None);
            }
            AdminIdentity::Token { iss, .. } => {
                issuers.insert(Some(iss.as_str()));
                if access.issuers.iter().all(|issuer| issuer.iss != *iss) {
                    let what = "no [[access.issuer]] has this iss, so this admin can prove nothing".to_owned();
                    collector.refuse(&ADMIN_ISS, Some(at), what, "write the iss of an issuer, byte for byte");
                }
            }
            AdminIdentity::Spiffe(_) | AdminIdentity::Dns(_) => {
                issuers.insert(None);
                if is_catalogue && !takes_certificates {
                    let setting =
                        if matches!(admin.who, AdminIdentity::Spiffe(_)) { &ADMIN_SPIFFE } else { &ADMIN_DNS };
                    let what = "the catalogue asks nobody for a certificate, so this admin can prove nothing";
                    let suggestion = "name the CA of its certificate in catalogue.tls.client_ca";
                    collector.refuse(setting, Some(at), what.to_owned(), suggestion);
                }
            }
        }
    }
    if let ([Some(iss)], true) = (Vec::from_iter(issuers).as_slice(), is_catalogue) {
        let text = format!(
            "all admins depend on the issuer {}: while it fails, nobody can change the grants; add one by certificate \
             (spiffe or dns)",
            quoted(iss)
        );
        collector.warn_of(&ADMIN_ISS, Some(0), text);
    }
}

/// Requires an audience where other machines reach the admin ports and callers are checked.
fn operators(collector: &mut Collector, config: &ServicesConfig) {
    let of_regions = config.regions.iter().map(|region| region.admin);
    let mut admin_ports = [config.catalogue.admin, config.views.admin].into_iter().chain(of_regions);
    let is_reached = admin_ports.any(|address| !address.ip().is_loopback());
    if is_reached && config.access.mode != AccessMode::Off && config.access.operate_audience.is_empty() {
        needed(collector, &ACCESS_OPERATE_AUDIENCE, "an admin port beyond loopback", "https://operators.example");
    }
}

/// Notes that `setting` is missing, which `what` needs.
fn needed(collector: &mut Collector, setting: &'static Setting, what: &str, example: &str) {
    let place = match setting.section {
        Section::Engine => collector.origins.place(&schema::ENGINE_KIND, None),
        _ => collector.root.clone(),
    };
    let place = if place == Place::Default { collector.root.clone() } else { place };
    let suggestion = format!("write {} = \"{example}\" in {}", setting.key, setting.section.heading());
    collector.error(setting, None, place, ConfigProblem::new(format!("missing, and {what} needs it"), suggestion));
}

/// Refuses addresses that other machines can reach, unless tokens are checked there and travel in TLS,
/// or a proxy sees to both. Operators' tokens have an audience of their own ([`operators`]).
fn reachable(collector: &mut Collector, config: &ServicesConfig) {
    let (catalogue, views) = (&config.catalogue, &config.views);
    let enforces = config.access.mode == AccessMode::Enforce;
    let of_catalogue = (catalogue.tls.server.is_some() && enforces) || catalogue.behind_proxy;
    reached(collector, &schema::CATALOGUE_LISTEN, None, catalogue.listen, of_catalogue);
    reached(collector, &schema::CATALOGUE_ADMIN, None, catalogue.admin, of_catalogue);
    let of_views = (views.tls.server.is_some() && enforces) || views.behind_proxy;
    reached(collector, &schema::VIEWS_ADMIN, None, views.admin, of_views);
    for (at, region) in config.regions.iter().enumerate() {
        let of_region = (region.tls.server.is_some() && enforces) || region.behind_proxy;
        reached(collector, &schema::SERVED_LISTEN, Some(at), region.listen, of_region);
        reached(collector, &schema::SERVED_ADMIN, Some(at), region.admin, of_region);
    }
}

fn reached(
    collector: &mut Collector,
    setting: &'static Setting,
    item: Option<usize>,
    address: SocketAddr,
    is_guarded: bool,
) {
    if !address.ip().is_loopback() && !is_guarded {
        let shown = quoted(&address.to_string());
        let what = format!("other machines could reach {shown}, without TLS or without proving who they are");
        let section = setting.section.path();
        let suggestion = format!(
            "write a certificate and key in {section}.tls and access.mode = \"enforce\", or {section}.behind_proxy = \
             true if a proxy of yours does both, or 127.0.0.1:{}",
            address.port()
        );
        collector.refuse(setting, item, what, &suggestion);
    }
}

/// A certificate and its key go together.
fn certificates(collector: &mut Collector, config: &ServicesConfig) {
    pair(collector, None, [&CATALOGUE_TLS_CERTIFICATE, &CATALOGUE_TLS_KEY]);
    client_ca(collector, config, None, [&CATALOGUE_TLS_CERTIFICATE, &CATALOGUE_TLS_CLIENT_CA]);
    pair(collector, None, [&VIEWS_TLS_CERTIFICATE, &VIEWS_TLS_KEY]);
    for at in 0..config.regions.len() {
        pair(collector, Some(at), [&SERVED_TLS_CERTIFICATE, &SERVED_TLS_KEY]);
        client_ca(collector, config, Some(at), [&SERVED_TLS_CERTIFICATE, &SERVED_TLS_CLIENT_CA]);
    }
}

/// Callers are asked for a certificate over TLS alone, and what it says matters where they are checked.
fn client_ca(
    collector: &mut Collector,
    config: &ServicesConfig,
    item: Option<usize>,
    [certificate, authorities]: [&'static Setting; 2],
) {
    if !collector.origins.is_changed(authorities, item) {
        return;
    }
    if !collector.origins.is_changed(certificate, item) {
        let what = format!("no {} beside it", certificate.key);
        collector.refuse(authorities, item, what, "write the service's own certificate and key too");
    } else if config.access.mode == AccessMode::Off {
        let text = format!("{} has no effect with access.mode = \"off\"", authorities.path());
        collector.warn_of(authorities, item, text);
    }
}
