//! The environment's proxies: no outgoing call uses one. A proxy that takes some calls and not
//! others leaves a sidecar subscribed that can verify nothing, and one that takes link-local
//! addresses gets the task's credentials; so it is all or none (decision 0030).

use crate::config::error::{Place, Warning};

/// Variables with which other programs are given a proxy, in either letter case. `NO_PROXY` alone
/// asks for nothing.
const PROXIES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// Returns whether a variable names a proxy.
pub(super) fn is_proxy(name: &str) -> bool {
    PROXIES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// A warning for each of these variables that is set to something. Its value may hold a password,
/// so it is never shown.
pub fn ignored(variables: &[(String, String)]) -> impl Iterator<Item = Warning> {
    let set = variables.iter().filter(|(name, value)| is_proxy(name) && !value.is_empty());
    set.map(|(name, _)| Warning {
        place: Place::Variable(name.as_str().into()),
        text: "is ignored: regions, AWS, signing certificates and credentials are asked directly, never through a proxy; \
               give this process a direct way to them (VPC endpoints, NAT)"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_names_the_variable_alone() {
        let variables = [
            ("HTTP_PROXY", "http://user:secret@proxy:3128"),
            ("https_proxy", "http://proxy:3128"),
            ("ALL_PROXY", ""),
            ("NO_PROXY", "*"),
            ("FTP_PROXY", "http://proxy:3128"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found: Vec<_> = ignored(&variables).map(|warning| warning.to_string()).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("HTTP_PROXY: is ignored") && found[1].starts_with("https_proxy: is ignored"));
        assert!(!found.concat().contains("secret"));
    }
}
