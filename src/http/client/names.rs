//! Resolves the names of regions as the C library would in the same place, without waiting for a
//! family or a search suffix that nobody answers, and reads changed settings again.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::SystemTime;

use futures_util::future::FutureExt;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::LookupIpStrategy;
use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

use crate::http::limits::{ABSENT_NAME_AGE, NAME_TRY_WAIT, NAME_WAIT, OTHER_FAMILY_WAIT};

/// Resolves a region's host name to addresses and keeps them for their TTL. Uses the C library's
/// resolver if there is no `resolv.conf` to read. Changed settings count from the next name on.
#[derive(Clone)]
pub(crate) struct Resolver {
    settings: Arc<Mutex<Settings>>,
}

struct Settings {
    stamps: Stamps,
    families: Option<Families>,
}

/// The settings' files as they were when they were read: modified, length, inode.
type Stamps = [Option<(SystemTime, u64, u64)>; 2];

/// A resolver for each address family, so that neither waits for the other.
#[derive(Clone)]
struct Families {
    v4: TokioResolver,
    v6: TokioResolver,
}

impl Families {
    fn read() -> Option<Self> {
        let one = |strategy| {
            let mut builder = TokioResolver::builder_tokio()?;
            let options = builder.options_mut();
            options.ip_strategy = strategy;
            options.negative_max_ttl = Some(ABSENT_NAME_AGE);
            // A search suffix that nobody answers is passed within NAME_WAIT.
            options.timeout = options.timeout.min(NAME_TRY_WAIT);
            options.attempts = options.attempts.min(1);
            builder.build()
        };
        let read = one(LookupIpStrategy::Ipv4Only).and_then(|v4| Ok((v4, one(LookupIpStrategy::Ipv6Only)?)));
        match read {
            Ok((v4, v6)) => Some(Self { v4, v6 }),
            Err(reason) => {
                tracing::info!(%reason, "no usable resolver settings");
                None
            }
        }
    }

    /// The addresses of whichever family answers first, and those of the other if they come within
    /// [`OTHER_FAMILY_WAIT`] (RFC 8305, 3). An answer without addresses waits for the other.
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let v4 = Self::of_one(&self.v4, name).boxed();
        let v6 = Self::of_one(&self.v6, name).boxed();
        let (first, other) = futures_util::future::select(v4, v6).await.factor_first();
        match first {
            Ok(mut addresses) if !addresses.is_empty() => {
                if let Ok(Ok(more)) = tokio::time::timeout(OTHER_FAMILY_WAIT, other).await {
                    addresses.extend(more);
                }
                // The connector begins with the family of the first.
                addresses.sort_by_key(IpAddr::is_ipv4);
                Ok(addresses)
            }
            _ => other.await,
        }
    }

    async fn of_one(resolver: &TokioResolver, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = resolver.lookup_ip(name).await.map_err(io::Error::other)?;
        Ok(found.iter().collect())
    }
}

impl Resolver {
    /// With the machine's settings. Must be called within a runtime.
    pub(crate) fn of_the_machine() -> Self {
        let settings = Settings { stamps: stamps(), families: Families::read() };
        Self { settings: Arc::new(Mutex::new(settings)) }
    }

    /// The resolvers, read again if a file of the settings has changed. What cannot be read does not
    /// replace what could.
    fn families(&self) -> Option<Families> {
        let stamps = stamps();
        // Assignments under the lock: a panic cannot leave them half-written.
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if settings.stamps != stamps {
            settings.stamps = stamps;
            if let Some(families) = Families::read() {
                tracing::info!("the resolver's settings changed and were read again");
                settings.families = Some(families);
            }
        }
        settings.families.clone()
    }

    async fn resolve(self, name: Name) -> io::Result<std::vec::IntoIter<SocketAddr>> {
        let addresses: Vec<SocketAddr> = match self.families() {
            Some(families) => {
                let found = tokio::time::timeout(NAME_WAIT, families.lookup(name.as_str())).await??;
                found.into_iter().map(|address| SocketAddr::new(address, 0)).collect()
            }
            None => tokio::net::lookup_host((name.as_str(), 0)).await?.collect(),
        };
        Ok(addresses.into_iter())
    }
}

fn stamps() -> Stamps {
    ["/etc/resolv.conf", "/etc/hosts"].map(|path| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.modified().ok()?, file.len(), file.ino()))
    })
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(self.clone().resolve(name))
    }
}
