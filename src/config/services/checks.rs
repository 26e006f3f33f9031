//! The rules between the services' settings.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::super::arn::is_like_aws;
use super::super::checks::{clash, names_apart, refuse, stop_timeout, warn};
use super::super::scope::Collector;
use super::super::settings::{Section, Setting, services as schema};
use super::{EngineConfig, ServiceRole, ServicesConfig};
use crate::config::error::{ConfigError, ConfigProblem, Place, quoted};
use crate::config::limits;

/// Notes every mistake and warning that shows only when settings are seen together.
pub(super) fn check(ledger: &mut Collector, config: &ServicesConfig, role: ServiceRole) {
    engine(ledger, config, role);
    let types = &config.catalogue.types;
    names_apart(ledger, &schema::TYPE_NAME, "type", types.iter().map(|known| known.name.as_str()));
    names_apart(ledger, &schema::SERVED_NAME, "region", config.regions.iter().map(|region| region.name.as_str()));
    at_most(ledger, Section::RecordType, &schema::TYPE_NAME, types.len(), limits::RECORD_TYPES);
    at_most(ledger, Section::ServedRegion, &schema::SERVED_NAME, config.regions.len(), limits::SERVED_REGIONS);
    topics(ledger, config);
    ports(ledger, config);
    needs_of(ledger, config, role);
    stop_timeout(ledger, config.drain);
}

/// What one role cannot do without.
fn needs_of(ledger: &mut Collector, config: &ServicesConfig, role: ServiceRole) {
    match role {
        ServiceRole::Catalogue if config.catalogue.types.is_empty() => {
            let place = ledger.root.clone();
            let wrong = ConfigProblem::new("no type of records", "write [[catalogue.type]] with a name");
            ledger.mistakes.push(ConfigError::new(place, "catalogue.type", wrong));
        }
        ServiceRole::Views if config.views.file.is_none() => {
            needed(ledger, &schema::VIEWS_FILE, "`nearside views`", "views.toml");
        }
        ServiceRole::Region if config.regions.is_empty() => {
            let place = ledger.root.clone();
            let wrong = ConfigProblem::new("no region", "write [[region]] with a name");
            ledger.mistakes.push(ConfigError::new(place, "region", wrong));
        }
        _ => {}
    }
}

fn engine(ledger: &mut Collector, config: &ServicesConfig, role: ServiceRole) {
    let of_others: &[&Setting] = match &config.engine {
        EngineConfig::Memory if ledger.is_mistaken(&schema::ENGINE_KIND, None) => &[],
        EngineConfig::Memory => {
            if matches!(role, ServiceRole::Views | ServiceRole::Region) {
                let text = "with the memory engine this process sees nothing that another one writes";
                warn(ledger, &schema::ENGINE_KIND, None, text.to_owned());
            }
            &[&schema::ENGINE_DIRECTORY, &schema::ENGINE_REGION, &schema::ENGINE_PREFIX]
        }
        EngineConfig::Embedded { .. } => &[&schema::ENGINE_REGION, &schema::ENGINE_PREFIX],
        EngineConfig::Aws { region, .. } => {
            aws_region(ledger, &schema::ENGINE_REGION, None, region);
            for (at, region) in config.regions.iter().enumerate() {
                aws_region(ledger, &schema::SERVED_NAME, Some(at), &region.name);
            }
            &[&schema::ENGINE_DIRECTORY]
        }
    };
    for setting in of_others.iter().filter(|setting| ledger.origins.is_changed(setting, None)).collect::<Vec<_>>() {
        let text = format!("{} has no effect with kind = \"{}\"", setting.path(), config.engine.word());
        warn(ledger, setting, None, text);
    }
}

/// Its tables lie in the AWS region of this name.
fn aws_region(ledger: &mut Collector, setting: &'static Setting, item: Option<usize>, name: &str) {
    if !is_like_aws(name) && !ledger.is_mistaken(setting, item) {
        let what = format!("{} is not a region of AWS, and the aws engine keeps tables there", quoted(name));
        refuse(ledger, setting, item, what, "write a region such as \"eu-west-1\"");
    }
}

