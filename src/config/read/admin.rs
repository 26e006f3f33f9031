//! Reads `[admin]`, as part of a configuration or from the environment alone.

use super::super::scope::Collector;
use super::super::settings::{self as schema, Section};
use super::super::tree::TomlTable;
use super::super::{Admin, UnixSocket, checks, value, variables};
use crate::config::error::ConfigError;

/// What the environment alone says about the admin side, for a command that is given no file.
///
/// # Errors
/// Every mistake in the variables of this section.
pub fn admin_alone(env: impl Iterator<Item = (String, String)>) -> Result<Admin, Vec<ConfigError>> {
    let ours: Vec<String> = schema::of(Section::Admin).map(|setting| setting.variable()).collect();
    let mut root = variables::nowhere();
    let (strays, warnings) =
        variables::overlay(&schema::SIDECAR, &mut root, env.filter(|(known, _)| ours.contains(known)));
    let mut ledger = Collector::new(&schema::SIDECAR, root.place.clone());
    ledger.mistakes = strays;
    ledger.origins.warnings = warnings;
    let (admin, _) = settings(&mut ledger, &root);
    if ledger.mistakes.is_empty() { Ok(admin) } else { Err(ledger.mistakes) }
}

pub(super) fn read(ledger: &mut Collector, root: &TomlTable) -> Admin {
    let (admin, allow_non_loopback) = settings(ledger, root);
    if !admin.listen.ip().is_loopback() && !allow_non_loopback {
        checks::refuse_non_loopback(ledger, &schema::ADMIN_LISTEN, &schema::ADMIN_ALLOW_NON_LOOPBACK, admin.listen);
    }
    admin
}

/// The settings, and whether other machines may reach the address. Only a sidecar checks the
/// latter; a client does not need it.
fn settings(ledger: &mut Collector, root: &TomlTable) -> (Admin, bool) {
    let scope = ledger.table(root, Section::Admin, Section::Admin.path());
    let listen = scope.given(ledger, &schema::ADMIN_LISTEN, value::address);
    let allow_non_loopback = scope.given(ledger, &schema::ADMIN_ALLOW_NON_LOOPBACK, value::flag);
    let path = scope.optional(ledger, &schema::ADMIN_UNIX, value::file);
    let mode = scope.given(ledger, &schema::ADMIN_UNIX_MODE, value::mode);
    let uids = scope.given(ledger, &schema::ADMIN_UNIX_UIDS, value::uids);
    let token_file = scope.optional(ledger, &schema::ADMIN_TOKEN_FILE, value::file);
    (Admin { listen, unix: path.map(|path| UnixSocket { path, mode, uids }), token_file }, allow_non_loopback)
}
