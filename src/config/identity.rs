//! The callers to whom a route's replies belong.

use std::fmt;

use http::{HeaderName, header};

use super::credentials::{CREDENTIALS_FILE, Credentials};
use super::scope::{Collector, SettingScope};
use super::settings::Setting;
use super::table::Rows;
use super::value::words;
use crate::config::error::ConfigProblem;

/// Owner of an entry's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityMode {
    /// Private to the values of these headers, which also go to the regions.
    Exact(Vec<HeaderName>),
    /// Any caller may read; the sidecar uses credentials of its own and drops the caller's.
    Sidecar(Credentials),
    /// Shared by all whom the regions' grants allow it: each caller's `Authorization` goes to the regions,
    /// and what is stored is served under a permit that they gave to it (R22).
    Granted,
    /// Shared by callers whose tokens, which the sidecar verifies, make these claims; each caller's
    /// `Authorization` goes to the regions.
    Verified(Claims),
}

/// Claims by which a service decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claims {
    /// All but those that tell one token of a caller from the next.
    All,
    Named(Vec<String>),
}

impl Claims {
    /// Claims that differ from token to token (RFC 7519, section 4.1).
    const OF_ONE_TOKEN: [&str; 4] = ["exp", "iat", "nbf", "jti"];

    /// Returns whether the claim `name` tells callers apart. The issuer always does.
    pub fn tells_apart(&self, name: &str) -> bool {
        match self {
            Self::All => !Self::OF_ONE_TOKEN.contains(&name),
            Self::Named(names) => name == "iss" || names.iter().any(|named| named == name),
        }
    }
}

impl fmt::Display for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(f, "all claims but {}", Self::OF_ONE_TOKEN.join(", ")),
            Self::Named(names) => f.write_str(&names.join(", ")),
        }
    }
}

/// The header by which regions know a caller that presents a token.
static CALLER: [HeaderName; 1] = [header::AUTHORIZATION];

words! {
    pub(super) enum IdentityWord {
        Exact,
        Sidecar,
        Granted,
        Verified,
    }
}

impl IdentityMode {
    /// Headers by which regions know a caller: they go along with its requests.
    pub fn headers(&self) -> &[HeaderName] {
        match self {
            Self::Exact(names) => names.as_slice(),
            Self::Sidecar(_) => &[],
            Self::Granted | Self::Verified(_) => &CALLER,
        }
    }

    /// Headers whose values, or what these mean, are in the keys of replies.
    pub fn keyed(&self) -> &[HeaderName] {
        match self {
            Self::Exact(names) => names.as_slice(),
            Self::Verified(_) => &CALLER,
            Self::Sidecar(_) | Self::Granted => &[],
        }
    }

    /// Credentials of the sidecar's own.
    pub const fn own(&self) -> Option<&Credentials> {
        match self {
            Self::Sidecar(own) => Some(own),
            Self::Exact(_) | Self::Granted | Self::Verified(_) => None,
        }
    }

    /// True if all who may read share what is stored.
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Sidecar(_) | Self::Granted)
    }

    /// True if all callers share what is stored, each by the regions' grants.
    pub const fn is_granted(&self) -> bool {
        matches!(self, Self::Granted)
    }

    /// True if nothing that is stored is served without a permit.
    pub const fn needs_permits(&self) -> bool {
        matches!(self, Self::Granted | Self::Verified(_))
    }

    /// Claims that tell callers apart.
    pub const fn claims(&self) -> Option<&Claims> {
        match self {
            Self::Verified(claims) => Some(claims),
            Self::Exact(_) | Self::Sidecar(_) | Self::Granted => None,
        }
    }

    /// Reads what belongs to the mode that is written, and refuses what belongs to the other.
    pub(super) fn read(collector: &mut Collector, scope: &SettingScope, rows: Rows<3>) -> Self {
        let [identity, headers, claims] = rows;
        let word = scope.get(collector, identity);
        let named: Vec<String> = scope.get(collector, claims);
        if word != IdentityWord::Verified && !named.is_empty() {
            let what = "claims on a route that does not verify its callers' tokens".to_owned();
            collector.refuse(claims, scope.item, what, "write identity = \"verified\", or remove them");
        }
        match word {
            IdentityWord::Exact => {
                refuse_credentials(collector, scope);
                Self::Exact(scope.get(collector, headers))
            }
            IdentityWord::Sidecar => {
                refuse_headers(collector, scope, headers, "a route that asks with the sidecar's credentials");
                Self::Sidecar(Credentials::of_route(collector, scope))
            }
            IdentityWord::Granted => {
                refuse_credentials(collector, scope);
                refuse_headers(collector, scope, headers, "a route whose callers are known by `Authorization` alone");
                Self::Granted
            }
            IdentityWord::Verified => {
                refuse_credentials(collector, scope);
                refuse_headers(collector, scope, headers, "a route whose callers are known by claims");
                Self::Verified(claims_of(collector, scope, claims, named))
            }
        }
    }
}

fn refuse_credentials(collector: &mut Collector, scope: &SettingScope) {
    if let Some(raw) = scope.table.get("credentials") {
        let problem = ConfigProblem::new(
            "credentials on a route whose callers send their own",
            "write identity = \"sidecar\", or remove the credentials",
        );
        collector.error(&CREDENTIALS_FILE, scope.item, raw.place.clone(), problem);
    }
}

fn refuse_headers(collector: &mut Collector, scope: &SettingScope, headers: &'static Setting, of: &str) {
    if let Some(raw) = scope.table.get(headers.key) {
        let problem =
            ConfigProblem::new(format!("identity headers on {of}"), "remove them, or write identity = \"exact\"");
        collector.error(headers, scope.item, raw.place.clone(), problem);
    }
}

/// The claims that are named; there is no default, because each that is left out is shared across.
fn claims_of(
    collector: &mut Collector,
    scope: &SettingScope,
    setting: &'static Setting,
    names: Vec<String>,
) -> Claims {
    if names.is_empty() {
        let place = scope.table.get(setting.key).map_or_else(|| scope.table.place.clone(), |raw| raw.place.clone());
        let problem = ConfigProblem::new(
            "no claims, and nothing else tells callers apart",
            "name every claim that the service decides by, such as claims = [\"tenant\", \"scope\"], or write \
             claims = [\"all\"]",
        );
        collector.error(setting, scope.item, place, problem);
    }
    if names == ["all"] { Claims::All } else { Claims::Named(names) }
}