fn topics(ledger: &mut Collector, config: &ServicesConfig) {
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for (at, region) in config.regions.iter().enumerate() {
        let Some(topic) = &region.topic else {
            if matches!(config.engine, EngineConfig::Aws { .. }) {
                let place = ledger.origins.place(&schema::SERVED_NAME, Some(at));
                let what = "missing, and the aws engine needs it";
                let instead = "write topic = \"arn:aws:sns:REGION:ACCOUNT:NAME\"";
                ledger.mistake(&schema::SERVED_TOPIC, Some(at), place, ConfigProblem::new(what, instead));
            }
            continue;
        };
        if let Some(other) = owners.insert(&topic.arn, &region.name) {
            let what = format!("the topic of region {}", quoted(other));
            let instead = "write this region's own topic: the topic tells which region announced";
            refuse(ledger, &schema::SERVED_TOPIC, Some(at), what, instead);
        }
        if is_like_aws(&region.name) && region.name != topic.region {
            let text = format!("region {} has its topic in {}: it is announced from afar", region.name, topic.region);
            warn(ledger, &schema::SERVED_TOPIC, Some(at), text);
        }
    }
}

/// Two addresses of one process. Those of different ones may be on different machines.
fn ports(ledger: &mut Collector, config: &ServicesConfig) {
    let catalogue = &config.catalogue;
    one_port(
        ledger,
        None,
        (&schema::CATALOGUE_LISTEN, catalogue.listen),
        (&schema::CATALOGUE_ADMIN, catalogue.admin),
    );
    for (at, region) in config.regions.iter().enumerate() {
        let (listen, admin) = ((&schema::SERVED_LISTEN, region.listen), (&schema::SERVED_ADMIN, region.admin));
        one_port(ledger, Some(at), listen, admin);
    }
}

fn one_port(
    ledger: &mut Collector,
    item: Option<usize>,
    listen: (&'static Setting, SocketAddr),
    admin: (&'static Setting, SocketAddr),
) {
    if clash(listen.1, admin.1) {
        // Where somebody wrote it: the other one may be the default.
        let is_written = ledger.origins.place(admin.0, item) != Place::Default;
        let (wrong, other) = if is_written { (admin.0, listen.0) } else { (listen.0, admin.0) };
        let what = format!("port {} is {}'s already", admin.1.port(), other.path());
        refuse(ledger, wrong, item, what, "write another port");
    }
}

fn at_most(ledger: &mut Collector, section: Section, name: &Setting, count: usize, most: usize) {
    if count > most {
        let place = ledger.origins.place(name, Some(most));
        let wrong = ConfigProblem::new(format!("{count} of {}", section.heading()), format!("write at most {most}"));
        ledger.mistakes.push(ConfigError::new(place, section.path(), wrong));
    }
}

/// Notes that `setting` is missing, which `what` needs.
pub(super) fn needed(ledger: &mut Collector, setting: &'static Setting, what: &str, example: &str) {
    let place = match setting.section {
        Section::Engine => ledger.origins.place(&schema::ENGINE_KIND, None),
        _ => ledger.root.clone(),
    };
    let place = if place == Place::Default { ledger.root.clone() } else { place };
    let instead = format!("write {} = \"{example}\" in {}", setting.key, setting.section.heading());
    ledger.mistake(setting, None, place, ConfigProblem::new(format!("missing, and {what} needs it"), instead));
}

/// Refuses an address that other machines can reach: the services do not know yet who asks.
pub(super) fn refuse_non_loopback(
    ledger: &mut Collector,
    setting: &'static Setting,
    item: Option<usize>,
    address: SocketAddr,
) {
    let what = format!(
        "other machines could reach {}, and the services do not check yet who asks",
        quoted(&address.to_string())
    );
    refuse(ledger, setting, item, what, &format!("write 127.0.0.1:{}", address.port()));
}
