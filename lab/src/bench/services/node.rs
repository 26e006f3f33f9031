//! A node of a region as a subject, and the same table without a node. Each is a process of its
//! own, from the same executable, and both have the harness's table ([`super::troubled`]): what
//! differs is only what stands in front of it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use nearside::app::services::region::start_node;
use nearside::app::{Overrides, StartError, process as own_process};
use nearside::config::error::ConfigError;
use nearside::engine::{ItemKey, Table, Tables, bucket};
use nearside::region::node::{self, NodeSettings};
use nearside::tasks::Tasks;
use nearside::telemetry::log;
use tokio::net::TcpListener;
use url::Url;

pub(crate) use super::troubled::{FAILS, TableDay};
use crate::bench::announcer::Announcing;
use crate::bench::host::Host;
use crate::bench::process;
use crate::bench::sidecar;
use crate::bench::subject::{Address, Proof, Subject, SubjectError};
use crate::chaos_server::port;

/// The only view that it has, with bodies of 1 KiB.
pub(crate) const VIEW: &str = "kib";
pub(crate) const NODE: &str = "nearside, a node";
pub(crate) const TABLE: &str = "the table, without a node";
const REGION: &str = "eu-west-1";
/// The cache of the harness's sidecars, so that neither has more to look through.
const CACHE_BYTES: u64 = 256 << 20;

/// Why a node of the harness does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeError {
    #[error("its settings: {0:?}")]
    Settings(Vec<ConfigError>),
    #[error("its log: {0}")]
    Log(#[from] log::LogError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Order to a node of the harness.
#[derive(Clone, Debug)]
pub(crate) struct NodeOrder {
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    /// State of its table.
    pub day: TableDay,
    /// Its region's topic, and where SNS and SQS are.
    pub topic: String,
    pub endpoint: Url,
}

/// Serves as a node until the process is asked to stop.
pub(crate) async fn serve(order: NodeOrder) -> Result<(), NodeError> {
    let settings = NodeSettings {
        region: REGION.to_owned(),
        topic: Some(order.topic),
        listen: order.listen,
        hosts: Vec::new(),
        admin: order.admin,
        views: vec![VIEW.to_owned()],
    };
    let mut config = node::config(&settings).map_err(NodeError::Settings)?;
    config.drain.linger = Duration::ZERO;
    config.cache.max_bytes = Some(CACHE_BYTES);
    config.announcements.insecure_sns_signer = Some(order.endpoint.clone());
    config.announcements.endpoint_url = Some(order.endpoint);
    log::init(&config.log)?;
    let (tables, complete) = (Arc::new(order.day.tables()), Arc::new(AtomicBool::new(true)));
    let app = start_node(config, tables, complete, Overrides::default()).await?;
    own_process::stop_requested().await?;
    app.stop().await;
    Ok(())
}

/// Answers every request straight from the table, for ever: what a service does that has no store.
pub(crate) async fn serve_table(listen: SocketAddr, day: TableDay) -> std::io::Result<Infallible> {
    let (listener, tables) = (TcpListener::bind(listen).await?, Arc::new(day.tables()));
    port::serve(listener, Tasks::new(), "caller", move |request| straight(tables.clone(), request)).await;
    // Its tasks never stop.
    std::future::pending().await
}

async fn straight(tables: Arc<impl Tables>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let read = match item_of(request.uri().path()) {
        Some(key) => tables.get(Table::Contexts, &key).await.ok().flatten(),
        None => None,
    };
    let Some(body) = read.and_then(|item| item.body) else {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        return response;
    };
    let mut response = Response::new(Full::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert("x-record-version", HeaderValue::from_static("5"));
    response
}

fn item_of(path: &str) -> Option<ItemKey> {
    let (key, view) = path.strip_prefix("/v1/contexts/")?.split_once('/')?;
    Some(ItemKey::new(bucket::partition(view, key), key))
}

/// Starts a node with a live subscription to the first topic of `announcing`, and waits until it is
/// ready.
pub(crate) fn start(host: &Host, day: TableDay, announcing: &Announcing) -> Result<Subject, SubjectError> {
    let (listen, admin) = (process::free_port()?, process::free_port()?);
    let folder = host.folder("node")?;
    let topic = announcing.topics.first().cloned().unwrap_or_default();
    let arguments = [
        "bench".to_owned(),
        "node".to_owned(),
        format!("--listen={listen}"),
        format!("--admin={admin}"),
        format!("--day={day}"),
        format!("--topic={topic}"),
        format!("--endpoint={}", announcing.endpoint),
    ];
    let mut running = process::start(&host.harness, arguments, host.core, &folder)?;
    running.wait_until(|| sidecar::ready(admin).then_some(()))?;
    sidecar::wait_until_live(&mut running, admin, announcing)?;
    Ok(Subject {
        name: NODE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings: "its region's topic live over SQS, defaults".to_owned(),
        proof: sidecar::fresh_hit(),
        address: Address::Tcp(listen),
        process: Some(running),
    })
}

/// Starts the same table without a node.
pub(crate) fn start_table(host: &Host, day: TableDay) -> Result<Subject, SubjectError> {
    let listen = process::free_port()?;
    let folder = host.folder("table")?;
    let arguments = ["bench".to_owned(), "table".to_owned(), format!("--day={day}"), listen.to_string()];
    let mut running = process::start(&host.harness, arguments, host.core, &folder)?;
    running.wait_until(|| std::net::TcpStream::connect(listen).ok())?;
    Ok(Subject {
        name: TABLE.to_owned(),
        version: String::new(),
        settings: "each request reads it once".to_owned(),
        proof: Proof::Always,
        address: Address::Tcp(listen),
        process: Some(running),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_maps_to_nodes_item() {
        let key = item_of("/v1/contexts/k7/kib").unwrap();
        assert_eq!(key, ItemKey::new(bucket::partition("kib", "k7"), "k7"));
        assert_eq!(item_of("/v1/contexts/k7"), None);
    }
}
