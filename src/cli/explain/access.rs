//! Lines on who may have what: by the services' file, and from a sidecar's store.

use std::net::SocketAddr;
use std::path::Path;

use crate::cli::error::CommandError;
use crate::cli::load::{tell, variables};
use crate::config::services::{
    self, AccessConfig, AccessMode, AdminIdentity, ServiceRole, ServicesConfig, WhenUnknown,
};
use crate::config::{IdentityMode, PermitsConfig, Route, ServerCertificate};

/// Rules by which a route's stored replies are served once regions state grants (R22).
pub(super) fn permits(route: &Route, terms: &PermitsConfig) -> Vec<String> {
    let caller = match &route.identity {
        IdentityMode::Sidecar(_) => "the sidecar, by its own credentials: what it may read, all callers get",
        IdentityMode::Exact(headers) if headers.is_empty() => "everybody: all callers are one",
        IdentityMode::Exact(_) => "each combination of these headers; a token's permit ends with its exp",
        IdentityMode::Verified(_) => "each set of claims",
        IdentityMode::Granted => "each authorization; all who have a permit share what is stored",
    };
    let since = if route.identity.needs_permits() { "always" } else { "once regions state grants" };
    let [recheck, most] = [terms.recheck, terms.max_age].map(humantime::format_duration);
    let unknown = match terms.when_unknown {
        WhenUnknown::Serve => format!(
            "goes on for {most} from then, labelled grants-unproven (access.max_age); then 503 (when_unknown = \"serve\")"
        ),
        WhenUnknown::Refuse => "is 503 grants-unknown at once (when_unknown = \"refuse\")".to_owned(),
    };
    if route.identity.claims().is_some() {
        return vec![
            format!(
                "permits   {since}: only what a region gave a token with these claims within {recheck} (access.recheck)"
            ),
            format!("          without a region that answers, what is stored {unknown}"),
            "          a token that the sidecar cannot verify is passed on, and its answer not stored".to_owned(),
        ];
    }
    vec![
        format!("permits   {since}: only to whom they allowed {} within {recheck} (access.recheck),", route.view()),
        "          by grants that are not older than the newest that two regions know".to_owned(),
        format!("          without a region that knows those, what is stored {unknown}"),
        format!("          who is asked about: {caller}"),
    ]
}

/// Port of a service, and what stands before it.
struct Port<'p> {
    address: SocketAddr,
    tls: Option<&'p ServerCertificate>,
    behind_proxy: bool,
}

/// Says who may read, write and operate by this file.
///
/// # Errors
/// The errors of the file, which are reported already.
pub(super) fn services(file: &Path) -> Result<Vec<String>, CommandError> {
    let loaded = services::load(ServiceRole::Setup, Some(file), variables());
    let (config, _) = loaded.map_err(|errors| {
        tell(&errors);
        CommandError::Usage(String::new())
    })?;
    Ok(lines(&config))
}

fn lines(config: &ServicesConfig) -> Vec<String> {
    let (access, catalogue, views) = (&config.access, &config.catalogue, &config.views);
    let mut lines = vec![mode(access)];
    let (tls, behind_proxy) = (catalogue.tls.server.as_ref(), catalogue.behind_proxy);
    lines.push(String::new());
    lines.push("catalogue".to_owned());
    let port = Port { address: catalogue.listen, tls, behind_proxy };
    lines.push(callers(access, &port, "write", "the type in `write`", &access.catalogue_audience));
    lines.push(admins(access));
    lines.push(operators(access, &Port { address: catalogue.admin, tls, behind_proxy }));
    lines.push("views".to_owned());
    let port = Port { address: views.admin, tls: views.tls.server.as_ref(), behind_proxy: views.behind_proxy };
    lines.push(operators(access, &port));
    for region in &config.regions {
        let (tls, behind_proxy) = (region.tls.server.as_ref(), region.behind_proxy);
        lines.push(format!("region {}", region.name));
        let port = Port { address: region.listen, tls, behind_proxy };
        lines.push(callers(access, &port, "read", "the view in `views`", &access.region_audience));
        lines.push(operators(access, &Port { address: region.admin, tls, behind_proxy }));
    }
    lines
}

fn mode(access: &AccessConfig) -> String {
    let issuers: Vec<&str> = access.issuers.iter().map(|issuer| issuer.iss.as_str()).collect();
    match access.mode {
        AccessMode::Off => "access.mode = \"off\": everybody who reaches a port may do everything there".to_owned(),
        AccessMode::Observe => {
            "access.mode = \"observe\": everybody is answered; what enforce would refuse is counted".to_owned()
        }
        AccessMode::Enforce => format!(
            "access.mode = \"enforce\": who asks needs a grant (nearside grants show), and proves who it is by a token of {}",
            issuers.join(" or ")
        ),
    }
}

