//! Builds the regions' clients, and rebuilds those that a reload changes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::{HeaderValue, Uri};
use rustls::ClientConfig;
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::attempt::{HttpOrigin, UnusableClient};
use super::connect::Connector;
use super::names::Resolver;
use super::site::{Address, Outage, Reached, Site};
use super::tls;
use crate::config::certificates::{self, Certificates};
use crate::config::{self, Config, RegionTls};
use crate::http::bodies::ByteBudget;
use crate::http::client::http1_pool::Http1Pool;
use crate::http::client::http2_pool::Http2Pool;
use crate::model::ids::RegionId;
use crate::model::time::Clock;

/// TLS settings for one region.
#[derive(Clone, Default)]
struct Trust {
    /// `None` over plain http.
    settings: Option<Arc<ClientConfig>>,
    digest: [u8; 32],
}

impl Site {
    /// Closes its connections as soon as nothing is under way over them.
    fn let_go(&self) {
        self.replaced.cancel();
        self.lines.let_go();
        self.streams.let_go();
        self.connector.let_go();
    }
}

impl HttpOrigin {
    /// Clients for every configured region, whose replies are held under `bodies`. Must be called
    /// within a runtime.
    ///
    /// # Errors
    /// See [`UnusableClient`].
    pub(crate) fn new(config: &Config, clock: Clock, bodies: &Arc<ByteBudget>) -> Result<Self, UnusableClient> {
        let service = &config.service;
        let none = Self {
            sites: Vec::new(),
            others: Vec::new(),
            version_header: service.version_header.clone(),
            resolver: Resolver::of_the_machine(),
            clock,
            bodies: bodies.clone(),
        };
        none.renewed_for(service)
    }

    /// Renews them with the services that routes name for their candidates.
    ///
    /// # Errors
    /// See [`UnusableClient`].
    pub(crate) fn renewed_for(&self, service: &config::Service) -> Result<Self, UnusableClient> {
        self.resolver.reread();
        let mut renewed = self.renewed(&service.regions)?;
        let urls = service.routes.iter().filter_map(|route| route.candidate.as_ref()?.url.as_ref());
        for url in urls {
            if renewed.others.iter().any(|(known, _)| known == url) {
                continue;
            }
            let regions = service
                .regions
                .iter()
                .map(|region| {
                    let moved =
                        url.of(&region.name).ok_or_else(|| UnusableClient::Url { region: region.name.clone() })?;
                    Ok(config::RegionConfig { url: moved, ..region.clone() })
                })
                .collect::<Result<Vec<_>, _>>()?;
            let other = match self.others.iter().find(|(known, _)| known == url) {
                Some((_, before)) => before.renewed(&regions)?,
                None => self.renewed(&[])?.renewed(&regions)?,
            };
            renewed.others.push((url.clone(), Arc::new(other)));
        }
        Ok(renewed)
    }

    /// Clients for the same regions in the same order, as they are reached now. Those for which
    /// nothing has changed, including the content of their certificate files, are kept with their
    /// connections. The others are still in use here: call [`HttpOrigin::give_way`] when nobody
    /// asks for them any more.
    ///
    /// # Errors
    /// See [`UnusableClient`].
    pub(crate) fn renewed(&self, regions: &[config::RegionConfig]) -> Result<Self, UnusableClient> {
        let mut platform = None;
        let sites = (0..).map(RegionId).zip(regions).map(|(id, region)| self.site_for(id, region, &mut platform));
        let sites = sites.collect::<Result<_, _>>()?;
        Ok(Self {
            sites,
            others: Vec::new(),
            version_header: self.version_header.clone(),
            resolver: self.resolver.clone(),
            clock: self.clock.clone(),
            bodies: self.bodies.clone(),
        })
    }

    /// The indices of the regions that are reached in another way than in `before`.
    pub(crate) fn differ(&self, before: &Self) -> Vec<usize> {
        let both = self.sites.iter().zip(&before.sites).enumerate();
        both.filter(|(_, (site, before))| !Arc::ptr_eq(site, before)).map(|(place, _)| place).collect()
    }

