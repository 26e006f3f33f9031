//! Peers who hold memory, or the end of the process, by doing nothing.

use super::*;

/// Kernel buffers for such a peer would else stay for minutes.
#[tokio::test(start_paused = true)]
async fn nonreading_peer_leaves_no_kernel_buffer() {
    let listening = open(8).await;
    let large = GET.replace("/one", "/stored/x?16777216");
    let mut evicted = TcpStream::connect(listening.addr).await.unwrap();
    send(&mut evicted, &large).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    (0..2).for_each(|_| listening.context.peers.relieve());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut idle = TcpStream::connect(listening.addr).await.unwrap();
    send(&mut idle, &large).await;
    tokio::time::sleep(limits::IDLE_WAIT + limits::HEADER_WAIT).await;
    for stream in [&mut evicted, &mut idle] {
        let ended = stream.read_to_end(&mut Vec::new()).await;
        assert_eq!(ended.map_err(|error| error.kind()), Err(std::io::ErrorKind::ConnectionReset));
    }
}

/// Peers who keep a drain waiting, each in its way; none makes the process end late.
#[tokio::test(start_paused = true)]
async fn no_peer_makes_a_drain_late() {
    for deadline in [Duration::from_secs(10), Duration::from_secs(3), Duration::from_millis(100)] {
        let context = context(64).await;
        let settings = context.fast_path.clone().unwrap().load_full();
        let listener = bind_tcp((Ipv4Addr::LOCALHOST, 0).into(), "test", "test").unwrap();
        let addr = listener.local_addr().unwrap();
        let accept = accept_tcp(listener, context.clone(), move |request, via| {
            crate::request::serve::answer(&settings, request, via)
        });
        context.tasks.spawn("accept", accept);
        let mut peers = Vec::new();
        let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        // A request over HTTP/2 of which no body comes, from who answers no PING either.
        let lines = [(":method", "PUT"), (":scheme", "http"), (":path", "/one"), (":authority", "localhost")];
        let block: String =
            lines.iter().map(|(name, value)| format!("\0{}{name}{}{value}", length(name), length(value))).collect();
        let half = format!("\0\0{}\x01\x04\0\0\0\x01{block}", length(&block));
        let large = GET.replace("/one", "/x?16777216");
        for says in [
            preface.to_owned(),
            format!("{preface}{half}"),
            "PUT /stored/one HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf".to_owned(),
            "GET /stored/one HTTP/1.1\r\nHost:".to_owned(),
            String::new(),
            large.clone(),
        ] {
            let mut peer = TcpStream::connect(addr).await.unwrap();
            send(&mut peer, &says).await;
            peers.push(peer);
        }
        let mut slow = TcpStream::connect(addr).await.unwrap();
        send(&mut slow, &large).await;
        // Takes a little all the time, and would take minutes for all of it.
        let takes = Tasks::new().spawn("takes", async move {
            let mut some = vec![0; 4096];
            while matches!(slow.read(&mut some).await, Ok(read) if read > 0) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        context.shutdown.closing.cancel();
        assert_eq!(context.tasks.drain(deadline).await, Vec::<&str>::new(), "{deadline:?}");
        takes.abort();
    }
}

/// The length as a field block and a frame's head state it.
fn length(text: &str) -> char {
    char::from(u8::try_from(text.len()).unwrap())
}
