//! Rules of `[admin]`: its socket, and settings that have no effect without it.

use super::super::scope::Collector;
use super::super::{Config, settings as schema};
use super::{refuse, warn};
use crate::config::limits;

pub(super) fn check(ledger: &mut Collector, config: &Config) {
    let Some(unix) = &config.admin.unix else {
        for setting in [&schema::ADMIN_UNIX_MODE, &schema::ADMIN_UNIX_UIDS] {
            if ledger.origins.is_changed(setting, None) {
                warn(ledger, setting, None, format!("{} has no effect without admin.unix", setting.path()));
            }
        }
        return;
    };
    let length = unix.path.as_os_str().len();
    if length > limits::SOCKET_PATH_BYTES {
        let instead = format!("write one of at most {} bytes: sockets take no more", limits::SOCKET_PATH_BYTES);
        refuse(ledger, &schema::ADMIN_UNIX, None, format!("a path of {length} bytes"), &instead);
    } else if config.listen.unix.as_ref().is_some_and(|listen| listen.path == unix.path) {
        let what = "the socket of listen.unix: every caller could act".to_owned();
        refuse(ledger, &schema::ADMIN_UNIX, None, what, "write a path of its own");
    }
}