    /// Closes the connections that `renewed` does not use, as soon as nothing is under way over
    /// them.
    pub(crate) fn give_way(&self, renewed: &Self) {
        renewed.differ(self).into_iter().for_each(|place| self.sites[place].let_go());
        for (url, other) in &self.others {
            match renewed.others.iter().find(|(known, _)| known == url) {
                Some((_, renewed)) => other.give_way(renewed),
                None => other.sites.iter().for_each(|site| site.let_go()),
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn of(
        regions: &[config::RegionConfig],
        version_header: &http::HeaderName,
        settings: Option<Arc<ClientConfig>>,
        clock: Clock,
        bodies: &Arc<ByteBudget>,
    ) -> Result<Self, UnusableClient> {
        let resolver = Resolver::of_the_machine();
        let bodies = bodies.clone();
        let mut origin = Self {
            sites: Vec::new(),
            others: Vec::new(),
            version_header: version_header.clone(),
            resolver,
            clock,
            bodies,
        };
        let sites = (0u8..)
            .zip(regions)
            .map(|(id, region)| {
                let settings = settings.clone().filter(|_| region.url.scheme() == "https");
                origin.build(RegionId(id), region, Trust { settings, digest: [0; 32] }).map(Arc::new)
            })
            .collect::<Result<_, _>>()?;
        origin.sites = sites;
        Ok(origin)
    }

    /// The site that is there already if it leads to the same place, else a new one.
    fn site_for(
        &self,
        id: RegionId,
        region: &config::RegionConfig,
        platform: &mut Option<Arc<ClientConfig>>,
    ) -> Result<Arc<Site>, UnusableClient> {
        let read = certificates(region, &self.clock)?;
        let digest = read.as_ref().map_or([0; 32], |read| read.digest);
        let reached = Reached { url: region.url.clone(), certificates: digest };
        if let Some(site) = self.sites.get(id.index()).filter(|site| site.reached == reached) {
            return Ok(site.clone());
        }
        let settings = match read {
            None => None,
            Some(read) => Some(settings(region, read, platform)?),
        };
        self.build(id, region, Trust { settings, digest }).map(Arc::new)
    }

    fn build(&self, id: RegionId, region: &config::RegionConfig, trust: Trust) -> Result<Site, UnusableClient> {
        let uri = authority(&region.url).ok_or_else(|| UnusableClient::Url { region: region.name.clone() })?;
        let connector = Connector::new(uri, trust.settings, self.resolver.clone(), self.clock.clone())
            .map_err(|host| UnusableClient::Host { region: region.name.clone(), host })?;
        Ok(Site {
            region: id,
            name: region.name.clone(),
            address: Address {
                base: region.url.as_str().trim_end_matches('/').to_owned(),
                prefix: region.url.path().trim_end_matches('/').to_owned(),
                host: host(&region.url),
            },
            version_header: self.version_header.clone(),
            clock: self.clock.clone(),
            lines: Http1Pool::new(connector.clone(), self.clock.clone()),
            streams: Http2Pool::new(connector.clone(), self.clock.clone()),
            connector,
            bodies: self.bodies.clone(),
            meeting: Mutex::default(),
            successor: Notify::new(),
            outage: Outage::default(),
            is_kept_warm: AtomicBool::new(false),
            reached: Reached { url: region.url.clone(), certificates: trust.digest },
            replaced: CancellationToken::new(),
        })
    }
}

/// Certificates that the region's `tls` names; `None` if it is asked over plain http.
fn certificates(region: &config::RegionConfig, clock: &Clock) -> Result<Option<Certificates>, UnusableClient> {
    if region.url.scheme() != "https" {
        return Ok(None);
    }
    certificates::read(&region.tls, clock.wall()).map(Some).map_err(|unusable| UnusableClient::Tls {
        region: region.name.clone(),
        what: format!("{}: {}; {}", unusable.setting.path(), unusable.wrong.what, unusable.wrong.suggestion),
    })
}

/// TLS for one region. Those without settings of their own share the one in `platform`.
fn settings(
    region: &config::RegionConfig,
    read: Certificates,
    platform: &mut Option<Arc<ClientConfig>>,
) -> Result<Arc<ClientConfig>, UnusableClient> {
    if region.tls != RegionTls::default() {
        return tls::settings(read)
            .map(Arc::new)
            .map_err(|error| UnusableClient::Tls { region: region.name.clone(), what: error.to_string() });
    }
    if let Some(known) = platform {
        return Ok(known.clone());
    }
    let made = Arc::new(tls::settings(read).map_err(UnusableClient::Certificates)?);
    Ok(platform.insert(made).clone())
}

/// The region's own authority, without its scheme's default port.
fn host(url: &Url) -> Option<HeaderValue> {
    let host = url.host_str()?;
    let text = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    HeaderValue::from_str(&text).ok()
}

/// Scheme, host and port of a region's URL: what a connection is opened to.
fn authority(url: &Url) -> Option<Uri> {
    let host = url.host_str()?;
    let port = url.port_or_known_default()?;
    format!("{}://{host}:{port}/", url.scheme()).parse().ok()
}
