//! TLS of a service's ports: the certificate of the moment, handshakes, and the watch over the files.

use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{Acceptor, ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::ServerCertificate;
use crate::config::certificates::{self, ServerFiles, UnusableFile};
use crate::http::limits::{
    CERTIFICATE_LOOK, CERTIFICATE_NOTICE, CLIENT_CHAIN_BYTES, HANDSHAKE_SLOT_WAIT, HANDSHAKE_WAIT, HANDSHAKES,
    TLS_BYTES, TLS_WRITE_BYTES,
};
use crate::model::time::{Clock, Wall};
use crate::tasks::file_stamp::FileStamp;
use crate::tasks::supervision::pass_panic_on;
use crate::tasks::{Tasks, on_disk};
use crate::telemetry::rate_limiter::RateLimiter;

mod counts;
pub mod peer;

use counts::{HandshakeOutcome, TlsCounts};
use peer::{ClientAuthorities, KeyHolders, PeerCertificate};

/// A certificate and its key that ports cannot be served with. The operator has to fix it.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{setting}: {what}; {suggestion}")]
    Files { setting: String, what: String, suggestion: String },
    #[error("the CA certificates of callers cannot be used: {0}; write them into the file of client_ca, in PEM")]
    ClientCa(rustls::server::VerifierBuilderError),
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
pub enum Offers {
    /// HTTP/1.1, to operators: no certificate is asked for.
    Pages,
    Http1,
    /// HTTP/2 before HTTP/1.1.
    Both,
}

/// TLS of one port.
#[derive(Clone, Debug)]
pub struct PortTls {
    tls: Arc<ServerTls>,
    offers: Offers,
}

impl PortTls {
    /// That of a port which offers so much, if there is any.
    #[must_use]
    pub fn of(tls: Option<&Arc<ServerTls>>, offers: Offers) -> Option<Self> {
        tls.map(|tls| Self { tls: tls.clone(), offers })
    }

    /// Performs a handshake; `None` if nothing comes of it. Drop the future to give up earlier.
    pub(crate) async fn accept<S>(&self, socket: S) -> Option<Accepted<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.tls.accept(socket, self.offers).await
    }
}

/// A connection whose handshake is done.
pub(crate) struct Accepted<S> {
    pub(crate) stream: TlsStream<S>,
    /// Certificate of the caller, of any issuer.
    pub(crate) peer: Option<Arc<PeerCertificate>>,
}

/// TLS as all ports of a service speak it.
#[derive(Debug)]
pub struct ServerTls {
    files: ServerCertificate,
    /// The files as they were when they were read first.
    opened_with: Seen,
    current: Arc<Current>,
    /// CAs that vouch for callers; `None` where callers are asked for no certificate.
    authorities: Option<Arc<ClientAuthorities>>,
    pages: Arc<ServerConfig>,
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

/// Files as a look found them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    pair: [Option<FileStamp>; 2],
    client_ca: Option<FileStamp>,
}

impl Seen {
    fn of(files: &ServerCertificate) -> Self {
        Self {
            pair: [&files.certificate, &files.key].map(|file| FileStamp::of(file)),
            client_ca: files.client_ca.as_deref().and_then(FileStamp::of),
        }
    }
}

/// Content of files that have changed.
struct Reread {
    seen: Seen,
    pair: Option<Result<ServerFiles, TlsError>>,
    client_ca: Option<Result<Arc<dyn ClientCertVerifier>, TlsError>>,
}

impl Reread {
    fn look(files: &ServerCertificate, before: Seen) -> Self {
        let seen = Seen::of(files);
        let pair = (seen.pair != before.pair)
            .then(|| certificates::read_server(files, Clock::System.wall()).map_err(TlsError::from));
        let client_ca = if seen.client_ca == before.client_ca { None } else { verifier(files).transpose() };
        Self { seen, pair, client_ca }
    }
}

