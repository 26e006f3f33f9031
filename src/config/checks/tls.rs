//! Rules between a region's `tls` and what else is written.

use super::super::schema;
use crate::config::error::quoted;
use crate::config::scope::Collector;
use crate::config::settings::Setting;
use crate::config::{IdentityMode, RegionConfig, RegionTls, Service};

/// A client certificate and its key go together.
pub(super) fn client_certificate(collector: &mut Collector, at: usize) {
    pair(collector, Some(at), [&schema::TLS_CLIENT_CERT, &schema::TLS_CLIENT_KEY]);
}

/// Refuses a certificate beside routes whose callers need grants of their own, and warns of it beside others
/// with callers: a region takes it for the caller of every request without credentials.
pub(super) fn lent_certificate(collector: &mut Collector, service: &Service) {
    let Some(at) = service.regions.iter().position(|region| region.tls.client.is_some()) else { return };
    let region = &service.regions[at].name;
    let lends = format!("region {region} answers a request without credentials by the grants of the certificate");
    for (number, route) in service.routes.iter().enumerate() {
        let path = quoted(&route.path.text);
        match &route.identity {
            IdentityMode::Granted | IdentityMode::Verified(_)
                if !collector.has_error(&schema::TLS_CLIENT_CERT, Some(at)) =>
            {
                let what = format!("callers of {path} are known by their `Authorization`, and {lends}");
                let suggestion = "remove client_cert and client_key, or write identity = \"exact\" and identity_headers = \
                                  [] on the route, which is then for all whom the certificate's grants are for";
                collector.refuse(&schema::TLS_CLIENT_CERT, Some(at), what, suggestion);
            }
            IdentityMode::Exact(headers) if !headers.is_empty() => {
                let text = format!(
                    "callers of {path} are known by their headers, and {lends}, if it goes by any; write identity_headers = \
                     [] if the certificate is the caller"
                );
                collector.warn_of(&schema::ROUTE_IDENTITY, Some(number), text);
            }
            _ => {}
        }
    }
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
