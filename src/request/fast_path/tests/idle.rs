//! Connections that keep us waiting, and requests that come just as they are to be closed.

use super::*;

#[tokio::test(start_paused = true)]
async fn unused_connection_has_idle_timeout() {
    let listening = open(8).await;
    let mut stream = TcpStream::connect(listening.addr).await.unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
    let waited = began.elapsed();
    assert!(waited >= limits::IDLE_WAIT && waited <= limits::IDLE_WAIT + limits::HEADER_WAIT, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn partial_preface_counts_as_partial_head() {
    let listening = open(8).await;
    let mut stream = TcpStream::connect(listening.addr).await.unwrap();
    send(&mut stream, "PRI * HT").await;
    let began = tokio::time::Instant::now();
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0);
    let waited = began.elapsed();
    assert!(waited >= limits::HEADER_WAIT && waited <= limits::HEADER_WAIT * 2, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn dripping_head_times_out_before_idle() {
    let listening = open(8).await;
    let mut slow = TcpStream::connect(listening.addr).await.unwrap();
    send(&mut slow, GET).await;
    assert!(read_until(&mut slow, "/one").await.contains("200 OK"));
    let began = tokio::time::Instant::now();
    send(&mut slow, "GET /two HTTP/1.1\r\nx-").await;
    assert_eq!(slow.read(&mut [0; 8]).await.unwrap_or(0), 0);
    let waited = began.elapsed();
    assert!(waited >= limits::HEADER_WAIT && waited <= limits::HEADER_WAIT * 2, "{waited:?}");

    let mut idle = TcpStream::connect(listening.addr).await.unwrap();
    send(&mut idle, GET).await;
    read_until(&mut idle, "/one").await;
    let began = tokio::time::Instant::now();
    assert_eq!(idle.read(&mut [0; 8]).await.unwrap_or(0), 0);
    let waited = began.elapsed();
    assert!(waited >= limits::IDLE_WAIT && waited <= limits::IDLE_WAIT + limits::HEADER_WAIT, "{waited:?}");
}

/// A connection that is served only while the test polls it, as if the process stood still between.
async fn held_up(
    has_asked: bool,
    path: &str,
    stands_still: impl AsyncFn(&ConnectionContext<Arc<Current<Settings>>>),
) -> String {
    let (context, listener) = (context(8).await, TcpListener::bind("127.0.0.1:0").await.unwrap());
    let mut caller = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (ours, _) = listener.accept().await.unwrap();
    let serve = connection::serve(ours, KernelBuffers::TCP, Via::Tcp, context.clone(), answer);
    let mut connection = pin!(serve);
    if has_asked {
        send(&mut caller, GET).await;
        tokio::select! {
            () = &mut connection => panic!("it goes on"),
            _ = read_until(&mut caller, "/one") => {}
        }
    }
    assert!(futures_util::poll!(&mut connection).is_pending());
    stands_still(&context).await;
    send(&mut caller, &GET.replace("/one", path)).await;
    let size = path.split_once('?').map_or(path.len(), |(_, size)| size.parse().unwrap());
    let text = async {
        let mut text = Vec::new();
        while text.len() <= size && caller.read_buf(&mut text).await.unwrap_or(0) > 0 {}
        String::from_utf8_lossy(&text).into_owned()
    };
    // Served until all is read, not for a time: the paused clock jumps whenever the kernel has the bytes.
    let text = tokio::select! {
        text = text => text,
        () = &mut connection => panic!("it goes on"),
    };
    let lasting = tokio::time::timeout(Duration::from_secs(1), &mut connection).await;
    assert!(lasting.is_err(), "it is kept");
    (0..=limits::IDLE_LOOKS[2]).for_each(|_| context.peers.close_idle());
    let ended = tokio::time::timeout(Duration::from_secs(1), &mut connection).await;
    assert!(ended.is_ok(), "it was spared once, and not for good");
    text
}

#[tokio::test(start_paused = true)]
async fn request_at_idle_timeout_is_answered() {
    for has_asked in [false, true] {
        let text = held_up(has_asked, "/one", async |_: &ConnectionContext<_>| {
            tokio::time::sleep(limits::IDLE_WAIT + limits::HEADER_WAIT).await
        })
        .await;
        assert!(text.contains("200 OK"), "{has_asked}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn request_at_eviction_is_answered() {
    // The large answer does not fit into what the kernel buffers.
    for (has_asked, path) in [(false, "/one"), (true, "/one"), (true, "/stored/x?16777216")] {
        let text = held_up(has_asked, path, async |context: &ConnectionContext<_>| {
            (0..=limits::IDLE_LOOKS[1]).for_each(|_| context.peers.close_idle());
        })
        .await;
        let whole = path.split_once('?').is_none_or(|_| text.len() > 16 << 20);
        assert!(text.contains("200 OK") && whole, "{has_asked} {path}: {}", text.len());
    }
}
