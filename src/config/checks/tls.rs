//! Rules between a region's `tls` and what else is written.

use super::super::settings as schema;
use super::{Collector, refuse};
use crate::config::{RegionConfig, RegionTls};

/// A client certificate and its key go together.
pub(in crate::config) fn client_certificate(ledger: &mut Collector, item: Option<usize>, cert: bool, key: bool) {
    let (there, missing) = match (cert, key) {
        (true, false) => (&schema::TLS_CLIENT_CERT, &schema::TLS_CLIENT_KEY),
        (false, true) => (&schema::TLS_CLIENT_KEY, &schema::TLS_CLIENT_CERT),
        _ => return,
    };
    if !ledger.is_mistaken(missing, item) {
        refuse(ledger, there, item, format!("no {} beside it", missing.key), "write both, or neither");
    }
}

/// A region over plain http neither presents nor checks a certificate.
pub(super) fn of_a_plain_region(ledger: &mut Collector, region: &RegionConfig, at: usize) {
    if region.url.scheme() != "http" || region.tls == RegionTls::default() {
        return;
    }
    let written = [&schema::TLS_CA_FILE, &schema::TLS_CLIENT_CERT, &schema::TLS_CLIENT_KEY];
    let written = written.into_iter().find(|setting| ledger.origins.is_changed(setting, Some(at)));
    let what = "TLS settings on a region that is asked over plain http".to_owned();
    let instead = "write its url with https://, or remove the tls settings";
    refuse(ledger, written.unwrap_or(&schema::TLS_CA_FILE), Some(at), what, instead);
}
