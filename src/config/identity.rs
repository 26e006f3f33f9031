//! The callers to whom a route's replies belong.

use http::HeaderName;

use super::credentials::{CREDENTIALS_FILE, Credentials};
use super::scope::{Collector, SettingScope};
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
}

words! {
    pub(super) enum IdentityWord {
        Exact,
        Sidecar,
    }
}

impl IdentityMode {
    /// Reads what belongs to the mode that is written, and refuses what belongs to the other.
    pub(super) fn read(collector: &mut Collector, scope: &SettingScope, [identity, headers]: Rows<2>) -> Self {
        match scope.get(collector, identity) {
            IdentityWord::Exact => {
                if let Some(raw) = scope.table.get("credentials") {
                    let problem = ConfigProblem::new(
                        "credentials on a route whose callers send their own",
                        "write identity = \"sidecar\", or remove the credentials",
                    );
                    collector.error(&CREDENTIALS_FILE, scope.item, raw.place.clone(), problem);
                }
                Self::Exact(scope.get(collector, headers))
            }
            IdentityWord::Sidecar => {
                if let Some(raw) = scope.table.get(headers.key) {
                    let problem = ConfigProblem::new(
                        "identity headers on a route that asks with the sidecar's credentials",
                        "remove them, or write identity = \"exact\"",
                    );
                    collector.error(headers, scope.item, raw.place.clone(), problem);
                }
                Self::Sidecar(Credentials::of_route(collector, scope))
            }
        }
    }
}
