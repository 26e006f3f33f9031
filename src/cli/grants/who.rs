//! `nearside grants who`: says who a token or a certificate is, and what it may do.

use std::io::Read;
use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::super::error::CommandError;
use super::super::load::{tell, variables};
use super::ending::{none_yet, wrong};
use crate::access::calendar::Calendar;
use crate::access::certificate;
use crate::access::decision::{Decision, Need, decide};
use crate::access::grants::{Grants, Rights};
use crate::access::issuer::Unproven;
use crate::access::issuers::Issuers;
use crate::access::limits::TOKEN_BYTES;
use crate::access::principal::Principal;
use crate::cli::caller::unusable;
use crate::cli::catalogue_client::CatalogueClient;
use crate::cli::ending::{block_on, print};
use crate::config::limits::PEM_BYTES;
use crate::config::read_regular;
use crate::config::services::{self, AdminConfig, ServiceRole, ServicesConfig};
use crate::http::server_tls::peer::AlternativeNames;
use crate::model::time::Clock;

/// Services that a credential is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    Regions,
    Catalogue,
    /// A certificate is shown to whom it may concern.
    Any,
}

impl Audience {
    const fn name(self) -> &'static str {
        match self {
            Self::Regions => "regions",
            Self::Catalogue => "the catalogue",
            Self::Any => "all services",
        }
    }

    /// True if what is needed is asked of these services.
    const fn serves(self, need: &Need<'_>) -> bool {
        !matches!((self, need), (Self::Regions, Need::Write(_)) | (Self::Catalogue, Need::Read(_)))
    }
}

/// Holder of a credential that was verified.
struct Holder<'h> {
    principal: &'h Principal,
    audience: Audience,
    /// Admins by the services' file.
    admins: &'h [AdminConfig],
}

