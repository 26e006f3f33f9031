//! The callers to whom a route's replies belong.

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
}

/// The header by which regions know a caller with a grant.
static CALLER: [HeaderName; 1] = [header::AUTHORIZATION];

words! {
    pub(super) enum IdentityWord {
        Exact,
        Sidecar,
        Granted,
    }
}

impl IdentityMode {
    /// Headers by which regions know a caller: they go along with its requests.
    pub fn headers(&self) -> &[HeaderName] {
        match self {
            Self::Exact(names) => names.as_slice(),
            Self::Sidecar(_) => &[],
            Self::Granted => &CALLER,
        }
    }

    /// Headers whose values are in the keys of replies.
    pub fn keyed(&self) -> &[HeaderName] {
        match self {
            Self::Exact(names) => names.as_slice(),
            Self::Sidecar(_) | Self::Granted => &[],
        }
    }

    /// Credentials of the sidecar's own.
    pub const fn own(&self) -> Option<&Credentials> {
        match self {
            Self::Sidecar(own) => Some(own),
            Self::Exact(_) | Self::Granted => None,
        }
    }

    /// True if all who may read share what is stored.
    pub const fn is_shared(&self) -> bool {
        !matches!(self, Self::Exact(_))
    }

    /// True if nothing that is stored is served without a permit.
    pub const fn is_granted(&self) -> bool {
        matches!(self, Self::Granted)
    }

    /// Reads what belongs to the mode that is written, and refuses what belongs to the other.
    pub(super) fn read(collector: &mut Collector, scope: &SettingScope, [identity, headers]: Rows<2>) -> Self {
        match scope.get(collector, identity) {
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
