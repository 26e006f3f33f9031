//! Cost of TLS at a region's node: a hit over a connection that is kept, beside the same without TLS, and
//! handshakes, anew and resumed.
//!
//! Counted is the processor time of the node's only thread, so that neither the client nor a busy
//! machine counts. The rounds alternate; each figure is the median of its rounds.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nearside::app::{self, App, Overrides};
use nearside::config::services::{ServiceRole, load};
use nearside::http::server_tls::ServerTls;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

mod live_sidecar;

const REQUEST: &[u8] = b"GET /v1/contexts/tenant-4711/full HTTP/1.1\r\nhost: localhost\r\n\
    authorization: Bearer 0123456789abcdef0123456789abcdef\r\naccept: application/json\r\n\r\n";
const ROUNDS: usize = 9;
const HITS: u32 = 2_000;
const HANDSHAKES: u32 = 200;

/// A node on a runtime of one thread.
struct Node {
    runtime: Runtime,
    app: App,
    address: SocketAddr,
}

impl Node {
    fn start(tls: Option<Arc<ServerTls>>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let listens = "[listen]\ntcp = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n";
        let config = live_sidecar::config(1, listens);
        let origin = Some(Arc::new(live_sidecar::Ready::new()) as Arc<_>);
        let instead = Overrides { origin, tls, ..Overrides::default() };
        let app = runtime.block_on(runtime.spawn(app::start_with(config, instead)));
        let app = app.expect("no panic").expect("it starts");
        live_sidecar::go_live(&app.sidecar);
        let address = app.tcp.expect("it listens");
        Self { runtime, app, address }
    }

    /// Processor time of its thread so far.
    fn spent(&self) -> Duration {
        let asked = self.runtime.spawn(async { rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime) });
        let time = self.runtime.block_on(asked).expect("no panic");
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
    }

    /// Processor time of each of `count` parts of `work`.
    fn each(&self, count: u32, work: impl Future<Output = ()>) -> Duration {
        live_sidecar::speak(&self.app.sidecar);
        let before = self.spent();
        let client = Builder::new_current_thread().enable_all().build().expect("a runtime");
        client.block_on(work);
        (self.spent() - before) / count
    }
}

/// Sends the request over and over, and reads each answer to its end.
async fn hits<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    let mut bytes = Vec::new();
    for _ in 0..HITS {
        stream.write_all(REQUEST).await.expect("it is connected");
        bytes.clear();
        loop {
            assert!(stream.read_buf(&mut bytes).await.expect("an answer") > 0, "it ends early");
            let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            if bytes.len() >= head + 4 + live_sidecar::BODY_BYTES {
                break;
            }
        }
        assert!(bytes.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&bytes));
    }
}

async fn connect(address: SocketAddr, tls: &Arc<ClientConfig>) -> tokio_rustls::client::TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(tls.clone()).connect(name, stream).await.expect("a handshake")
}

/// Connects over and over; a request each time, so that the client has the tickets of the next time. All
/// handshakes but perhaps the first are of this kind.
async fn handshakes(address: SocketAddr, tls: &Arc<ClientConfig>, kind: HandshakeKind) {
    for turn in 0..HANDSHAKES {
        let mut stream = connect(address, tls).await;
        assert!(turn == 0 || stream.get_ref().1.handshake_kind() == Some(kind), "handshake {turn} is not {kind:?}");
        stream.write_all(REQUEST).await.expect("it is connected");
        let mut first = [0; 64];
        assert!(stream.read(&mut first).await.expect("an answer") > 0);
    }
}

/// A certificate on P-256 for a service, and a client's trust in its CA.
fn certified(directory: &std::path::Path) -> (Arc<ServerTls>, RootCertStore) {
    let mut params = CertificateParams::new([]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let root = params.self_signed(&key).expect("a CA");
    let (issuer, own) = (Issuer::new(params, key), KeyPair::generate().expect("a key"));
    let leaf = CertificateParams::new(["localhost".to_owned()]).expect("a name").signed_by(&own, &issuer);
    let [certificate, key, file] = ["node.pem", "node.key", "service.toml"].map(|name| directory.join(name));
    std::fs::write(&certificate, leaf.expect("a certificate").pem()).expect("it can be written");
    std::fs::write(&key, own.serialize_pem()).expect("it can be written");
    let (shown, key) = (certificate.display(), key.display());
    let text = format!(
        "[engine]\nkind = \"memory\"\n[catalogue]\ntls = {{ certificate = \"{shown}\", key = \"{key}\" }}\n\
         [[catalogue.type]]\nname = \"tenant\"\n"
    );
    std::fs::write(&file, text).expect("it can be written");
    let (config, _) = load(ServiceRole::Catalogue, Some(&file), std::iter::empty()).expect("valid settings");
    let tls = ServerTls::open(&config.catalogue.tls.server.expect("it is set")).expect("a pair");
    let mut roots = RootCertStore::empty();
    roots.add(root.der().clone()).expect("a CA");
    (tls, roots)
}

fn client(roots: RootCertStore, resumption: Resumption) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder.expect("its versions").with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = resumption;
    Arc::new(config)
}

fn median(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort_unstable();
    rounds[rounds.len() / 2].as_secs_f64() * 1e6
}

fn main() -> std::io::Result<()> {
    let directory = tempfile::tempdir()?;
    let (tls, roots) = certified(directory.path());
    let (plain, secured) = (Node::start(None), Node::start(Some(tls)));
    let (anew, resumed) =
        (client(roots.clone(), Resumption::disabled()), client(roots, Resumption::in_memory_sessions(8)));
    let mut spent = [(); 4].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        let bare = async { hits(TcpStream::connect(plain.address).await.expect("it listens")).await };
        spent[0].push(plain.each(HITS, bare));
        spent[1].push(secured.each(HITS, async { hits(connect(secured.address, &anew).await).await }));
        spent[2].push(secured.each(HANDSHAKES, handshakes(secured.address, &anew, HandshakeKind::Full)));
        spent[3].push(secured.each(HANDSHAKES, handshakes(secured.address, &resumed, HandshakeKind::Resumed)));
    }
    let [bare, over_tls, full, again] = spent.map(median);
    let mut out = std::io::stdout().lock();
    writeln!(out, "hit over plain HTTP/1.1   {bare:8.1} us of the node's core")?;
    writeln!(out, "hit over TLS 1.3          {over_tls:8.1} us, {:.2} x", over_tls / bare)?;
    for (what, cost) in [("full handshake + hit", full), ("resumed handshake + hit", again)] {
        writeln!(out, "{what:25} {cost:8.1} us, {:.0} a second and core", 1e6 / cost)?;
    }
    Ok(())
}
