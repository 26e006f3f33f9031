//! That no reader gets what was another's: cookies, replies that vary by what the key does not
//! hold, unrouted paths, and pages of other sites in a browser on this machine.

use super::wire::{Message, Say, Wire, exchange, reply, request};

mod browsers;
mod cookies;
mod unrouted;
mod vary;

/// One route, `/r/{key}`, and more of its settings.
fn route(more: &str) -> String {
    format!("[[service.route]]\npath = \"/r/{{key}}\"\nrecords = [\"thing:{{key}}\"]\n{more}\n")
}

/// A route that asks with the sidecar's own token, which `file` holds.
fn sidecar(file: &std::path::Path) -> String {
    std::fs::write(file, "own").unwrap();
    let file = file.display();
    route(&format!("identity = \"sidecar\"\ncredentials = {{ file = \"{file}\" }}"))
}
