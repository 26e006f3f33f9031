//! Tests of handshakes, and of certificates that are replaced.

use std::time::Duration;

use rustls::HandshakeKind;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio_rustls::TlsConnector;

use super::scripted::Certified;
use super::*;
use crate::telemetry::scripted::CountedLines;

/// A caller's end of a connection whose handshake is under way.
fn connection(tls: &Arc<ServerTls>, tasks: &Tasks, offers: Offers) -> DuplexStream {
    let (caller, ours) = duplex(16 << 10);
    let tls = tls.clone();
    tasks.spawn("handshake", async move {
        let stream = tls.accept(ours, offers).await;
        // Open until the caller hangs up.
        if let Some(mut accepted) = stream {
            let _ = accepted.stream.read(&mut [0]).await;
        }
    });
    caller
}

/// A ClientHello in which `version` is the highest.
fn hello(version: u8) -> Vec<u8> {
    let mut body = vec![3, version];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]);
    // Which signatures, curves and points it knows.
    let extensions = [0, 13, 0, 4, 0, 2, 4, 3, 0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0];
    body.extend([0, extensions.len() as u8]);
    body.extend(extensions);
    let mut record = vec![0x16, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8];
    record.append(&mut body);
    record
}

#[tokio::test]
async fn port_decides_which_protocols_alpn_selects() {
    let (certified, tasks) = (Certified::new(), Tasks::new());
    let tls = certified.tls();
    for (offers, asked, selected) in [
        (Offers::Both, &["h2", "http/1.1"][..], Some("h2")),
        (Offers::Both, &["http/1.1"], Some("http/1.1")),
        (Offers::Both, &[], None),
        (Offers::Http1, &["h2", "http/1.1"], Some("http/1.1")),
        (Offers::Http1, &[], None),
    ] {
        let stream = certified.connect(connection(&tls, &tasks, offers), asked).await.unwrap();
        let found = stream.get_ref().1.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
        assert_eq!(found.as_deref(), selected, "{offers:?} {asked:?}");
    }
    assert!(certified.connect(connection(&tls, &tasks, Offers::Http1), &["h2"]).await.is_err());
}

#[tokio::test]
async fn old_versions_and_plain_text_are_refused() {
    let (certified, tasks) = (Certified::new(), Tasks::new());
    let tls = certified.tls();
    for (sent, alert) in [(hello(2), [2, 70]), (hello(1), [2, 70]), (b"GET / HTTP/1.1\r\n\r\n".to_vec(), [2, 50])] {
        let mut caller = connection(&tls, &tasks, Offers::Both);
        caller.write_all(&sent).await.unwrap();
        let mut answer = Vec::new();
        caller.read_to_end(&mut answer).await.unwrap();
        assert!(answer.starts_with(&[0x15, 3]) && answer.ends_with(&alert), "{answer:?}");
    }
    assert_eq!(tls.counts.count(HandshakeOutcome::Failed), 3);
    drop(connection(&tls, &tasks, Offers::Both));
    tasks.drain(Duration::from_secs(5)).await;
    assert_eq!(tls.counts.count(HandshakeOutcome::Gone), 1);
}

#[tokio::test(start_paused = true)]
async fn incomplete_hello_holds_no_slot() {
    let (certified, tasks) = (Certified::new(), Tasks::new());
    let (tls, began) = (certified.tls(), tokio::time::Instant::now());
    let mut silent = Vec::new();
    for _ in 0..2 * HANDSHAKES {
        let mut caller = connection(&tls, &tasks, Offers::Both);
        caller.write_all(&hello(3)[..20]).await.unwrap();
        silent.push(caller);
    }
    tokio::task::yield_now().await;
    certified.connect(connection(&tls, &tasks, Offers::Both), &[]).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    for caller in &mut silent {
        assert_eq!(caller.read(&mut [0]).await.unwrap(), 0);
    }
    assert_eq!(began.elapsed(), HANDSHAKE_WAIT);
    tasks.drain(Duration::from_secs(5)).await;
    assert_eq!(tls.counts.count(HandshakeOutcome::TimedOut), 2 * HANDSHAKES as u64);
}

