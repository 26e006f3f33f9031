//! A node: a sidecar's own request path whose only region is a table. What differs from a sidecar is in
//! its configuration: [`config`] makes it, and [`super::origin`] is what it asks.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ingest::is_complete;
use super::limits::COMPLETE_LOOK;
use crate::config::error::ConfigError;
use crate::config::{Config, read};
use crate::engine::Tables;

/// Settings that differ from node to node.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The region's name.
    pub region: String,
    /// The region's own topic; without one nothing that is stored holds for long.
    pub topic: Option<String>,
    /// Address at which sidecars reach it.
    pub listen: SocketAddr,
    /// The names that sidecars call it by, besides loopback ones and addresses.
    pub hosts: Vec<String>,
    pub admin: SocketAddr,
    /// The views that it answers for.
    pub views: Vec<String>,
}

/// The configuration of a node: one region, and one route per view, shared by all callers.
///
/// # Errors
/// What is wrong with the names, as for any configuration.
pub fn config(settings: &NodeSettings) -> Result<Config, Vec<ConfigError>> {
    let NodeSettings { region, topic, listen, hosts, admin, views } = settings;
    let mut text = format!(
        "[service]\nname = {region}\n\
         [[service.region]]\nname = {region}\nurl = \"http://127.0.0.1:1\"\n",
        region = quoted(region)
    );
    let transport = match topic {
        Some(topic) => {
            let _ = writeln!(text, "topic = {}", quoted(topic));
            "sqs"
        }
        None => "off",
    };
    for view in views {
        let (path, record) = (format!("/v1/contexts/{{key}}/{view}"), format!("{view}:{{key}}"));
        let batch = format!("/v1/batch/{view}");
        let _ = write!(
            text,
            "[[service.route]]\npath = {}\nrecords = [{}]\nidentity_headers = []\nbatch = {}\n",
            quoted(&path),
            quoted(&record),
            quoted(&batch)
        );
    }
    let hosts: Vec<String> = hosts.iter().map(|host| quoted(host)).collect();
    let _ = write!(
        text,
        "[listen]\ntcp = \"{listen}\"\nallow_non_loopback = {}\nallowed_hosts = [{}]\n\
         [admin]\nlisten = \"{admin}\"\n[announcements]\ntransport = \"{transport}\"\n",
        !listen.ip().is_loopback(),
        hosts.join(", ")
    );
    let mut config = read::from_toml(&text)?;
    config.service.authoritative = true;
    Ok(config)
}

/// Has a node answer in zstd who asks for that.
pub fn compress(config: &mut Config) {
    config.service.routes.iter_mut().for_each(|route| route.payload.zstd = true);
}

/// Keeps `complete` as the region is, for as long as it is polled. The ingester may be another
/// process, so the table is asked.
pub async fn watch_completeness(own: &dyn Tables, complete: &AtomicBool) {
    loop {
        // A table that does not answer has not become incomplete.
        if let Ok(is) = is_complete(own).await {
            complete.store(is, Ordering::Release);
        }
        tokio::time::sleep(COMPLETE_LOOK).await;
    }
}

/// As a TOML string, which is written like JSON's.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
