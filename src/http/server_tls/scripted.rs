//! A service's certificate in files, and callers that trust it, for tests.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::peer::{ClientAuthorities, PeerCertificate};
use super::{Offers, PortTls, ServerTls};
use crate::config::ServerCertificate;
use crate::config::services::CatalogueTls;

/// Certificate of a caller, and its key.
pub(crate) struct ClientPair {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

/// A CA, and a directory with what it issued.
pub(crate) struct Certified {
    issuer: Issuer<'static, KeyPair>,
    roots: Arc<RootCertStore>,
    root: String,
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
        let certified =
            Self { issuer, roots: Arc::new(roots), root: root.pem(), directory: tempfile::tempdir().unwrap() };
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

    /// The certificate of a caller, issued by a CA in between.
    pub(crate) fn client_through(
        &self,
        change_between: impl FnOnce(&mut CertificateParams),
        change: impl FnOnce(&mut CertificateParams),
    ) -> ClientPair {
        let mut between = CertificateParams::new([]).unwrap();
        between.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        change_between(&mut between);
        let key = KeyPair::generate().unwrap();
        let certificate = between.signed_by(&key, &self.issuer).unwrap().der().clone();
        let mut pair = client_of(&Issuer::new(between, key), change);
        pair.chain.push(certificate);
        pair
    }

    /// Replaces a file as tools do, by renaming.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path("new"), text).unwrap();
        std::fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    pub(crate) fn files(&self) -> ServerCertificate {
        let client_ca = Some(self.path("client_ca")).filter(|file| file.exists());
        CatalogueTls::at(self.path("certificate"), self.path("key"), client_ca)
    }

    /// The CA's own certificate, in PEM.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// Certificate of a caller and its key: `change` makes it what it is.
    pub(crate) fn client(&self, change: impl FnOnce(&mut CertificateParams)) -> ClientPair {
        client_of(&self.issuer, change)
    }

    /// TLS of a port that offers so much.
    pub(crate) fn port(&self, offers: Offers) -> PortTls {
        PortTls { tls: self.tls(), offers }
    }

    pub(crate) fn tls(&self) -> Arc<ServerTls> {
        ServerTls::open(&self.files()).unwrap()
    }

    fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        WebPkiClientVerifier::builder_with_provider(self.roots.clone(), provider).build().unwrap()
    }

    /// A caller's handshake over `stream`, which offers these protocols.
    pub(crate) async fn connect<S>(&self, stream: S, protocols: &[&str]) -> std::io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from("localhost").unwrap();
        self.connector(protocols, None).connect(name, stream).await
    }

    /// A caller that offers these protocols, and presents a certificate or none.
    pub(crate) fn connector(&self, protocols: &[&str], client: Option<ClientPair>) -> TlsConnector {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(self.roots.clone());
        let mut config = match client {
            Some(ClientPair { chain, key }) => builder.with_client_auth_cert(chain, key).unwrap(),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}

fn client_of(issuer: &Issuer<'_, KeyPair>, change: impl FnOnce(&mut CertificateParams)) -> ClientPair {
    let mut params = CertificateParams::new([]).unwrap();
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap().der().clone();
    ClientPair { chain: vec![certificate], key: PrivateKeyDer::try_from(key.serialize_der()).unwrap() }
}

/// CAs that vouch for callers, as those of an open port.
pub(crate) struct Authorities(Arc<ClientAuthorities>);

impl Authorities {
    pub(crate) fn of(certified: &Certified) -> Self {
        Self(ClientAuthorities::new(certified.verifier()))
    }

    pub(crate) fn replace(&self, certified: &Certified) {
        self.0.replace(certified.verifier());
    }

    /// The certificate of a caller whose handshake is done.
    pub(crate) fn presented(&self, pair: &ClientPair) -> PeerCertificate {
        PeerCertificate::new(&pair.chain, &self.0).unwrap()
    }
}
