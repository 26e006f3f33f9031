//! Issuers' hosts that answer over TLS: well, badly, and as somebody else.

use std::io::{Error, ErrorKind};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::lab::issuer::Issuer;
use crate::tasks::Tasks;

/// A host with a certificate of its own CA, which stops with its tasks.
struct Host {
    base: String,
    directory: TempDir,
    _tasks: Tasks,
}

/// Takes connections as `localhost`, and writes `ca.pem` into the directory.
pub(crate) fn acceptor_with_ca(directory: &TempDir) -> TlsAcceptor {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root = params.self_signed(&key).unwrap();
    std::fs::write(directory.path().join("ca.pem"), root.pem()).unwrap();
    let authority = rcgen::Issuer::new(params, key);
    let own = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&own, &authority).unwrap();
    let key = PrivateKeyDer::try_from(own.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    TlsAcceptor::from(Arc::new(
        builder.with_no_client_auth().with_single_cert(vec![leaf.der().clone()], key).unwrap(),
    ))
}

fn metadata(issuer: &str, jwks_uri: &str) -> String {
    json!({"issuer": issuer, "jwks_uri": jwks_uri}).to_string()
}

/// Answer of the host at `base` to a path: the status line, other lines, and the body.
fn answer(base: &str, path: &str, jwks: &str) -> (&'static str, String, String) {
    const OK: &str = "200 OK";
    let body = match path {
        "/jwks" => jwks.to_owned(),
        "/good/.well-known/openid-configuration" => metadata(&format!("{base}/good"), &format!("{base}/jwks")),
        "/slash/.well-known/openid-configuration" => metadata(&format!("{base}/slash/"), &format!("{base}/jwks")),
        "/other/.well-known/openid-configuration" => metadata(&format!("{base}/other/"), &format!("{base}/jwks")),
        "/plain/.well-known/openid-configuration" => metadata(&format!("{base}/plain"), "http://localhost/jwks"),
        "/twice/.well-known/openid-configuration" => format!("{{\"issuer\":\"x\",\"issuer\":\"{base}/twice\"}}"),
        "/large" => " ".repeat(usize::try_from(KEYS_BYTES).unwrap() + 1),
        "/garbage" => "<html>".to_owned(),
        "/empty" => json!({"keys": []}).to_string(),
        "/secret" => json!({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}).to_string(),
        "/redirect" => return ("302 Found", format!("location: {base}/jwks\r\n"), String::new()),
        _ => return ("404 Not Found", String::new(), String::new()),
    };
    (OK, String::new(), body)
}

async fn converse(acceptor: TlsAcceptor, stream: TcpStream, base: String, jwks: String) -> std::io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (status, lines, body) = answer(&base, path, &jwks);
    let head = format!("HTTP/1.1 {status}\r\n{lines}connection: close\r\ntransfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    // In chunks, so that the size is not said before.
    for chunk in body.as_bytes().chunks(60_000) {
        stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await?;
        stream.write_all(chunk).await?;
        stream.write_all(b"\r\n").await?;
    }
    stream.write_all(b"0\r\n\r\n").await?;
    stream.shutdown().await
}

async fn host(jwks: String) -> Host {
    let directory = tempfile::tempdir().unwrap();
    let (acceptor, tasks) = (acceptor_with_ca(&directory), Tasks::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let (serving, own) = (base.clone(), tasks.clone());
    tasks.spawn("host", async move {
        while let Ok((stream, _)) = listener.accept().await {
            own.spawn("conversation", converse(acceptor.clone(), stream, serving.clone(), jwks.clone()));
        }
    });
    Host { base, directory, _tasks: tasks }
}

impl Host {
    fn trusting(&self) -> Fetcher {
        Fetcher::Network { ca_file: Some(self.directory.path().join("ca.pem")) }
    }

    async fn at(&self, path: &str) -> Result<KeySet, FetchError> {
        let url = Url::parse(&format!("{}{path}", self.base)).unwrap();
        self.trusting().keys("https://issuer.example", &KeysSource::Url(url)).await
    }

    async fn discovered(&self, path: &str) -> Result<KeySet, FetchError> {
        self.trusting().keys(&format!("{}{path}", self.base), &KeysSource::Discovery).await
    }
}

#[tokio::test]
async fn keys_come_by_url_and_discovery() {
    let host = host(Issuer::new("x", "one").jwks()).await;
    for fetched in [host.at("/jwks").await, host.discovered("/good").await, host.discovered("/slash/").await] {
        assert!(fetched.unwrap().find(Some("one"), jsonwebtoken::Algorithm::ES256).is_ok());
    }
    assert_eq!(host.discovered("/other").await.err(), Some(FetchError::OtherIssuer));
    for unusable in ["/plain", "/twice"] {
        let error = host.discovered(unusable).await.err();
        assert!(matches!(error, Some(FetchError::Metadata | FetchError::OtherIssuer)), "{unusable}: {error:?}");
    }
}

#[tokio::test]
async fn unusable_answers_are_refused() {
    let host = host(String::new()).await;
    let name = "localhost".to_owned();
    for (path, error) in [
        ("/large", FetchError::Large { host: name.clone() }),
        ("/garbage", FetchError::Unusable(KeySetError::Malformed)),
        ("/empty", FetchError::Unusable(KeySetError::NoKey)),
        ("/secret", FetchError::Unusable(KeySetError::NoKey)),
        ("/redirect", FetchError::Status { host: name.clone(), status: 302 }),
        ("/nowhere", FetchError::Status { host: name.clone(), status: 404 }),
    ] {
        assert_eq!(host.at(path).await.err(), Some(error), "{path}");
    }
}

fn jwks_at(base: &str) -> KeysSource {
    KeysSource::Url(Url::parse(&format!("{base}/jwks")).unwrap())
}

#[tokio::test]
async fn other_hosts_are_not_believed() {
    let [host, other] = [host(Issuer::new("x", "one").jwks()).await, host(String::new()).await];
    let error = other.trusting().keys("x", &jwks_at(&host.base)).await.err();
    assert!(matches!(&error, Some(FetchError::Unreachable { why, .. }) if why.contains("certificate")), "{error:?}");
    // One that would answer in the clear.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = jwks_at(&format!("http://localhost:{}", listener.local_addr().unwrap().port()));
    let tasks = Tasks::new();
    tasks.spawn("plain", async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let keys = Issuer::new("x", "one").jwks();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{keys}", keys.len());
        stream.write_all(answer.as_bytes()).await
    });
    assert!(matches!(host.trusting().keys("x", &plain).await.err(), Some(FetchError::Unreachable { .. })));
    let missing = Fetcher::Network { ca_file: Some(host.directory.path().join("none.pem")) };
    assert!(matches!(missing.keys("x", &jwks_at(&host.base)).await.err(), Some(FetchError::CaFile(_))));
    std::fs::write(host.directory.path().join("ca.pem"), "no certificate").unwrap();
    assert!(host.at("/jwks").await.is_err());
}
