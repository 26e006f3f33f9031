//! Rules of the Unix sockets: their paths, and settings that have no effect without them.

use crate::config::scope::Collector;
use crate::config::settings::Setting;
use crate::config::{Config, UnixSocket, limits, schema};

pub(super) fn check(collector: &mut Collector, config: &Config) {
    let (listen, admin) = (config.listen.unix.as_ref(), config.admin.unix.as_ref());
    check_socket(collector, listen, [&schema::LISTEN_UNIX, &schema::LISTEN_UNIX_MODE, &schema::LISTEN_UNIX_UIDS]);
    check_socket(collector, admin, [&schema::ADMIN_UNIX, &schema::ADMIN_UNIX_MODE, &schema::ADMIN_UNIX_UIDS]);
    if listen.zip(admin).is_some_and(|(listen, admin)| listen.path == admin.path) {
        let what = "same path as listen.unix: every caller could run admin commands".to_owned();
        collector.refuse(&schema::ADMIN_UNIX, None, what, "write a path of its own");
    }
}

fn check_socket(collector: &mut Collector, unix: Option<&UnixSocket>, [path, mode, uids]: [&'static Setting; 3]) {
    let length = unix.map_or(0, |unix| unix.path.as_os_str().len());
    if length > limits::SOCKET_PATH_BYTES {
        let suggestion = format!("write one of at most {} bytes: the kernel's limit", limits::SOCKET_PATH_BYTES);
        collector.refuse(path, None, format!("a path of {length} bytes"), &suggestion);
    }
    if unix.is_some() {
        return;
    }
    for setting in [mode, uids] {
        // Not `is_written`: who writes the default loses nothing when it has no effect.
        if collector.origins.is_changed(setting, None) {
            collector.warn_of(setting, None, format!("{} has no effect without {}", setting.path(), path.path()));
        }
    }
}
