//! Issuers of tokens, of the services or of a sidecar.

use url::Url;

use crate::config::error::quoted;
use crate::config::issuers::{ISSUER_CA_FILE, ISSUER_ISS, ISSUER_KEYS, ISSUER_SUBJECT, IssuerConfig, KeysSource};
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
        names_of_callers(collector, at, issuer);
    }
    collector.at_most(Section::Issuer, &ISSUER_ISS, issuers.len(), limits::ISSUERS);
}

/// Checks that what the keys are fetched from can be asked.
fn keys_source(collector: &mut Collector, at: usize, issuer: &IssuerConfig) {
    match &issuer.keys {
        KeysSource::Discovery if !Url::parse(&issuer.iss).as_ref().is_ok_and(is_metadata_url) => {
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

fn is_metadata_url(url: &Url) -> bool {
    url.scheme() == "https" && url.has_host() && url.query().is_none() && url.fragment().is_none()
}

/// Checks that the issuer's tokens can say whose they are, and who asks.
fn names_of_callers(collector: &mut Collector, at: usize, issuer: &IssuerConfig) {
    /// Claims that say something else (RFC 7519, section 4.1).
    const NO_SUBJECTS: [&str; 6] = ["iss", "aud", "exp", "nbf", "iat", "jti"];
    if issuer.iss.is_empty() && !collector.has_error(&ISSUER_ISS, Some(at)) {
        collector.refuse(&ISSUER_ISS, Some(at), "empty".to_owned(), "write the iss of its tokens, byte for byte");
    }
    let subject = issuer.subject.as_str();
    if subject.is_empty() || NO_SUBJECTS.contains(&subject) {
        let what = format!("{} is no claim that says who the caller is", quoted(subject));
        collector.refuse(&ISSUER_SUBJECT, Some(at), what, "write `sub`, or a claim that names one caller for good");
    }
}