#[tokio::test(start_paused = true)]
async fn silence_after_hello_frees_slot_soon() {
    let (certified, tasks) = (Certified::new(), Tasks::new());
    let (tls, began) = (certified.tls(), tokio::time::Instant::now());
    let mut silent = Vec::new();
    for _ in 0..HANDSHAKES {
        // What a caller of ours says first, and nothing more.
        let (ours, mut theirs) = duplex(16 << 10);
        let said = tokio::time::timeout(Duration::ZERO, certified.connect(ours, &[]));
        let mut first = vec![0; 16 << 10];
        let (_, count) = tokio::join!(said, theirs.read(&mut first));
        let mut caller = connection(&tls, &tasks, Offers::Both);
        caller.write_all(&first[..count.unwrap()]).await.unwrap();
        silent.push(caller);
    }
    while tls.handshakes.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    certified.connect(connection(&tls, &tasks, Offers::Both), &[]).await.unwrap();
    assert_eq!(began.elapsed(), HANDSHAKE_SLOT_WAIT);
}

/// A handshake of this caller; the certificate that the port saw, and if the session was resumed.
async fn seen(
    tls: &Arc<ServerTls>,
    connector: &TlsConnector,
    offers: Offers,
) -> std::io::Result<(Option<Arc<PeerCertificate>>, HandshakeKind)> {
    let (caller, ours) = duplex(64 << 10);
    let asking = async {
        let mut stream = connector.connect(ServerName::try_from("localhost").unwrap(), caller).await?;
        // Tickets and refusals come after a client's part of the handshake.
        let _ = stream.read(&mut [0]).await?;
        Ok(())
    };
    let answering = async {
        let mut accepted = tls.accept(ours, offers).await?;
        let kind = accepted.stream.get_ref().1.handshake_kind().unwrap();
        accepted.stream.shutdown().await.unwrap();
        Some((accepted.peer, kind))
    };
    let (asked, answered) = tokio::join!(asking, answering);
    asked.map(|()| answered.unwrap())
}

#[tokio::test]
async fn callers_are_asked_only_with_cas() {
    let certified = Certified::new();
    let caller = certified.connector(&[], Some(certified.client(|_| {})));
    let (peer, _) = seen(&certified.tls(), &caller, Offers::Both).await.unwrap();
    assert!(peer.is_none());
    certified.write("client_ca", certified.root());
    for (offers, is_asked) in [(Offers::Pages, false), (Offers::Http1, true), (Offers::Both, true)] {
        let (peer, _) = seen(&certified.tls(), &caller, offers).await.unwrap();
        assert_eq!(peer.is_some(), is_asked, "{offers:?}");
        let without = certified.connector(&[], None);
        assert!(seen(&certified.tls(), &without, offers).await.unwrap().0.is_none(), "none is demanded");
    }
}

#[tokio::test]
async fn resumed_session_keeps_its_certificate() {
    let certified = Certified::new();
    certified.write("client_ca", certified.root());
    let (tls, now) = (certified.tls(), Clock::System.wall());
    let caller = certified.connector(&[], Some(certified.client(|_| {})));
    for wanted in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let (peer, kind) = seen(&tls, &caller, Offers::Both).await.unwrap();
        assert_eq!(kind, wanted);
        assert!(peer.unwrap().holds(now), "{kind:?}");
    }
    // The CAs of the moment are asked, not those of the first handshake.
    tls.authorities.as_ref().unwrap().replace(verifier_of(&Certified::new()));
    let (peer, kind) = seen(&tls, &caller, Offers::Both).await.unwrap();
    assert_eq!((kind, peer.unwrap().holds(now)), (HandshakeKind::Resumed, false));
}

fn verifier_of(certified: &Certified) -> Arc<dyn ClientCertVerifier> {
    certified.write("client_ca", certified.root());
    verifier(&certified.files()).unwrap().unwrap()
}

