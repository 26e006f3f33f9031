//! Reads the sections of the services' file.

use std::net::{Ipv4Addr, SocketAddr};

use super::super::read::{drain, log, usize_of};
use super::super::scope::{Collector, SettingScope};
use super::super::settings::{Section, Setting, services as schema};
use super::super::tree::TomlTable;
use super::super::value;
use super::{CatalogueConfig, EngineConfig, RecordTypeConfig, ServedRegion, ServicesConfig, ViewsConfig, checks};

pub(super) fn config(ledger: &mut Collector, root: &TomlTable) -> ServicesConfig {
    ServicesConfig {
        engine: engine(ledger, root),
        catalogue: catalogue(ledger, root),
        views: views(ledger, root),
        regions: regions(ledger, root),
        drain: drain(ledger, root),
        log: log(ledger, root),
    }
}

fn engine(ledger: &mut Collector, root: &TomlTable) -> EngineConfig {
    let scope = ledger.table(root, Section::Engine, "engine");
    // Where the kind is wrong, nothing is missing that another kind would need.
    let kind = scope.required(ledger, &schema::ENGINE_KIND, value::word, || 1);
    let directory = scope.optional(ledger, &schema::ENGINE_DIRECTORY, value::file);
    let region = scope.optional(ledger, &schema::ENGINE_REGION, value::region_name);
    let prefix = scope.given(ledger, &schema::ENGINE_PREFIX, value::name);
    let endpoint_url = scope.optional(ledger, &schema::ENGINE_ENDPOINT_URL, value::url);
    match kind {
        0 => {
            let directory = directory.unwrap_or_else(|| {
                checks::needed(ledger, &schema::ENGINE_DIRECTORY, "kind = \"embedded\"", "/var/lib/nearside");
                std::path::PathBuf::new()
            });
            EngineConfig::Embedded { directory }
        }
        2 => {
            let region = region.unwrap_or_else(|| {
                checks::needed(ledger, &schema::ENGINE_REGION, "kind = \"aws\"", "eu-west-1");
                String::new()
            });
            EngineConfig::Aws { region, prefix, endpoint_url }
        }
        _ => EngineConfig::Memory,
    }
}

fn catalogue(ledger: &mut Collector, root: &TomlTable) -> CatalogueConfig {
    let scope = ledger.table(root, Section::Catalogue, "catalogue");
    let types = ledger.items(&scope.table, Section::RecordType);
    CatalogueConfig {
        listen: address(ledger, &scope, &schema::CATALOGUE_LISTEN),
        admin: address(ledger, &scope, &schema::CATALOGUE_ADMIN),
        allowed_hosts: scope.given(ledger, &schema::CATALOGUE_ALLOWED_HOSTS, value::hosts),
        max_connections: usize_of(scope.given(ledger, &schema::CATALOGUE_MAX_CONNECTIONS, value::count)),
        types: types.iter().enumerate().map(|(at, scope)| record_type(ledger, scope, at)).collect(),
    }
}

fn record_type(ledger: &mut Collector, scope: &SettingScope, at: usize) -> RecordTypeConfig {
    RecordTypeConfig {
        name: scope.required(ledger, &schema::TYPE_NAME, value::name, || format!("type-{at}")),
        schema: scope.optional(ledger, &schema::TYPE_SCHEMA, value::file),
    }
}

fn views(ledger: &mut Collector, root: &TomlTable) -> ViewsConfig {
    let scope = ledger.table(root, Section::Views, "views");
    ViewsConfig {
        admin: address(ledger, &scope, &schema::VIEWS_ADMIN),
        allowed_hosts: scope.given(ledger, &schema::VIEWS_ALLOWED_HOSTS, value::hosts),
        file: scope.optional(ledger, &schema::VIEWS_FILE, value::file),
        rate: scope.given(ledger, &schema::VIEWS_RATE, value::count),
        sweep: scope.given(ledger, &schema::VIEWS_SWEEP, value::duration),
    }
}

fn regions(ledger: &mut Collector, root: &TomlTable) -> Vec<ServedRegion> {
    let scopes = ledger.items(root, Section::ServedRegion);
    let region = |(at, scope): (usize, &SettingScope)| ServedRegion {
        name: scope.required(ledger, &schema::SERVED_NAME, value::region_name, || format!("region-{at}")),
        topic: scope.optional(ledger, &schema::SERVED_TOPIC, value::topic),
        listen: address(ledger, scope, &schema::SERVED_LISTEN),
        admin: address(ledger, scope, &schema::SERVED_ADMIN),
        allowed_hosts: scope.given(ledger, &schema::SERVED_ALLOWED_HOSTS, value::hosts),
        views: scope.given(ledger, &schema::SERVED_VIEWS, value::names),
        compresses: scope.given(ledger, &schema::SERVED_COMPRESSION, value::word) == 1,
    };
    scopes.iter().enumerate().map(region).collect()
}

/// An address of this machine alone.
fn address(ledger: &mut Collector, scope: &SettingScope, setting: &'static Setting) -> SocketAddr {
    let address = scope.given(ledger, setting, value::address);
    if address.ip().is_loopback() {
        return address;
    }
    checks::refuse_non_loopback(ledger, setting, scope.item, address);
    (Ipv4Addr::LOCALHOST, 0).into()
}
