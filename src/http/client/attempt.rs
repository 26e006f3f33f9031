//! One try at one region over a socket: [`HttpOrigin`], the real [`Origin`]. It gives a complete
//! [`Reply`], or the [`Failure`] that says why there is none.
//!
//! The bytes of the target are the caller's, and those of the body the region's, unchanged.
//! Redirects are not followed, proxies not used, codings not decoded. Nothing that is too large,
//! too slow or truncated becomes a `Reply`. A request that a region may have acted on is never sent
//! twice unless it is safe.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::StreamExt;
use http::HeaderName;

use super::incoming;
use super::names::Resolver;
use super::site::Site;
use crate::config::UrlPerRegion;
use crate::config::grants_version::GRANTS_VERSION;
use crate::http::bodies::ByteBudget;
use crate::http::exchange::{Failure, Origin, Outgoing, Reply, Streamed};
use crate::http::fields::end_to_end;
use crate::model::ids::RegionId;
use crate::model::time::Clock;

pub(crate) struct HttpOrigin {
    pub(crate) sites: Vec<Arc<Site>>,
    /// Services that routes name for their candidates.
    pub(crate) others: Vec<(UrlPerRegion, Arc<HttpOrigin>)>,
    pub(crate) version_header: HeaderName,
    pub(crate) resolver: Resolver,
    pub(crate) clock: Clock,
    pub(crate) bodies: Arc<ByteBudget>,
}

/// Why the regions' clients cannot be built. The operator has to fix it; no retry helps.
#[derive(Debug, thiserror::Error)]
pub enum UnusableClient {
    /// A region is reached over TLS and the machine has no usable CA certificates.
    #[error("no usable CA certificates on this machine, and a region's URL is https: {0}")]
    Certificates(rustls::Error),
    /// A file of a region's `tls` cannot be used.
    #[error("region {region:?}: {what}")]
    Tls {
        region: String,
        /// Fault, and its remedy.
        what: String,
    },
    /// A region's URL has a host that no certificate can name.
    #[error("region {region:?}: its host {host:?} cannot be reached over TLS")]
    Host { region: String, host: String },
    /// A region's URL has no scheme and authority to connect to.
    #[error("region {region:?}: its URL names no host")]
    Url { region: String },
}

impl HttpOrigin {
    /// Keeps a connection to every region, so that no caller pays for setting one up: opens one at
    /// the start and whenever there is none, and a successor to one that has grown old. Sends no
    /// request. Returns when a reload has replaced everything that this call began with; `app`
    /// spawns it and drops it when it stops.
    pub(crate) async fn keep_warm(&self) {
        let others = self.others.iter().flat_map(|(_, other)| &other.sites);
        let new = self.sites.iter().chain(others).filter(|site| !site.is_kept_warm.swap(true, Ordering::Relaxed));
        futures_util::future::join_all(new.map(|site| site.keep_warm())).await;
    }

    fn site(&self, region: RegionId) -> Arc<Site> {
        self.sites[region.index()].clone()
    }
}

impl Origin for HttpOrigin {
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        let site = self.site(region);
        async move {
            let mut late = pin!(tokio::time::sleep(within));
            let opened = tokio::select! {
                opened = site.open(&request) => opened?,
                () = &mut late => return Err(Failure::Deadline { within, head: false }),
            };
            tokio::select! {
                reply = site.read(opened) => reply,
                () = late => Err(Failure::Deadline { within, head: true }),
            }
        }
        .boxed()
    }

    fn open(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Streamed, Failure>> {
        let site = self.site(region);
        async move {
            let opened = tokio::time::timeout(within, site.open(&request)).await;
            let opened = opened.map_err(|_| Failure::Deadline { within, head: false })??;
            let (mut head, body) = opened.response.into_parts();
            // Nobody is shown it, and what is passed on is never stored.
            head.headers.remove(&GRANTS_VERSION);
            let headers = end_to_end(&head.headers);
            let versions = incoming::versions(&head.headers, &site.version_header);
            let stream = opened.stream;
            let body = incoming::chunks(body, opened.line, move |line| {
                // Held until the body has ended or is dropped.
                let _ = &stream;
                site.free(line);
            });
            Ok(Streamed { region, status: head.status, headers, versions, body: body.boxed() })
        }
        .boxed()
    }

    fn base(&self, region: RegionId) -> Option<String> {
        Some(self.site(region).address.base.clone())
    }

    fn elsewhere(&self, url: &UrlPerRegion) -> Option<Arc<dyn Origin>> {
        let (_, other) = self.others.iter().find(|(known, _)| known == url)?;
        Some(other.clone())
    }
}

#[cfg(test)]
mod tests;
