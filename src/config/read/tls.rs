//! Reads `tls = { .. }` of a region.

use super::super::scope::{Collector, SettingScope};
use super::super::settings::{self as schema, Section};
use super::super::tree::{Raw, TomlTable, Value};
use super::super::{ClientCertificate, RegionTls, checks, value};
use crate::config::error::ConfigProblem;

pub(super) fn read(ledger: &mut Collector, region: &SettingScope) -> RegionTls {
    let table = match region.table.get("tls") {
        Some(Raw { value: Value::Table(table), .. }) => table.clone(),
        Some(raw) => {
            let what = format!("{} where a table belongs", raw.kind());
            let wrong = ConfigProblem::new(what, "write tls = { ca_file = \"/etc/nearside/ca.pem\" }");
            ledger.mistake(&schema::TLS_CA_FILE, region.item, raw.place.clone(), wrong);
            TomlTable::empty(raw.place.clone())
        }
        None => TomlTable::empty(region.table.place.clone()),
    };
    let scope = ledger.scope(table, Section::Tls, region.item);
    let ca_file = scope.optional(ledger, &schema::TLS_CA_FILE, value::file);
    let cert = scope.optional(ledger, &schema::TLS_CLIENT_CERT, value::file);
    let key = scope.optional(ledger, &schema::TLS_CLIENT_KEY, value::file);
    checks::client_certificate(ledger, region.item, cert.is_some(), key.is_some());
    RegionTls { ca_file, client: cert.zip(key).map(|(cert, key)| ClientCertificate { cert, key }) }
}
