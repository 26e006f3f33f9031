//! Rules between a region's `tls` and what else is written.

use super::super::schema;
use crate::config::scope::Collector;
use crate::config::settings::Setting;
use crate::config::{RegionConfig, RegionTls};

/// A client certificate and its key go together.
pub(super) fn client_certificate(collector: &mut Collector, at: usize) {
    pair(collector, Some(at), [&schema::TLS_CLIENT_CERT, &schema::TLS_CLIENT_KEY]);
}

/// Refuses a certificate without its key, and a key without its certificate.
pub(in crate::config) fn pair(
    collector: &mut Collector,
    item: Option<usize>,
    [certificate, key]: [&'static Setting; 2],
) {
    let is_set = [certificate, key].map(|setting| collector.origins.is_changed(setting, item));
    let (there, missing) = match is_set {
        [true, false] => (certificate, key),
        [false, true] => (key, certificate),
        _ => return,
    };
    if !collector.has_error(missing, item) {
        collector.refuse(there, item, format!("no {} beside it", missing.key), "write both, or neither");
    }
}

/// A region over plain http neither presents nor checks a certificate.
pub(super) fn of_a_plain_region(collector: &mut Collector, region: &RegionConfig, at: usize) {
    if region.url.scheme() != "http" || region.tls == RegionTls::default() {
        return;
    }
    let written = [&schema::TLS_CA_FILE, &schema::TLS_CLIENT_CERT, &schema::TLS_CLIENT_KEY];
    let written = written.into_iter().find(|setting| collector.origins.is_changed(setting, Some(at)));
    let what = "TLS settings on a region that is asked over plain http".to_owned();
    let suggestion = "write its url with https://, or remove the tls settings";
    collector.refuse(written.unwrap_or(&schema::TLS_CA_FILE), Some(at), what, suggestion);
}
