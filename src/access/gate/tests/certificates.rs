//! Callers that present a certificate, with a token or without.

use rcgen::{CertificateParams, SanType};

use super::*;
use crate::http::server_tls::peer::PeerCertificate;
use crate::http::server_tls::scripted::{Authorities, Certified};

const JIRA: &str = "spiffe://corp/jira/api";

fn named(spiffe: &[&str], dns: &[&str]) -> impl FnOnce(&mut CertificateParams) {
    let spiffe = spiffe.iter().map(|id| SanType::URI((*id).try_into().unwrap()));
    let names = spiffe.chain(dns.iter().map(|name| SanType::DnsName((*name).try_into().unwrap())));
    let names: Vec<_> = names.collect();
    move |params| {
        params.subject_alt_names = names;
        params.distinguished_name.push(rcgen::DnType::CommonName, "jira.example");
    }
}

fn guarded() -> Guarded {
    let guarded = gate_of(AccessMode::Enforce, |_| {});
    let who = json!([{"iss": ISS, "sub": "jira"}, {"spiffe": "spiffe://corp/jira/*"}, {"dns": "jira.example"}]);
    let other = json!({"who": [{"iss": ISS, "sub": "other"}], "views": ["profile"]});
    let jira = json!({"who": who, "views": ["limits"]});
    let document = json!({"format": 1, "consumers": {"jira": jira, "other": other}});
    guarded.gate.take(Grants::read(document.to_string().as_bytes(), 1).unwrap());
    guarded
}

impl Guarded {
    async fn ask_as(
        &self,
        known: &mut Option<Arc<Known>>,
        certificate: &PeerCertificate,
        token: Option<&str>,
        view: &str,
    ) -> Result<(), Denial> {
        let mut request = Request::get(format!("/v1/contexts/acme/{view}")).body(()).unwrap();
        if let Some(token) = token {
            let line = HeaderValue::try_from(format!("Bearer {token}")).unwrap();
            request.headers_mut().insert(header::AUTHORIZATION, line);
        }
        let credentials = Credentials::of(request.headers(), Some(certificate));
        let (method, path) = (request.method(), request.uri().path());
        self.gate.admit_to_view(known, method, path, credentials, Turn::First).settled().await
    }
}

#[tokio::test]
async fn certificate_names_its_caller() {
    let (guarded, certified) = (guarded(), Certified::new());
    let authorities = Authorities::of(&certified);
    for (spiffe, dns, wanted) in [
        (&[JIRA][..], &[][..], Ok(())),
        (&[JIRA], &["other.example"], Ok(())),
        (&["spiffe://corp/jirax/api"], &["jira.example"], Err(Denial::NotGranted)),
        (&["spiffe://corp/jira/../api"], &["jira.example"], Err(Denial::NoCredential)),
        (&[JIRA, "spiffe://corp/jira/x"], &["jira.example"], Err(Denial::NoCredential)),
        (&[], &["jira.example"], Ok(())),
        (&[], &["other.example"], Err(Denial::NotGranted)),
        (&[], &["jira.example", "other.example"], Err(Denial::NoCredential)),
        // The common name is nobody's.
        (&[], &[], Err(Denial::NoCredential)),
    ] {
        let caller = authorities.presented(&certified.client(named(spiffe, dns)));
        assert_eq!(guarded.ask_as(&mut None, &caller, None, "limits").await, wanted, "{spiffe:?} {dns:?}");
    }
}

#[tokio::test]
async fn foreign_certificate_counts_as_none() {
    let (guarded, foreign) = (guarded(), Certified::new());
    let authorities = Authorities::of(&Certified::new());
    let caller = authorities.presented(&foreign.client(named(&[JIRA], &[])));
    assert_eq!(guarded.ask_as(&mut None, &caller, None, "limits").await, Err(Denial::NoCredential));
    assert_eq!(guarded.ask_as(&mut None, &caller, Some(&guarded.token("jira")), "limits").await, Ok(()));
}

#[tokio::test]
async fn token_outweighs_certificate() {
    let (guarded, certified) = (guarded(), Certified::new());
    let caller = Authorities::of(&certified).presented(&certified.client(named(&[JIRA], &[])));
    let (other, mut known) = (guarded.token("other"), None);
    assert_eq!(guarded.ask_as(&mut None, &caller, Some(&other), "limits").await, Err(Denial::NotGranted));
    assert_eq!(guarded.ask_as(&mut None, &caller, Some(&other), "profile").await, Ok(()));
    let refused = guarded.ask_as(&mut known, &caller, Some("a.b.c"), "limits").await;
    assert_eq!(refused, Err(Denial::BadCredential(TokenError::Malformed)));
    assert_eq!(guarded.ask_as(&mut known, &caller, None, "limits").await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn caller_ends_with_its_certificate() {
    let (guarded, certified) = (guarded(), Certified::new());
    let end = NOW + 60;
    let caller = Authorities::of(&certified).presented(&certified.client(|params| {
        named(&[JIRA], &[])(params);
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(end);
    }));
    let mut known = None;
    assert_eq!(guarded.ask_as(&mut known, &caller, None, "limits").await, Ok(()));
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(guarded.ask_as(&mut known, &caller, None, "limits").await, Ok(()));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(guarded.ask_as(&mut known, &caller, None, "limits").await, Err(Denial::NoCredential));
}

#[tokio::test]
async fn replaced_ca_ends_callers_at_once() {
    let (guarded, certified) = (guarded(), Certified::new());
    let authorities = Authorities::of(&certified);
    let caller = authorities.presented(&certified.client(named(&[JIRA], &[])));
    let mut known = None;
    assert_eq!(guarded.ask_as(&mut known, &caller, None, "limits").await, Ok(()));
    authorities.replace(&Certified::new());
    assert_eq!(guarded.ask_as(&mut known, &caller, None, "limits").await, Err(Denial::NoCredential));
    authorities.replace(&certified);
    assert_eq!(guarded.ask_as(&mut known, &caller, None, "limits").await, Ok(()));
}

/// An issuer in between that ends earlier ends whom it vouches for.
#[tokio::test(start_paused = true)]
async fn earliest_end_of_chain_counts() {
    let (guarded, certified) = (guarded(), Certified::new());
    let authorities = Authorities::of(&certified);
    let end = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(NOW + 60);
    let caller =
        authorities.presented(&certified.client_through(|between| between.not_after = end, named(&[JIRA], &[])));
    let mut known = None;
    assert_eq!(guarded.ask_as(&mut known, &caller, None, "limits").await, Ok(()));
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(guarded.ask_as(&mut known, &caller, None, "limits").await, Err(Denial::NoCredential));
}
