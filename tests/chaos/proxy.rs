//! Owns a TCP proxy between two parties that can be made to swallow, delay, drip or cut what
//! passes.
//!
//! Before it: clients of its port. After it: the port that it stands for. Invariant: bytes
//! pass whole and in order, or the connection ends; what a blackhole held is passed on when it is
//! over, as TCP would.

use std::net::SocketAddr;
use std::time::Duration;

use nearside::tasks::Tasks;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Between two bytes that drip.
const DRIP: Duration = Duration::from_millis(20);

/// Treatment of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    Pass,
    Blackhole,
    /// Each piece of a reply comes so much later.
    Delay(Duration),
    /// Replies come byte by byte.
    Drip,
    /// Every connection is reset.
    Cut,
}

/// A proxy; dropping it leaves its connections to the tasks.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    treatment: watch::Sender<Treatment>,
}

impl Proxy {
    /// A proxy on a free port for `target`.
    pub(crate) async fn start(target: SocketAddr, tasks: &Tasks) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let treatment = watch::Sender::new(Treatment::Pass);
        let (treatments, spawner) = (treatment.clone(), tasks.clone());
        tasks.spawn("proxy", async move {
            while let Some(Ok((stream, _))) = spawner.stopping().run_until_cancelled(listener.accept()).await {
                let (treatments, stopping, pumps) = (treatments.subscribe(), spawner.stopping(), spawner.clone());
                spawner.spawn("proxied", async move {
                    stopping.run_until_cancelled(connection(stream, target, treatments, pumps)).await;
                });
            }
        });
        Ok(Self { address, treatment })
    }

    /// From now on, for old and new connections.
    pub(crate) fn set(&self, treatment: Treatment) {
        self.treatment.send_replace(treatment);
    }
}

async fn connection(near: TcpStream, target: SocketAddr, mut treatments: watch::Receiver<Treatment>, tasks: Tasks) {
    // A lost option only costs milliseconds; a reset that becomes a plain end is an end all the
    // same.
    let _ = near.set_nodelay(true);
    let open = treatments
        .wait_for(|treatment| *treatment != Treatment::Blackhole)
        .await
        .is_ok_and(|treatment| *treatment != Treatment::Cut);
    if !open {
        let _ = near.set_zero_linger();
        return;
    }
    let Ok(far) = TcpStream::connect(target).await else {
        let _ = near.set_zero_linger();
        return;
    };
    let _ = far.set_nodelay(true);
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    let stopping = tasks.stopping();
    let (asked, there) = (treatments.clone(), stopping.clone());
    tasks.spawn("proxied", async move { there.run_until_cancelled(pump(near_in, far_out, asked, false)).await });
    stopping.run_until_cancelled(pump(far_in, near_out, treatments, true)).await;
}

/// Passes bytes on until either end closes, or the proxy cuts.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut treatments: watch::Receiver<Treatment>,
    reply: bool,
) {
    let mut piece = vec![0; 16 << 10];
    loop {
        let read = tokio::select! {
            read = from.read(&mut piece) => read,
            _ = treatments.wait_for(|treatment| *treatment == Treatment::Cut) => Err(std::io::ErrorKind::ConnectionReset.into()),
        };
        let Ok(length @ 1..) = read else {
            if read.is_err() {
                // Both halves are dropped with a reset.
                let _ = to.as_ref().set_zero_linger();
            }
            return;
        };
        if pass(&piece[..length], &mut to, &mut treatments, reply).await.is_none() {
            let _ = to.as_ref().set_zero_linger();
            return;
        }
    }
}

/// One piece, as the treatment of the moment says; `None` when the connection is over.
async fn pass(
    piece: &[u8],
    to: &mut OwnedWriteHalf,
    treatments: &mut watch::Receiver<Treatment>,
    reply: bool,
) -> Option<()> {
    let treatment = *treatments.wait_for(|treatment| *treatment != Treatment::Blackhole).await.ok()?;
    match treatment {
        Treatment::Cut => return None,
        Treatment::Delay(span) if reply => tokio::time::sleep(span).await,
        Treatment::Drip if reply => {
            for (place, byte) in piece.iter().enumerate() {
                if *treatments.borrow() != Treatment::Drip {
                    return to.write_all(&piece[place..]).await.ok();
                }
                to.write_all(&[*byte]).await.ok()?;
                tokio::time::sleep(DRIP).await;
            }
            return Some(());
        }
        _ => {}
    }
    to.write_all(piece).await.ok()
}
