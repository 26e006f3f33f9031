//! Reads `tls = { .. }` of a region.

use super::super::mistake::Wrong;
use super::super::scope::{Ledger, Scope};
use super::super::settings::{self as schema, Section};
use super::super::tree::{Raw, Table, Value};
use super::super::{ClientCertificate, RegionTls, checks, value};

pub(super) fn read(ledger: &mut Ledger, region: &Scope) -> RegionTls {
    let table = match region.table.get("tls") {
        Some(Raw { value: Value::Table(table), .. }) => table.clone(),
        Some(raw) => {
            let what = format!("{} where a table belongs", raw.kind());
            let wrong = Wrong::new(what, "write tls = { ca_file = \"/etc/nearside/ca.pem\" }");
            ledger.mistake(&schema::TLS_CA_FILE, region.item, raw.place.clone(), wrong);
            Table::empty(raw.place.clone())
        }
        None => Table::empty(region.table.place.clone()),
    };
    let scope = ledger.scope(table, Section::Tls, region.item);
    let ca_file = scope.optional(ledger, &schema::TLS_CA_FILE, value::file);
    let cert = scope.optional(ledger, &schema::TLS_CLIENT_CERT, value::file);
    let key = scope.optional(ledger, &schema::TLS_CLIENT_KEY, value::file);
    checks::client_certificate(ledger, region.item, cert.is_some(), key.is_some());
    RegionTls { ca_file, client: cert.zip(key).map(|(cert, key)| ClientCertificate { cert, key }) }
}
