//! Owns a port of its own before another one: what comes is passed on, refused, or left without an
//! answer, as the network has it when AWS is out of reach.

use std::net::SocketAddr;

use nearside::tasks::Tasks;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Treatment of connections, those that are open too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    Open,
    /// Closed at once.
    Refused,
    /// Taken, and never answered.
    Silent,
}

pub(crate) struct Relay {
    address: SocketAddr,
    treatment: watch::Sender<Treatment>,
}

impl Relay {
    /// An open one before this port of the loopback interface.
    pub(crate) async fn before(port: u16, tasks: &Tasks) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (treatment, reported) = watch::channel(Treatment::Open);
        let connections = tasks.clone();
        tasks.spawn("relay", async move {
            while let Ok((taken, _)) = listener.accept().await {
                connections.spawn("relayed", relay(taken, port, reported.clone()));
            }
        });
        Self { address, treatment }
    }

    /// `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn set(&self, treatment: Treatment) {
        self.treatment.send_replace(treatment);
    }
}

async fn relay(mut taken: TcpStream, port: u16, mut treatment: watch::Receiver<Treatment>) {
    let begun = *treatment.borrow_and_update();
    let passes = async {
        match begun {
            Treatment::Open => {
                let mut other = TcpStream::connect(("127.0.0.1", port)).await?;
                copy_bidirectional(&mut taken, &mut other).await.map(drop)
            }
            Treatment::Refused => Ok(()),
            Treatment::Silent => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = passes => {}
        _ = treatment.changed() => {}
    }
}