#[tokio::test]
async fn large_client_chain_is_refused() {
    let certified = Certified::new();
    certified.write("client_ca", certified.root());
    let mut pair = certified.client(|_| {});
    while pair.chain.iter().map(|der| der.len()).sum::<usize>() <= CLIENT_CHAIN_BYTES {
        pair.chain.push(pair.chain[0].clone());
    }
    let (caller, ours) = duplex(64 << 10);
    let (tls, connector) = (certified.tls(), certified.connector(&[], Some(pair)));
    let name = ServerName::try_from("localhost").unwrap();
    let (_, accepted) = tokio::join!(connector.connect(name, caller), tls.accept(ours, Offers::Both));
    assert!(accepted.is_none() && tls.counts.count(HandshakeOutcome::Failed) == 1);
}

#[tokio::test(start_paused = true)]
async fn cas_are_replaced_with_their_file() {
    let (certified, other, tasks, lines) = (Certified::new(), Certified::new(), Tasks::new(), CountedLines::start());
    certified.write("client_ca", other.root());
    let (tls, now) = (certified.tls(), Clock::System.wall());
    tls.watch(&tasks);
    let caller = certified.connector(&[], Some(certified.client(|_| {})));
    let (peer, _) = seen(&tls, &caller, Offers::Both).await.unwrap();
    let peer = peer.unwrap();
    assert!(!peer.holds(now));
    certified.write("client_ca", "nothing");
    while lines.with("the last good CAs of callers stay in use") == 0 {
        tokio::time::sleep(CERTIFICATE_LOOK).await;
    }
    certified.write("client_ca", certified.root());
    while !peer.holds(now) {
        tokio::time::sleep(CERTIFICATE_LOOK).await;
    }
}

#[test]
fn key_of_another_certificate_is_named() {
    let certified = Certified::new();
    certified.write("key", &certified.pair(2031).1);
    let error = ServerTls::open(&certified.files()).unwrap_err().to_string();
    assert!(
        error.starts_with("catalogue.tls.key: ") && error.contains("is not the key of the certificate in"),
        "{error}"
    );
    certified.write("certificate", "nothing");
    let error = ServerTls::open(&certified.files()).unwrap_err().to_string();
    assert!(error.starts_with("catalogue.tls.certificate: ") && error.contains("holds no certificate"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn pair_is_replaced_as_a_whole() {
    let (certified, tasks, lines) = (Certified::new(), Tasks::new(), CountedLines::start());
    let tls = certified.tls();
    tls.watch(&tasks);
    let before = tls.ends();
    let (certificate, key) = certified.pair(2031);
    certified.write("key", &key);
    while lines.with("the last good certificate stays in use") == 0 {
        tokio::time::sleep(CERTIFICATE_LOOK).await;
    }
    assert_eq!(tls.ends(), before);
    certified.connect(connection(&tls, &tasks, Offers::Both), &[]).await.unwrap();
    certified.write("certificate", &certificate);
    while tls.ends() == before {
        tokio::time::sleep(CERTIFICATE_LOOK).await;
    }
    certified.connect(connection(&tls, &tasks, Offers::Both), &[]).await.unwrap();
    assert_eq!(lines.with("the certificate and its key were replaced"), 1);
}

#[test]
fn end_of_certificate_is_announced() {
    let tls = Certified::new().tls();
    let ends = tls.ends();
    assert_eq!(tls.status()["ends"], "2030-01-01T00:00:00Z");
    let before = |days: u64| Wall::from_millis(ends.as_millis() - days * 24 * 3_600_000);
    assert_eq!(tls.reason(before(7)), None);
    assert!(tls.reason(before(6)).unwrap().ends_with("ends at 2030-01-01T00:00:00Z: replace it before"));
    assert!(tls.reason(ends).unwrap().ends_with("ended at 2030-01-01T00:00:00Z: replace it"));
}
