//! Regions behind a private CA, and regions that demand a certificate, with the real binary.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use nearside::tasks::Tasks;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::program::{self, Program, get, text};

/// A CA of one's own, and a directory for what it issues.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
    directory: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), root.pem()).unwrap();
        Self { issuer: Issuer::new(params, key), root: root.der().clone(), directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Writes a client's certificate and key, in the place of those before; returns the
    /// certificate.
    fn write_client(&self) -> CertificateDer<'static> {
        let (certificate, key) = self.issue("sidecar", ExtendedKeyUsagePurpose::ClientAuth);
        // One after the other, as a tool that renews them might.
        std::fs::write(self.path("client.key"), key.serialize_pem()).unwrap();
        std::fs::write(self.path("client.pem"), certificate.pem()).unwrap();
        certificate.der().clone()
    }
}

/// A region over TLS, and the client certificates that it received.
pub(crate) struct Region {
    at: SocketAddr,
    shown: Arc<Mutex<Vec<Option<CertificateDer<'static>>>>>,
    _tasks: Tasks,
}

impl Region {
    /// Its certificate is `authority`'s; with `demands` it lets nobody in without one of the same.
    async fn start(authority: &Authority, demands: bool) -> Self {
        Self::answering(authority, demands, |_| {
            let response = Response::builder().header("x-record-version", "1");
            response.body(Full::new(Bytes::from_static(b"{}"))).unwrap()
        })
        .await
    }