/// Verifier of callers' certificates by the CAs of the file, if there is one.
fn verifier(files: &ServerCertificate) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let Some((roots, _)) = certificates::read_client_ca(files, Clock::System.wall())? else { return Ok(None) };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    built.map(|verifier| Some(verifier as Arc<dyn ClientCertVerifier>)).map_err(TlsError::ClientCa)
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn open(files: &ServerCertificate) -> Result<Arc<Self>, TlsError> {
        // Taken before the content, so that a write in between is seen as a change later.
        let opened_with = Seen::of(files);
        let read = certificates::read_server(files, Clock::System.wall())?;
        let current = Arc::new(Current(ArcSwap::from_pointee(read)));
        let authorities = verifier(files)?.map(ClientAuthorities::new);
        let asks = authorities.is_some();
        Ok(Arc::new(Self {
            files: files.clone(),
            opened_with,
            pages: Arc::new(settings(current.clone(), &["http/1.1"], false)?),
            http1: Arc::new(settings(current.clone(), &["http/1.1"], asks)?),
            both: Arc::new(settings(current.clone(), &["h2", "http/1.1"], asks)?),
            current,
            authorities,
            handshakes: Semaphore::new(HANDSHAKES),
            counts: TlsCounts::default(),
        }))
    }

    /// Bytes that a connection takes besides those of plain TCP.
    pub(crate) const fn connection_bytes(&self) -> usize {
        // The session has the caller's certificate, and so has the connection.
        TLS_BYTES + if self.authorities.is_some() { 2 * CLIENT_CHAIN_BYTES } else { 0 }
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

    async fn accept<S>(&self, socket: S, offers: Offers) -> Option<Accepted<S>>
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
        let stream = stream?;
        let presented = self.authorities.as_ref().zip(stream.get_ref().1.peer_certificates());
        let peer = presented.and_then(|(authorities, chain)| PeerCertificate::new(chain, authorities));
        Some(Accepted { stream, peer: peer.map(Arc::new) })
    }

    async fn handshake<S>(&self, socket: S, offers: Offers) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let start = LazyConfigAcceptor::new(Acceptor::default(), socket).await?;
        // A peer that has not sent a whole ClientHello keeps nobody from a handshake.
        let slot = self.handshakes.acquire().await.map_err(io::Error::other)?;
        let config = match offers {
            Offers::Pages => self.pages.clone(),
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
            let Some(reread) = on_disk(move || Reread::look(&files, seen)).await else { pass_panic_on() };
            match reread.pair {
                None => {}
                Some(Ok(read)) => {
                    let ends = humantime::format_rfc3339_seconds(read.ends.to_system_time());
                    let certificate = self.files.certificate.display();
                    tracing::info!(%certificate, %ends, "the certificate and its key were replaced");
                    self.current.0.store(Arc::new(read));
                    seen.pair = reread.seen.pair;
                }
                Some(Err(error)) => {
                    if let Some(suppressed) = lines.admit(Clock::System.now()) {
                        tracing::warn!(%error, suppressed, "the last good certificate stays in use");
                    }
                }
            }
            match reread.client_ca.zip(self.authorities.as_ref()) {
                None => {}
                Some((Ok(verifier), authorities)) => {
                    tracing::info!("the CAs of callers were replaced");
                    authorities.replace(verifier);
                    seen.client_ca = reread.seen.client_ca;
                }
                Some((Err(error), _)) => {
                    if let Some(suppressed) = lines.admit(Clock::System.now()) {
                        tracing::warn!(%error, suppressed, "the last good CAs of callers stay in use");
                    }
                }
            }
        }
    }
}

/// TLS 1.2 and 1.3, without early data, which could be replayed.
fn settings(current: Arc<Current>, offered: &[&str], asks: bool) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = if asks {
        builder.with_client_cert_verifier(Arc::new(KeyHolders(provider)))
    } else {
        builder.with_no_client_auth()
    };
    let mut config = builder.with_cert_resolver(current);
    config.alpn_protocols = offered.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    config.max_early_data_size = 0;
    Ok(config)
}

#[cfg(test)]
pub(crate) mod scripted;
#[cfg(test)]
mod tests;
