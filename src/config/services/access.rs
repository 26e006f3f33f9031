//! `[access]`: who may read and who may write, as the services' file says it. The rights themselves
//! are a record ([`crate::access::record`]).

use std::path::PathBuf;
use std::time::Duration;

use crate::config::access::WhenUnknown;
use crate::config::table::{list, settings};
use crate::config::value::words;

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
        /// Longest time from now to the `exp` of a token; a longer one is refused.
        max_lifetime: Duration = ACCESS_MAX_LIFETIME(seconds(MINUTE, 7 * DAY), Is("24h")) Restart;
        /// Age of a node's grants from which `when_unknown` decides.
        max_age: Duration = ACCESS_MAX_AGE(seconds(MINUTE, 7 * DAY), Is("1h")) Restart;
        /// With grants older than that: `serve` goes on by them, `refuse` answers 503.
        when_unknown: WhenUnknown = ACCESS_WHEN_UNKNOWN(words::<WhenUnknown>(), Is("serve")) Restart;
        /// Those who sign tokens.
        issuers: Vec<IssuerConfig> = list[];
        /// Those who may write the grants, whatever the grants say.
        admins: Vec<AdminConfig> = list[];
    }
}

settings! {
    /// `[[access.issuer]]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct IssuerConfig in Issuer {
        /// The `iss` of its tokens, compared byte for byte.
        iss: String = ISSUER_ISS(Text, Required("https://issuer-{N}.invalid")) Restart;
        /// A file with its public keys, a JWK Set (RFC 7517); read again when it changes.
        keys: PathBuf = ISSUER_KEYS(File, Required("keys-{N}.json")) Restart;
        /// The claim that says who the caller is.
        subject: String = ISSUER_SUBJECT(Text, Is("sub")) Restart;
    }
}

settings! {
    /// `[[access.admin]]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AdminConfig in GrantsAdmin {
        /// The issuer of the admin's tokens.
        iss: String = ADMIN_ISS(Text, Required("https://issuer-{N}.invalid")) Restart;
        /// The subject of the admin's tokens, written out.
        sub: String = ADMIN_SUB(Text, Required("admin-{N}")) Restart;
    }
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