/// Says who sends the token on standard input, and what it may do.
pub(super) fn sends(client: &CatalogueClient, config: Option<&Path>, needs: &[Need<'_>]) -> Result<(), CommandError> {
    let config = settings(config)?;
    let mut token = Vec::new();
    let most = TOKEN_BYTES as u64 + 2;
    std::io::stdin().lock().take(most).read_to_end(&mut token).map_err(CommandError::failed)?;
    let now = Calendar::new(Clock::System).now();
    let mut said = Vec::new();
    for (service, audience) in [
        (Audience::Regions, &config.access.region_audience),
        (Audience::Catalogue, &config.access.catalogue_audience),
    ] {
        let issuers = Issuers::open(&config.access, audience, &Clock::System).map_err(CommandError::failed)?;
        block_on(async {
            issuers.fetch_once().await;
            Ok(())
        })?;
        for issuer in issuers.states() {
            if let Some(failure) = issuer.failure {
                print(&format!("the keys of {} were not fetched: {failure}", issuer.iss))?;
            }
        }
        let name = service.name();
        match issuers.verify(token.trim_ascii(), now) {
            Err(Unproven::Refused(error)) => said.push(format!("at {name}: {error}")),
            Err(Unproven::KeyUnknown) => said.push(format!("at {name}: its key is not among those of its issuer")),
            Ok(verified) => {
                print(&format!("it is {}, and for {name}", verified.principal))?;
                let (principal, admins) = (&verified.principal, config.access.admins.as_slice());
                return print_rights(client, &Holder { principal, audience: service, admins }, needs);
            }
        }
    }
    Err(CommandError::Failed(format!("the token is refused: {}", said.join("; "))))
}

/// Says what the holder of a certificate may do. Services ask their `client_ca` besides.
pub(super) fn presents(
    client: &CatalogueClient,
    config: Option<&Path>,
    file: &Path,
    needs: &[Need<'_>],
) -> Result<(), CommandError> {
    let config = config.map(|file| settings(Some(file))).transpose()?;
    let text = read_regular(file, PEM_BYTES).map_err(|error| unusable("--holder", file, &error.to_string()))?;
    let certificate =
        CertificateDer::from_pem_slice(&text).map_err(|error| unusable("--holder", file, &error.to_string()))?;
    let names = AlternativeNames::of(&certificate).ok_or_else(|| unusable("--holder", file, "it cannot be read"))?;
    let principal = certificate::principal(&names);
    let principal = principal.ok_or_else(|| {
        unusable("--holder", file, "it has neither one SPIFFE ID as its only URI, nor one DNS name")
    })?;
    print(&format!("it is {principal}, if a CA of the service's client_ca vouches for it"))?;
    let admins = config.as_ref().map_or(&[][..], |config| config.access.admins.as_slice());
    print_rights(client, &Holder { principal: &principal, audience: Audience::Any, admins }, needs)
}

fn settings(file: Option<&Path>) -> Result<ServicesConfig, CommandError> {
    let loaded = services::load(ServiceRole::Setup, file, variables());
    let (config, _) = loaded.map_err(|errors| {
        if file.is_none() {
            return CommandError::Usage("name the services' file with --config: it says who is believed".to_owned());
        }
        tell(&errors);
        CommandError::Usage(String::new())
    })?;
    Ok(config)
}

fn print_rights(client: &CatalogueClient, holder: &Holder<'_>, needs: &[Need<'_>]) -> Result<(), CommandError> {
    let current = block_on(client.current())?.ok_or_else(none_yet)?;
    let grants = Grants::read(&current.document, current.version).map_err(|errors| wrong(&errors))?;
    let rights = grants.rights_of(holder.principal).map(|rights| &**rights);
    lines(holder, rights, needs).iter().try_for_each(|line| print(line))
}

fn lines(holder: &Holder<'_>, rights: Option<&Rights>, needs: &[Need<'_>]) -> Vec<String> {
    let mut lines = Vec::new();
    if holder.admins.iter().any(|admin| Principal::from(&admin.who) == *holder.principal) {
        lines.push("it is an admin (access.admin): it may write the grants".to_owned());
    }
    match rights {
        Some(rights) => lines.push(rights.to_string()),
        None if lines.is_empty() => lines.push("no consumer has this principal: it may do nothing".to_owned()),
        None => lines.push("no consumer has this principal: it may do nothing else".to_owned()),
    }
    lines.extend(needs.iter().map(|need| {
        let Holder { audience, .. } = holder;
        match decide(rights, need) {
            _ if !audience.serves(need) => format!("to {need}: refused: the token is for {}", audience.name()),
            Decision::Granted => format!("to {need}: granted"),
            Decision::Refused => format!("to {need}: refused: not-granted"),
        }
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::services::AdminIdentity;

    const NEEDS: [Need<'static>; 2] = [Need::Read("limits"), Need::Write("tenant")];

    fn said(principal: &Principal, audience: Audience, admins: &[AdminConfig]) -> Vec<String> {
        let document = r#"{"format": 1, "consumers": {"jira": {"who": [{"dns": "j.example"}],
            "views": ["limits"], "write": ["tenant"]}}}"#;
        let grants = Grants::read(document.as_bytes(), 1).unwrap();
        let rights = grants.rights_of(principal).map(|rights| &**rights);
        lines(&Holder { principal, audience, admins }, rights, &NEEDS)
    }

    #[test]
    fn token_counts_where_it_is_for() {
        let jira = Principal::Dns("j.example".into());
        let rights = "jira reads limits, writes tenant";
        let found = said(&jira, Audience::Regions, &[]);
        assert_eq!(found, [rights, "to read limits: granted", "to write tenant: refused: the token is for regions"]);
        let found = said(&jira, Audience::Catalogue, &[]);
        let expected = "to read limits: refused: the token is for the catalogue";
        assert_eq!(found, [rights, expected, "to write tenant: granted"]);
        let found = said(&jira, Audience::Any, &[]);
        assert_eq!(found, [rights, "to read limits: granted", "to write tenant: granted"]);
    }

    #[test]
    fn admin_is_named() {
        let admin = AdminConfig { who: AdminIdentity::Dns("ops.example".to_owned()) };
        let ops = Principal::Dns("ops.example".into());
        let found = said(&ops, Audience::Any, &[admin]);
        assert_eq!(found[0], "it is an admin (access.admin): it may write the grants");
        assert_eq!(found[1], "no consumer has this principal: it may do nothing else");
        assert_eq!(said(&ops, Audience::Any, &[])[0], "no consumer has this principal: it may do nothing");
    }
}
