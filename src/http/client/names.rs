//! Resolves the names of outgoing calls as the C library would in the same place, without waiting
//! for a family, a server or a search suffix that nobody answers, and reads changed settings again.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::dns::Name;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower_service::Service;

use self::local::LocalNames;
use self::servers::Servers;
use crate::http::limits::NAME_WAIT;
use crate::tasks::file_stamp::FileStamp;

mod local;
mod order;
mod servers;

/// Time after which settings that could not be read are read again, though they have not changed.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Resolves a host name to addresses and keeps them for their TTL. Uses the C library's resolver if
/// there is no `resolv.conf` to read. Changed settings count from the next name on.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    files: Arc<Files>,
    settings: Arc<Mutex<Settings>>,
}

/// Paths of the settings.
#[derive(Debug)]
struct Files {
    resolv_conf: PathBuf,
    hosts: PathBuf,
}

#[derive(Debug)]
struct Settings {
    /// `None` when they are to be read again in any case.
    stamps: Option<Stamps>,
    /// Set while one is there and cannot be read.
    again_at: Option<Instant>,
    servers: Option<Arc<Servers>>,
}

/// The settings' files as they were when they were read.
type Stamps = [Option<FileStamp>; 2];

impl Files {
    fn stamps(&self) -> Stamps {
        [&self.resolv_conf, &self.hosts].map(|path| FileStamp::of(path))
    }

    /// The servers, and whether a file is there and cannot be read. Names of `hosts` that cannot be read
    /// are those of the servers `before`.
    fn read(&self, before: Option<&Servers>) -> (io::Result<Servers>, bool) {
        let (text, hosts) = (std::fs::read(&self.resolv_conf), std::fs::read(&self.hosts));
        let any_unread = [&text, &hosts].into_iter().any(|read| read.as_ref().is_err_and(is_unread));
        let local = match hosts {
            Err(error) if is_unread(&error) => before.map(|before| before.local.clone()).unwrap_or_default(),
            hosts => Arc::new(LocalNames::of(&hosts.unwrap_or_default())),
        };
        (text.and_then(|text| Servers::from_resolv_conf(&text, local)), any_unread)
    }
}

fn is_unread(error: &io::Error) -> bool {
    error.raw_os_error().is_some() && error.kind() != ErrorKind::NotFound
}

impl Settings {
    /// Reads them; returns whether they are in use. What cannot be read does not replace what could.
    fn read(&mut self, files: &Files) -> bool {
        let (stamps, (servers, is_unread)) = (files.stamps(), files.read(self.servers.as_deref()));
        let was_unread = self.again_at.is_some();
        let is_same = is_unread && self.stamps == Some(stamps) && self.servers.is_some();
        // It may be readable without having changed (too many open files).
        self.again_at = is_unread.then(|| Instant::now() + READ_AGAIN_AFTER);
        self.stamps = Some(stamps);
        match servers {
            // Those that are in use have answers in store.
            Ok(_) if is_same => {}
            Ok(servers) => self.servers = Some(Arc::new(servers)),
            // An image without them is no fault: the C library is asked.
            Err(reason) if !was_unread => tracing::info!(%reason, "no usable resolver settings"),
            Err(_) => {}
        }
        self.servers.is_some() && !is_unread
    }

    fn are_to_be_read(&self, stamps: Stamps) -> bool {
        self.stamps != Some(stamps) || self.again_at.is_some_and(|at| Instant::now() >= at)
    }
}

impl Resolver {
    /// With the machine's settings. Must be called within a runtime.
    pub(crate) fn of_the_machine() -> Self {
        Self::of(Files { resolv_conf: "/etc/resolv.conf".into(), hosts: "/etc/hosts".into() })
    }

    fn of(files: Files) -> Self {
        let mut settings = Settings { stamps: None, again_at: None, servers: None };
        settings.read(&files);
        Self { files: Arc::new(files), settings: Arc::new(Mutex::new(settings)) }
    }

    /// Has the settings read again before the next name, and forgets every address.
    pub(crate) fn reread(&self) {
        self.settings.lock().stamps = None;
    }

