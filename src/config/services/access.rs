//! `[access]`: who may read and who may write, as the services' file says it. The rights themselves
//! are a record ([`crate::access::record`]).

use std::path::PathBuf;
use std::time::Duration;

use crate::config::access::WhenUnknown;
use crate::config::error::{ConfigProblem, Place};
use crate::config::issuers::{IssuerConfig, TrustedIssuers};
use crate::config::scope::{Collector, SettingScope};
use crate::config::settings::Setting;
use crate::config::table::{Rows, list, settings};
use crate::config::value::words;
use crate::model::identities::{is_dns_name, is_spiffe_id};

settings! {
    /// `[access]`
    #[derive(Clone, Debug)]
    pub struct AccessConfig in Access {
        /// `observe` counts what `enforce` would refuse, and refuses nothing.
        mode: AccessMode = ACCESS_MODE(words::<AccessMode>(), Is("off")) Restart;
        /// Audience (`aud`) of tokens for the catalogue.
        catalogue_audience: String = ACCESS_CATALOGUE_AUDIENCE(Text, Is("")) Restart;
        /// Audience (`aud`) of tokens for the regions' nodes; another one than the catalogue's.
        region_audience: String = ACCESS_REGION_AUDIENCE(Text, Is("")) Restart;
        /// Audience (`aud`) of tokens for the services' admin ports, where other machines reach these.
        operate_audience: String = ACCESS_OPERATE_AUDIENCE(Text, Is("")) Restart;
        /// Longest time from now to the `exp` of a token; a longer one is refused.
        max_lifetime: Duration = ACCESS_MAX_LIFETIME(seconds(MINUTE, 7 * DAY), Is("24h")) Restart;
        /// Age of a node's grants from which `when_unknown` decides.
        max_age: Duration = ACCESS_MAX_AGE(seconds(MINUTE, 7 * DAY), Is("1h")) Restart;
        /// With grants older than that: `serve` goes on by them, `refuse` answers 503.
        when_unknown: WhenUnknown = ACCESS_WHEN_UNKNOWN(words::<WhenUnknown>(), Is("serve")) Restart;
        /// Age from which keys that were fetched from an issuer are no longer used.
        max_key_age: Duration = ACCESS_MAX_KEY_AGE(seconds(10 * MINUTE, 7 * DAY), Is("24h")) Restart;
        /// A file with principals and consumers that may do nothing, whatever the grants say.
        deny_file: Option<PathBuf> = ACCESS_DENY_FILE(File, Is("")) Restart;
        /// Those who sign tokens.
        issuers: Vec<IssuerConfig> = list[];
        /// Those who may write the grants, whatever the grants say.
        admins: Vec<AdminConfig> = list[];
    }
}

settings! {
    /// `[[access.admin]]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AdminConfig in GrantsAdmin {
        /// Who may write the grants: by tokens, or by client certificates.
        who: AdminIdentity = admin_identity[
            /// The issuer of the admin's tokens.
            ADMIN_ISS("iss", Text, Is(""));
            /// The subject of the admin's tokens, written out.
            ADMIN_SUB("sub", Text, Is(""));
            /// The SPIFFE ID of the admin's client certificates, written out, in place of `iss` and `sub`.
            ADMIN_SPIFFE("spiffe", Text, Is(""));
            /// The only DNS name of the admin's client certificates, in place of `iss` and `sub`.
            ADMIN_DNS("dns", Text, Is(""));
        ] Restart;
    }
}

impl AccessConfig {
    /// Issuers whose tokens are believed at a port with this audience.
    #[must_use]
    pub fn trusted(&self, audience: &str) -> TrustedIssuers {
        let own = [&self.catalogue_audience, &self.region_audience, &self.operate_audience];
        TrustedIssuers {
            issuers: self.issuers.clone(),
            audience: audience.to_owned(),
            own_audiences: own.into_iter().filter(|audience| !audience.is_empty()).cloned().collect(),
            max_lifetime: self.max_lifetime,
            max_key_age: self.max_key_age,
        }
    }
}

/// Proof by which an admin is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminIdentity {
    /// Tokens of this issuer and subject.
    Token { iss: String, sub: String },
    /// Client certificates with this SPIFFE ID.
    Spiffe(String),
    /// Client certificates with this DNS name.
    Dns(String),
}

fn admin_identity(collector: &mut Collector, scope: &SettingScope, settings: Rows<4>) -> AdminIdentity {
    let written = settings.map(|setting: &'static Setting| scope.get::<Option<String>>(collector, setting));
    let (setting, what, suggestion) = match written {
        [Some(iss), Some(sub), None, None] => return AdminIdentity::Token { iss, sub },
        [None, None, Some(id), None] if is_spiffe_id(&id) => return AdminIdentity::Spiffe(id),
        [None, None, None, Some(name)] if is_dns_name(&name) => return AdminIdentity::Dns(name),
        [None, None, Some(_), None] => {
            let suggestion = "write `spiffe://trust-domain/path`, without escapes, dots, empty segments or `*`";
            (&ADMIN_SPIFFE, "it is no SPIFFE ID that a certificate could have", suggestion)
        }
        [None, None, None, Some(_)] => {
            let what = "it is no DNS name in lower case, or it is an address";
            (&ADMIN_DNS, what, "write it as in the certificate, in lower case")
        }
        _ => (&ADMIN_ISS, "an admin is one principal", "write iss and sub, or spiffe, or dns"),
    };
    let written = collector.origins.place(setting, scope.item);
    let place = if written == Place::Default { scope.table.place.clone() } else { written };
    collector.error(setting, scope.item, place, ConfigProblem::new(what, suggestion));
    AdminIdentity::Dns(String::new())
}

words! {
    /// Extent to which callers are checked.
    #[derive(Default)]
    pub enum AccessMode {
        #[default]
        Off,
        Observe,
        Enforce,
    }
}
