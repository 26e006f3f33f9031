//! The environment's proxies: no outgoing call uses one. A proxy that takes some calls and not
//! others leaves a sidecar subscribed that can verify nothing, and one that takes link-local
//! addresses gets the task's credentials; so it is all or none (decision 0030).

use crate::config::error::{Place, Warning};

/// Variables with which other programs are given a proxy, in either letter case. `NO_PROXY` alone
/// asks for nothing.
const PROXIES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// Whether a variable names a proxy.
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
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let variables = [
            set("HTTP_PROXY", "http://user:secret@proxy:3128"),
            set("https_proxy", "http://proxy:3128"),
            set("ALL_PROXY", ""),
            set("NO_PROXY", "*"),
            set("FTP_PROXY", "http://proxy:3128"),
        ];
        let told: Vec<_> = ignored(&variables).map(|warning| warning.to_string()).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("HTTP_PROXY: is ignored") && told[1].starts_with("https_proxy: is ignored"));
        assert!(!told.concat().contains("secret"));
    }
}
