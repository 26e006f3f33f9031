//! TLS of a service's ports: the certificate of the moment, handshakes, and the watch over the files.

use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::server::{Acceptor, ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::ServerCertificate;
use crate::config::certificates::{self, ServerFiles, UnusableFile};
use crate::http::limits::{
    CERTIFICATE_LOOK, CERTIFICATE_NOTICE, HANDSHAKE_SLOT_WAIT, HANDSHAKE_WAIT, HANDSHAKES, TLS_WRITE_BYTES,
};
use crate::model::time::{Clock, Wall};
use crate::tasks::file_stamp::FileStamp;
use crate::tasks::supervision::pass_panic_on;
use crate::tasks::{Tasks, on_disk};
use crate::telemetry::rate_limiter::RateLimiter;

mod counts;

use counts::{HandshakeOutcome, TlsCounts};

/// A certificate and its key that ports cannot be served with. The operator has to fix it.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{setting}: {what}; {suggestion}")]
    Files { setting: String, what: String, suggestion: String },
    #[error("TLS cannot be set up: {0}")]
    Settings(#[from] rustls::Error),
}

impl From<UnusableFile> for TlsError {
    fn from(UnusableFile { setting, wrong }: UnusableFile) -> Self {
        Self::Files { setting: setting.path(), what: wrong.what, suggestion: wrong.suggestion }
    }
}

/// Protocols that a port offers by ALPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offers {
    Http1,
    /// HTTP/2 before HTTP/1.1.
    Both,
}

/// TLS as all ports of a service speak it.
#[derive(Debug)]
pub struct ServerTls {
    files: ServerCertificate,
    /// The files as they were when they were read first.
    opened_with: Stamps,
    current: Arc<Current>,
    http1: Arc<ServerConfig>,
    both: Arc<ServerConfig>,
    handshakes: Semaphore,
    pub(super) counts: TlsCounts,
}

/// The certificate that new handshakes get, with its key: both are replaced together.
#[derive(Debug)]
struct Current(ArcSwap<ServerFiles>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load().certified.clone())
    }
}

type Stamps = [Option<FileStamp>; 2];

fn stamps(files: &ServerCertificate) -> Stamps {
    [&files.certificate, &files.key].map(|file| FileStamp::of(file))
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn open(files: &ServerCertificate) -> Result<Arc<Self>, TlsError> {
        // Taken before the content, so that a write in between is seen as a change later.
        let opened_with = stamps(files);
        let read = certificates::read_server(files, Clock::System.wall())?;
        let current = Arc::new(Current(ArcSwap::from_pointee(read)));
        Ok(Arc::new(Self {
            files: files.clone(),
            opened_with,
            http1: Arc::new(settings(current.clone(), &["http/1.1"])?),
            both: Arc::new(settings(current.clone(), &["h2", "http/1.1"])?),
            current,
            handshakes: Semaphore::new(HANDSHAKES),
            counts: TlsCounts::default(),
        }))
    }

    /// The end of the certificate, or of one of its issuers if that is earlier.
    #[must_use]
    pub fn ends(&self) -> Wall {
        self.current.0.load().ends
    }

    /// A sentence once the certificate ends soon, or has ended.
    #[must_use]
    pub fn reason(&self, now: Wall) -> Option<String> {
        let ends = self.ends();
        let shown = humantime::format_rfc3339_seconds(ends.to_system_time());
        let file = self.files.certificate.display();
        if now >= ends {
            Some(format!("the certificate in {file} ended at {shown}: replace it"))
        } else if ends.since(now) < CERTIFICATE_NOTICE {
            Some(format!("the certificate in {file} ends at {shown}: replace it before"))
        } else {
            None
        }
    }

    /// Its member of `/status`.
    #[must_use]
    pub fn status(&self) -> serde_json::Value {
        let ends = humantime::format_rfc3339_seconds(self.ends().to_system_time()).to_string();
        serde_json::json!({ "certificate": self.files.certificate.display().to_string(), "ends": ends })
    }

    /// Performs a handshake; `None` if nothing comes of it. Drop the future to give up earlier.
    pub(crate) async fn accept<S>(&self, socket: S, offers: Offers) -> Option<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        // Boxed: a connection needs its room for a moment only.
        let shaken = tokio::time::timeout(HANDSHAKE_WAIT, Box::pin(self.handshake(socket, offers))).await;
        let (outcome, stream) = match shaken {
            Ok(Ok(stream)) => (HandshakeOutcome::Complete, Some(stream)),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                (HandshakeOutcome::of(&error), None)
            }
            Err(_) => (HandshakeOutcome::TimedOut, None),
        };
        self.counts.shaken(outcome);
        stream
    }

    async fn handshake<S>(&self, socket: S, offers: Offers) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let start = LazyConfigAcceptor::new(Acceptor::default(), socket).await?;
        // A peer that has not sent a whole ClientHello keeps nobody from a handshake.
        let slot = self.handshakes.acquire().await.map_err(io::Error::other)?;
        let config = match offers {
            Offers::Http1 => self.http1.clone(),
            Offers::Both => self.both.clone(),
        };
        let accept = start.into_stream_with(config, |session| session.set_buffer_limit(Some(TLS_WRITE_BYTES)));
        let mut accept = std::pin::pin!(accept);
        if let Ok(accepted) = tokio::time::timeout(HANDSHAKE_SLOT_WAIT, accept.as_mut()).await {
            return accepted;
        }
        drop(slot);
        accept.await
    }

    /// Watches the files until the process stops. A certificate and a key that do not belong together,
    /// as when one of them was replaced and the other was not yet, leave the last good pair in use.
    pub fn watch(self: &Arc<Self>, tasks: &Tasks) {
        let (tls, stopping) = (self.clone(), tasks.stopping());
        tasks.spawn_service("certificate", move || {
            let (tls, stopping) = (tls.clone(), stopping.clone());
            async move { stopping.run_until_cancelled(tls.look()).await }
        });
    }

    async fn look(self: Arc<Self>) {
        let (mut seen, lines) = (self.opened_with, RateLimiter::new());
        loop {
            tokio::time::sleep(CERTIFICATE_LOOK).await;
            let files = self.files.clone();
            // A mount that stalls holds up only this watch.
            let looked = on_disk(move || {
                let now = stamps(&files);
                (now, (now != seen).then(|| certificates::read_server(&files, Clock::System.wall())))
            });
            let Some((now, changed)) = looked.await else { pass_panic_on() };
            match changed {
                None => {}
                Some(Ok(read)) => {
                    let ends = humantime::format_rfc3339_seconds(read.ends.to_system_time());
                    let certificate = self.files.certificate.display();
                    tracing::info!(%certificate, %ends, "the certificate and its key were replaced");
                    self.current.0.store(Arc::new(read));
                    seen = now;
                }
                Some(Err(unusable)) => {
                    if let Some(suppressed) = lines.admit(Clock::System.now()) {
                        let error = TlsError::from(unusable);
                        tracing::warn!(%error, suppressed, "the last good certificate stays in use");
                    }
                }
            }
        }
    }
}

/// TLS 1.2 and 1.3, without early data, which could be replayed.
fn settings(current: Arc<Current>, offered: &[&str]) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(current);
    config.alpn_protocols = offered.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    config.max_early_data_size = 0;
    Ok(config)
}

#[cfg(test)]
pub(crate) mod scripted;
#[cfg(test)]
mod tests;
