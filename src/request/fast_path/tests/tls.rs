//! Connections over TLS: how their answers go out, and how they end.

use std::task::ready;

use tokio::io::{DuplexStream, duplex};
use tokio_rustls::client::TlsStream;

use super::*;
use crate::http::listener::accept_tls;
use crate::http::server_tls::Offers;
use crate::http::server_tls::scripted::Certified;

async fn open_tls(permits: usize, certified: &Certified) -> Listening {
    let context = context(permits).await;
    let listener = bind_tcp((Ipv4Addr::LOCALHOST, 0).into(), "test", "test").unwrap();
    let addr = listener.local_addr().unwrap();
    context.tasks.spawn("accept", accept_tls(listener, certified.port(Offers::Both), context.clone(), answer));
    Listening { addr, context }
}

async fn connect(listening: &Listening, certified: &Certified) -> TlsStream<TcpStream> {
    certified.connect(TcpStream::connect(listening.addr).await.unwrap(), &["http/1.1"]).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn slow_tls_reader_gets_everything() {
    let certified = Certified::new();
    let listening = open_tls(8, &certified).await;
    let mut stream = connect(&listening, &certified).await;
    let paths = ["/stored/x?16777216", "/stored/1", "/a", "/stored/x?3145728", "/stored/last"];
    stream.write_all(paths.map(|path| GET.replace("/one", path)).concat().as_bytes()).await.unwrap();
    tokio::time::sleep(limits::HEADER_WAIT * 3).await;
    let mut text = Vec::new();
    while !text.ends_with(b"/stored/last") {
        assert_ne!(stream.read_buf(&mut text).await.unwrap(), 0, "cut off after {} bytes", text.len());
    }
    assert!(text.len() > 16_777_216 + 3_145_728);
}

#[tokio::test]
async fn answers_arrive_one_by_one() {
    let certified = Certified::new();
    let listening = open_tls(8, &certified).await;
    let mut stream = connect(&listening, &certified).await;
    for path in ["/stored/1", "/a", "/stored/x?16777216", "/passing/b", "/stored/x?3145728"] {
        stream.write_all(GET.replace("/one", path).as_bytes()).await.unwrap();
        let wanted = path.split_once('?').map_or(path.len(), |(_, bytes)| bytes.parse().unwrap());
        let (mut text, mut end) = (Vec::new(), None);
        while end.is_none_or(|end| text.len() < end) {
            assert_ne!(stream.read_buf(&mut text).await.unwrap(), 0, "{path}");
            end = end.or_else(|| Some(text.windows(4).position(|four| four == b"\r\n\r\n")? + 4 + wanted));
        }
        assert_eq!(Some(text.len()), end, "{path}");
    }
}

/// A stream that keeps what is written until it is flushed, as TLS may.
struct Withholding(DuplexStream, Vec<u8>);

impl AsyncRead for Withholding {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Withholding {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.1.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        while !self.1.is_empty() {
            let Self(stream, kept) = &mut *self;
            let count = ready!(Pin::new(stream).poll_write(cx, kept))?;
            kept.drain(..count);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn withheld_answers_are_flushed() {
    let (mut caller, ours) = duplex(64 << 10);
    let context = context(8).await;
    let ours = Withholding(ours, Vec::new());
    context.tasks.spawn("caller", connection::serve(ours, KernelBuffers::NONE, Via::Tcp, context.clone(), answer));
    for path in ["/stored/1", "/a", "/passing/b", "/stored/last"] {
        caller.write_all(GET.replace("/one", path).as_bytes()).await.unwrap();
        let end = format!("\r\n\r\n{path}");
        let read = tokio::time::timeout(Duration::from_secs(1), read_until(&mut caller, &end)).await;
        assert!(read.is_ok_and(|text| text.ends_with(&end)), "{path}");
    }
}

/// Without a `close_notify` the caller cannot tell the end from an attack that cut it off.
#[tokio::test]
async fn every_end_is_announced_in_tls() {
    let certified = Certified::new();
    for path in ["/stored/1", "/passing/b", "/a"] {
        let listening = open_tls(8, &certified).await;
        let mut stream = connect(&listening, &certified).await;
        stream.write_all(GET.replace("/one", path).as_bytes()).await.unwrap();
        assert!(read_until(&mut stream, &format!("\r\n\r\n{path}")).await.contains("200 OK"));
        listening.context.shutdown.closing.cancel();
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0, "{path}: a truncated stream is an error");
    }
    let listening = open_tls(8, &certified).await;
    let mut stream = connect(&listening, &certified).await;
    let last = "GET /stored/1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(last.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.ends_with("/stored/1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn silent_handshakes_make_room() {
    let certified = Certified::new();
    let listening = open_tls(1, &certified).await;
    let mut silent = TcpStream::connect(listening.addr).await.unwrap();
    let began = tokio::time::Instant::now();
    let mut stream = connect(&listening, &certified).await;
    stream.write_all(GET.as_bytes()).await.unwrap();
    assert!(read_until(&mut stream, "\r\n/one").await.contains("200 OK"));
    assert!(began.elapsed() < limits::HANDSHAKE_WAIT, "{:?}", began.elapsed());
    assert!(matches!(silent.read(&mut [0]).await, Ok(0) | Err(_)));
}

#[tokio::test(start_paused = true)]
async fn tls_peer_that_reads_nothing_goes() {
    let certified = Certified::new();
    let listening = open_tls(8, &certified).await;
    let mut stream = connect(&listening, &certified).await;
    stream.write_all(GET.replace("/one", "/stored/x?16777216").as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    (0..3).for_each(|_| listening.context.peers.relieve());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut socket = stream.into_inner().0;
    let ended = socket.read_to_end(&mut Vec::new()).await;
    assert_eq!(ended.map_err(|error| error.kind()), Err(std::io::ErrorKind::ConnectionReset));
}
