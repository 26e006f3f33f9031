//! Principals of client certificates.

use super::patterns::{self, Pattern};
use super::principal::Principal;
use crate::http::server_tls::peer::AlternativeNames;

/// Principal of a certificate with these alternative names: its only URI, if that is a SPIFFE ID, else its
/// only DNS name. Its common name is nobody's.
#[must_use]
pub fn principal(names: &AlternativeNames) -> Option<Principal> {
    let AlternativeNames { uris, dns } = names;
    if uris.iter().any(|uri| is_spiffe(uri)) {
        // Which of two would it be? A certificate of SPIFFE has one URI (X509-SVID, section 2).
        let [uri] = uris.as_slice() else { return None };
        return written_out(patterns::of_spiffe(uri).ok()?);
    }
    let [name] = dns.as_slice() else { return None };
    written_out(patterns::of_dns(&name.to_ascii_lowercase()).ok()?)
}

fn is_spiffe(uri: &str) -> bool {
    uri.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("spiffe:"))
}

/// A name with a `*` is a pattern, and nobody's.
fn written_out(pattern: Pattern) -> Option<Principal> {
    match pattern {
        Pattern::Exact(principal) => Some(principal),
        Pattern::Prefix(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uris: &[&str], dns: &[&str]) -> Option<String> {
        let [uris, dns] = [uris, dns].map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        principal(&AlternativeNames { uris, dns }).map(|principal| principal.to_string())
    }

    #[test]
    fn spiffe_id_must_be_only_uri() {
        const JIRA: &str = "spiffe://corp/jira/api";
        assert_eq!(of(&[JIRA], &["jira.example"]).as_deref(), Some(JIRA));
        for uris in [&[JIRA, "spiffe://corp/other"][..], &[JIRA, JIRA], &[JIRA, "https://corp/jira"]] {
            assert_eq!(of(uris, &["jira.example"]), None, "{uris:?}");
        }
        for wrong in [
            "spiffe://corp/./api",
            "spiffe://corp/../api",
            "spiffe://corp/%6aira",
            "spiffe://corp//api",
            "spiffe://corp/jira/",
            "spiffe://corp/jira?x",
            "spiffe://corp:443/jira",
            "spiffe://Corp/jira",
            "SPIFFE://corp/jira",
            "spiffe://corp",
            "spiffe://corp/*",
            "spiffe:",
        ] {
            assert_eq!(of(&[wrong], &["jira.example"]), None, "{wrong}");
        }
    }

    #[test]
    fn dns_name_must_be_only_one() {
        assert_eq!(of(&[], &["Jira.example"]).as_deref(), Some("jira.example"));
        assert_eq!(of(&["https://corp/jira"], &["jira.example"]).as_deref(), Some("jira.example"));
        for names in [&[][..], &["a.example", "b.example"], &["*.example"], &["a..b"], &["a.example."]] {
            assert_eq!(of(&[], names), None, "{names:?}");
        }
    }
}