fn callers(access: &AccessConfig, port: &Port<'_>, word: &str, right: &str, audience: &str) -> String {
    let certificate = port.tls.and_then(|tls| tls.client_ca.as_ref());
    let who = match access.mode {
        AccessMode::Enforce => {
            let certificate = certificate
                .map_or_else(String::new, |ca| format!(", or with a client certificate by a CA of {}", ca.display()));
            format!("consumers with {right} of their grants, with a token for {audience}{certificate}")
        }
        AccessMode::Off | AccessMode::Observe => nobody_is_asked(port).to_owned(),
    };
    format!("  {word:<8}at {}: {who}", port.address)
}

const fn nobody_is_asked(port: &Port<'_>) -> &'static str {
    if port.behind_proxy { "whom the proxy before it lets in" } else { "everybody on this machine" }
}

fn admins(access: &AccessConfig) -> String {
    let shown: Vec<String> = access
        .admins
        .iter()
        .map(|admin| match &admin.who {
            AdminIdentity::Token { iss, sub } => format!("{sub} of {iss}"),
            AdminIdentity::Spiffe(name) | AdminIdentity::Dns(name) => format!("the certificate {name}"),
        })
        .collect();
    let who = match (access.mode, shown.as_slice()) {
        (AccessMode::Enforce, []) => "nobody: write [[access.admin]]".to_owned(),
        (AccessMode::Enforce, _) => format!("{} (access.admin), and these nothing else", shown.join(", ")),
        _ => "everybody who may write records".to_owned(),
    };
    format!("  {:<8}{who}", "grants")
}

fn operators(access: &AccessConfig, port: &Port<'_>) -> String {
    let (is_on_loopback, has_audience) = (port.address.ip().is_loopback(), !access.operate_audience.is_empty());
    let who = if is_on_loopback && !(port.behind_proxy && has_audience) {
        "everybody on this machine".to_owned()
    } else if access.mode == AccessMode::Enforce {
        format!(
            "consumers that may `operate` (/metrics: `metrics`), with a token for {}; /livez and /readyz: everybody, \
             without reasons",
            access.operate_audience
        )
    } else {
        nobody_is_asked(port).to_owned()
    };
    format!("  {:<8}at {}: {who}", "operate", port.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        lines(&services::load(ServiceRole::Setup, Some(file.path()), std::iter::empty()).unwrap().0).join("\n")
    }

    #[test]
    fn services_file_says_who_may() {
        let text = "[engine]\nkind = \"memory\"\n[[catalogue.type]]\nname = \"a\"\n[[region]]\nname = \"eu\"\n\
                    listen = \"0.0.0.0:8744\"\nadmin = \"0.0.0.0:8745\"\nbehind_proxy = true\n";
        let open = said(text);
        assert!(open.starts_with("access.mode = \"off\": everybody who reaches"), "{open}");
        assert!(open.contains("  read    at 0.0.0.0:8744: whom the proxy before it lets in"), "{open}");
        assert!(open.contains("  operate at 127.0.0.1:8743: everybody on this machine"), "{open}");
        let access = "[access]\nmode = \"enforce\"\ncatalogue_audience = \"c\"\nregion_audience = \"r\"\n\
                      operate_audience = \"o\"\n[[access.issuer]]\niss = \"https://i.example\"\n\
                      keys = \"https://i.example/k\"\n[[access.admin]]\ndns = \"ops.example\"\n";
        let enforced = said(&format!("{text}{access}"));
        for line in [
            "proves who it is by a token of https://i.example",
            "  write   at 127.0.0.1:8740: consumers with the type in `write` of their grants, with a token for c",
            "  grants  the certificate ops.example (access.admin), and these nothing else",
            "  read    at 0.0.0.0:8744: consumers with the view in `views` of their grants, with a token for r",
            "  operate at 0.0.0.0:8745: consumers that may `operate` (/metrics: `metrics`), with a token for o;",
        ] {
            assert!(enforced.contains(line), "{line}\n{enforced}");
        }
        let on_loopback = said(&format!("{text}{access}").replace("0.0.0.0:8745", "127.0.0.1:8745"));
        let line = "  operate at 127.0.0.1:8745: consumers that may `operate`";
        assert!(on_loopback.contains(line), "its proxy hands requests on: {on_loopback}");
    }
}
