//! A region's address, in front of whichever node there is: connections are passed through to the
//! one that it leads to when they come.

use std::net::SocketAddr;
use std::time::Duration;

use nearside::tasks::Tasks;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    leads_to: watch::Sender<Option<SocketAddr>>,
}

impl Proxy {
    /// It leads nowhere yet.
    pub(super) async fn open(tasks: &Tasks) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (leads_to, led) = watch::channel(None);
        let (connections, stopping) = (tasks.clone(), tasks.stopping());
        tasks.spawn("listener", async move {
            while let Some(Ok((caller, _))) = stopping.run_until_cancelled(listener.accept()).await {
                let led = led.clone();
                let stopping = connections.stopping();
                connections.spawn("passage", async move {
                    stopping.run_until_cancelled(pass(caller, led)).await;
                });
            }
        });
        Self { address, leads_to }
    }

    /// Connections that come from now on end there; those that there are stay where they are.
    pub(super) fn lead_to(&self, node: SocketAddr) {
        self.leads_to.send_replace(Some(node));
    }

    /// Cuts every connection, and each that comes.
    pub(super) fn shut(&self) {
        self.leads_to.send_replace(None);
    }
}

async fn pass(mut caller: TcpStream, mut led: watch::Receiver<Option<SocketAddr>>) {
    let Some(node) = *led.borrow_and_update() else { return abort(&caller) };
    let Ok(mut behind) = TcpStream::connect(node).await else { return abort(&caller) };
    let _ = (caller.set_nodelay(true), behind.set_nodelay(true));
    let is_shut = led.wait_for(Option::is_none);
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut caller, &mut behind) => {}
        _ = is_shut => {
            abort(&caller);
            abort(&behind);
        }
    }
}

/// The other side sees a reset, as when a machine is gone.
fn abort(stream: &TcpStream) {
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