    /// The name servers, read again if a file of the settings has changed. What cannot be read does
    /// not replace what could.
    fn servers(&self) -> Option<Arc<Servers>> {
        let stamps = self.files.stamps();
        // Assignments under the lock: a panic cannot leave them half-written.
        let mut settings = self.settings.lock();
        if settings.are_to_be_read(stamps) && settings.read(&self.files) {
            tracing::info!("the resolver's settings were read again");
        }
        settings.servers.clone()
    }

    /// The addresses of `name`, those of the preferred family first.
    ///
    /// # Errors
    /// When it is absent, or nobody answered within [`NAME_WAIT`].
    pub(crate) async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match self.servers() {
            Some(servers) => tokio::time::timeout(NAME_WAIT, servers.lookup(name)).await?,
            None => Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect()),
        }
    }

    async fn sockets(self, name: impl AsRef<str>) -> io::Result<std::vec::IntoIter<SocketAddr>> {
        let found = self.addresses(name.as_ref()).await?;
        Ok(found.into_iter().map(|address| SocketAddr::new(address, 0)).collect::<Vec<_>>().into_iter())
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(self.clone().sockets(name.as_str().to_owned()))
    }
}

impl reqwest::dns::Resolve for Resolver {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let found = self.clone().sockets(name.as_str().to_owned());
        Box::pin(async move { Ok(Box::new(found.await?) as reqwest::dns::Addrs) })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn resolver(folder: &Path) -> Resolver {
        std::fs::write(folder.join("resolv.conf"), "nameserver 127.0.0.1\n").unwrap();
        std::fs::write(folder.join("hosts"), "127.0.0.7 region.test\n").unwrap();
        Resolver::of(Files { resolv_conf: folder.join("resolv.conf"), hosts: folder.join("hosts") })
    }

    async fn found(resolver: &Resolver) -> String {
        resolver.addresses("region.test").await.unwrap()[0].to_string()
    }

    #[tokio::test]
    async fn hosts_changes_apply_to_next_lookup() {
        let folder = tempfile::tempdir().unwrap();
        let resolver = resolver(folder.path());
        assert_eq!(found(&resolver).await, "127.0.0.7");
        // In place, and of the same length.
        std::fs::write(folder.path().join("hosts"), "127.0.0.8 region.test\n").unwrap();
        assert_eq!(found(&resolver).await, "127.0.0.8");
        // By another file, as Kubernetes and editors do.
        std::fs::write(folder.path().join("new"), "127.0.0.9 region.test\n").unwrap();
        std::fs::rename(folder.path().join("new"), folder.path().join("hosts")).unwrap();
        assert_eq!(found(&resolver).await, "127.0.0.9");
    }

    #[tokio::test]
    async fn unreadable_settings_keep_previous_ones() {
        let folder = tempfile::tempdir().unwrap();
        let resolver = resolver(folder.path());
        std::fs::write(folder.path().join("resolv.conf"), "# none\n").unwrap();
        assert_eq!(found(&resolver).await, "127.0.0.7");
        std::fs::remove_file(folder.path().join("resolv.conf")).unwrap();
        assert_eq!(found(&resolver).await, "127.0.0.7");
    }

    #[tokio::test]
    async fn unreadable_settings_file_is_retried() {
        for name in ["resolv.conf", "hosts"] {
            let folder = tempfile::tempdir().unwrap();
            let resolver = resolver(folder.path());
            // As unreadable as a file without permissions is to others than root.
            std::fs::remove_file(folder.path().join(name)).unwrap();
            std::fs::create_dir(folder.path().join(name)).unwrap();
            assert_eq!(found(&resolver).await, "127.0.0.7", "{name}");
            let mut settings = resolver.settings.lock();
            assert!(settings.again_at.is_some(), "{name}");
            let before = settings.servers.clone().unwrap();
            assert!(!settings.read(&resolver.files), "{name}");
            assert!(Arc::ptr_eq(&before, settings.servers.as_ref().unwrap()), "{name}: its answers are kept");
        }
    }

    #[tokio::test]
    async fn a_reload_reads_unchanged_settings_again() {
        let folder = tempfile::tempdir().unwrap();
        let resolver = resolver(folder.path());
        let before = resolver.servers().unwrap();
        assert!(Arc::ptr_eq(&before, &resolver.servers().unwrap()), "nothing has changed");
        resolver.clone().reread();
        assert!(!Arc::ptr_eq(&before, &resolver.servers().unwrap()), "clones share the settings");
    }
}
