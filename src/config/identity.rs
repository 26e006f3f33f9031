//! The callers to whom a route's replies belong.

use std::path::PathBuf;

use http::HeaderName;

use super::scope::{Collector, SettingScope};
use super::settings::Section;
use super::table::{Rows, Table, settings};
use super::tree::{Raw, TomlTable, Value};
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

settings! {
    /// A header whose value is a file's (trimmed) content, read again when the file changes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Credentials in Credentials {
        /// With `sidecar`: the file that holds what is sent, read again when it changes.
        file: PathBuf = CREDENTIALS_FILE(File, Required(""));
        /// With `sidecar`: the header it is sent in.
        header: HeaderName = CREDENTIALS_HEADER(Header, Is("authorization"));
        /// With `sidecar`: text that is put before it, such as `Bearer ` with its space.
        prefix: String = CREDENTIALS_PREFIX(Text, Is(""));
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
                Self::Sidecar(credentials(collector, scope))
            }
        }
    }
}

fn credentials(collector: &mut Collector, scope: &SettingScope) -> Credentials {
    let table = match scope.table.get("credentials") {
        Some(Raw { value: Value::Table(table), .. }) => table.clone(),
        other => {
            let place = other.map_or(&scope.table.place, |raw| &raw.place);
            let problem =
                ConfigProblem::new("identity = \"sidecar\" without credentials", Section::Credentials.example());
            collector.error(&CREDENTIALS_FILE, scope.item, place.clone(), problem);
            TomlTable::empty(place.clone())
        }
    };
    let inner = collector.checked_scope(table, Section::Credentials, scope.item);
    Credentials::read(collector, &inner)
}
