//! A service's certificate in files, and callers that trust it, for tests.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::ServerTls;
use crate::config::ServerCertificate;
use crate::config::services::CatalogueTls;

/// A CA, and a directory with what it issued.
pub(crate) struct Certified {
    issuer: Issuer<'static, KeyPair>,
    roots: Arc<RootCertStore>,
    directory: TempDir,
}

impl Certified {
    /// A directory with a certificate of `localhost`.
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(root.der().clone()).unwrap();
        let issuer = Issuer::new(params, key);
        let certified = Self { issuer, roots: Arc::new(roots), directory: tempfile::tempdir().unwrap() };
        let (certificate, key) = certified.pair(2030);
        certified.write("certificate", &certificate);
        certified.write("key", &key);
        certified
    }

    /// Another certificate that ends with this year's first day, and its key, in PEM.
    pub(crate) fn pair(&self, year: i32) -> (String, String) {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Replaces a file as tools do, by renaming.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path("new"), text).unwrap();
        std::fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    pub(crate) fn files(&self) -> ServerCertificate {
        CatalogueTls::at(self.path("certificate"), self.path("key"))
    }

    pub(crate) fn tls(&self) -> Arc<ServerTls> {
        ServerTls::open(&self.files()).unwrap()
    }

    /// A caller's handshake over `stream`, which offers these protocols.
    pub(crate) async fn connect<S>(&self, stream: S, protocols: &[&str]) -> std::io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_root_certificates(self.roots.clone()).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}
