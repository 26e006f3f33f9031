//! Issuers of tokens, of the services or of a sidecar.

use url::Url;

use crate::config::issuers::{ISSUER_CA_FILE, ISSUER_ISS, ISSUER_KEYS, IssuerConfig, KeysSource};
use crate::config::limits;
use crate::config::scope::Collector;
use crate::config::settings::Section;

/// Notes issuers of one name, and keys that could not be fetched.
pub(in crate::config) fn check(collector: &mut Collector, issuers: &[IssuerConfig]) {
    for (at, issuer) in issuers.iter().enumerate() {
        if issuers[..at].iter().any(|other| other.iss == issuer.iss) {
            let what = "a second issuer of this iss".to_owned();
            collector.refuse(&ISSUER_ISS, Some(at), what, "put the keys of both into one JWK Set");
        }
        keys_source(collector, at, issuer);
    }
    collector.at_most(Section::Issuer, &ISSUER_ISS, issuers.len(), limits::ISSUERS);
}

/// Checks that what the keys are fetched from can be asked.
fn keys_source(collector: &mut Collector, at: usize, issuer: &IssuerConfig) {
    let is_asked =
        |url: &Url| url.scheme() == "https" && url.has_host() && url.query().is_none() && url.fragment().is_none();
    match &issuer.keys {
        KeysSource::Discovery if !Url::parse(&issuer.iss).as_ref().is_ok_and(is_asked) => {
            let what =
                "discovery asks at the issuer's own URL, and its iss is no https URL without ? and #".to_owned();
            collector.refuse(&ISSUER_KEYS, Some(at), what, "write the URL of its JWK Set, or the path of a file");
        }
        KeysSource::File(_) if issuer.ca_file.is_some() => {
            let text = format!("{} has no effect: the keys are in a file", ISSUER_CA_FILE.path());
            collector.warn_of(&ISSUER_CA_FILE, Some(at), text);
        }
        _ => {}
    }
}