    /// Starts a region with answers of its own.
    pub(crate) async fn answering(
        authority: &Authority,
        demands: bool,
        answer: impl Fn(&Request<Incoming>) -> Response<Full<Bytes>> + Clone + Send + Sync + 'static,
    ) -> Self {
        let (certificate, key) = authority.issue("localhost", ExtendedKeyUsagePurpose::ServerAuth);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(authority.root.clone()).unwrap();
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
        let builder = if demands {
            builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap(),
            )
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (tasks, shown) = (Tasks::new(), Arc::<Mutex<Vec<_>>>::default());
        let (spawner, seen) = (tasks.clone(), shown.clone());
        tasks.spawn("region", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, seen, answer) = (acceptor.clone(), seen.clone(), answer.clone());
                spawner.spawn("connection", async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let peer = stream.get_ref().1.peer_certificates().map(|chain| chain[0].clone().into_owned());
                    let service = service_fn(move |request: Request<Incoming>| {
                        seen.lock().unwrap().push(peer.clone());
                        let response = answer(&request);
                        async { Ok::<_, Infallible>(response) }
                    });
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { at, shown, _tasks: tasks }
    }

    /// A sidecar's settings in front of it, with this `tls` table.
    pub(crate) fn settings(&self, tls: &str) -> String {
        let url = format!("https://localhost:{}", self.at.port());
        let rest = "[announcements]\ntransport = \"off\"\n[drain]\nlinger = \"0s\"\n[cache]\nsoft_ttl = \"0s\"\n";
        let text = program::settings("private", &[("eu", &url, "")], rest);
        text.replacen("topic = \"\"\n", &format!("topic = \"\"\n{tls}"), 1)
    }
}

pub(crate) fn ca(authority: &Authority) -> String {
    format!("tls = {{ ca_file = \"{}\" }}\n", authority.path("ca.pem").display())
}

fn client(authority: &Authority) -> String {
    let [ca, cert, key] = ["ca.pem", "client.pem", "client.key"].map(|name| authority.path(name));
    let (ca, cert, key) = (ca.display(), cert.display(), key.display());
    format!("tls = {{ ca_file = \"{ca}\", client_cert = \"{cert}\", client_key = \"{key}\" }}\n")
}

async fn status(program: &Program, key: &str) -> u16 {
    get(&format!("http://{}/v1/contexts/{key}", program.tcp)).await.0
}

#[tokio::test]
async fn private_ca_region_needs_its_file() {
    let (own, other) = (Authority::new(), Authority::new());
    let region = Region::start(&own, false).await;
    let program = Program::start(&region.settings(&ca(&other))).await;
    assert_ne!(status(&program, "one").await, 200);
    let line = program.line(|line| line["level"] == "WARN" && line["region"] == "eu").await;
    assert!(line["error"].as_str().unwrap().contains("invalid peer certificate"), "{line}");
    let done = program.reload(&region.settings(&ca(&own))).await;
    assert_eq!(done["outcome"], "applied", "{done}");
    assert_eq!(status(&program, "one").await, 200);
}

#[tokio::test]
async fn region_demanding_certificate_gets_sidecars() {
    let authority = Authority::new();
    let region = Region::start(&authority, true).await;
    let program = Program::start(&region.settings(&ca(&authority))).await;
    assert_ne!(status(&program, "one").await, 200);
    let certificate = authority.write_client();
    let done = program.reload(&region.settings(&client(&authority))).await;
    assert_eq!(done["outcome"], "applied", "{done}");
    assert_eq!(status(&program, "one").await, 200);
    assert_eq!(region.shown.lock().unwrap().last().unwrap().as_ref(), Some(&certificate));
}

#[tokio::test]
async fn renewed_certificates_apply_without_failures() {
    let authority = Authority::new();
    let first = authority.write_client();
    let region = Region::start(&authority, true).await;
    let program = Program::start(&region.settings(&client(&authority))).await;
    assert_eq!(status(&program, "one").await, 200);
    assert_eq!(region.shown.lock().unwrap().last().unwrap().as_ref(), Some(&first));
    let (asking, tasks, tcp) = (Arc::new(AtomicBool::new(true)), Tasks::new(), program.tcp);
    let asks = asking.clone();
    let load = tasks.spawn("load", async move {
        let mut failed = Vec::new();
        for number in 0_u64.. {
            let (status, _) = get(&format!("http://{tcp}/v1/contexts/key-{number}")).await;
            failed.extend((status != 200).then_some((number, status)));
            if !asks.load(Ordering::SeqCst) {
                break;
            }
        }
        failed
    });
    let renewed = authority.write_client();
    program.line(|line| line["change"] == "service.region[eu].tls: other certificates").await;
    asking.store(false, Ordering::SeqCst);
    assert_eq!(load.await.unwrap().unwrap(), []);
    assert_eq!(status(&program, "after").await, 200);
    assert_eq!(region.shown.lock().unwrap().last().unwrap().as_ref(), Some(&renewed));
}

#[tokio::test]
async fn unusable_certificate_files_are_reported_early() {
    let (authority, other) = (Authority::new(), Authority::new());
    authority.write_client();
    other.write_client();
    let region = Region::start(&authority, false).await;
    let wrong_key = client(&authority)
        .replace(authority.path("client.key").to_str().unwrap(), other.path("client.key").to_str().unwrap());
    let alone = format!("tls = {{ client_cert = \"{}\" }}\n", authority.path("client.pem").display());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nearside.toml");
    for (tls, reported) in [
        ("tls = { ca_file = \"/no/such/ca.pem\" }\n", "service.region.tls.ca_file: /no/such/ca.pem cannot be read"),
        (wrong_key.as_str(), "is not the key of the certificate in"),
        (alone.as_str(), "service.region.tls.client_cert: no client_key beside it"),
    ] {
        std::fs::write(&file, region.settings(tls)).unwrap();
        let output = program::run(&["run", "--config", program::path(&file)]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(reported), "{said}");
        assert!(said.contains("nearside.toml:6:"), "the line: {said}");
    }
    let program = Program::start(&region.settings(&ca(&authority))).await;
    let done = program.reload(&region.settings(&wrong_key)).await;
    assert_eq!(done["outcome"], "refused");
    assert_eq!(status(&program, "one").await, 200, "nothing was changed");
}
