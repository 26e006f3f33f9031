//! Test doubles of issuers: one that answers as a test says and counts its tokens, and an HTTP server
//! on loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_credential_types::Credentials;
use futures_util::future::FutureExt;
use http::HeaderValue;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::error::MintError;
use super::keys::of_keys;
use super::minter::{Carried, Credential, MintDeps, Minter};
use super::source::Source;
use super::token::{Secret, Token};
use crate::config::{JwtMinting, Minting, Sigv4Signing};
use crate::model::time::{Clock, Wall};
use crate::tasks::Tasks;
use crate::telemetry::metrics::credentials::CredentialsMetrics;

/// Tokens are called `token-1`, `token-2`, ..., and keys `AKIA1`, `AKIA2`, ...
pub(crate) struct Script {
    gives_keys: bool,
    pub(crate) life: Mutex<Duration>,
    pub(crate) is_down: Mutex<bool>,
    takes: Duration,
    asked: AtomicU64,
    minted: AtomicU64,
}

impl Script {
    async fn mint(&self) -> Result<Token, MintError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.takes).await;
        if *self.is_down.lock() {
            return Err(MintError::Unreachable("issuer.example".to_owned(), "no answer in time"));
        }
        let number = self.minted.fetch_add(1, Ordering::Relaxed) + 1;
        let life = *self.life.lock();
        if self.gives_keys {
            let found = Credentials::new(format!("AKIA{number}"), "secret", None, None, "test");
            return Ok(Token { life, ..of_keys(found, Wall::default()) });
        }
        Ok(Token::new(format!("token-{number}"), Some(life)).expect("it fits a header"))
    }

    /// Number of times that it was asked.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

/// A minter that has started, and its issuer.
pub(crate) struct Issued {
    pub(crate) script: Arc<Script>,
    pub(crate) minter: Arc<Minter>,
    pub(crate) deps: MintDeps,
}

/// An issuer whose answers take 20 ms, and whose tokens have this `life`.
pub(crate) fn issued(life: Duration, is_down: bool) -> Issued {
    issued_for(
        Minting::Jwt(JwtMinting {
            key_file: "/nowhere".into(),
            kid: "kid".to_owned(),
            iss: "iss".to_owned(),
            sub: "sub".to_owned(),
            audience: "aud".to_owned(),
            lifetime: Duration::from_mins(15),
        }),
        life,
        is_down,
    )
}

/// AWS keys that sign for `service`, in the AWS region `eu-west-1` at the region `a`, and in
/// `us-east-1` at `b`.
pub(crate) fn issued_keys(life: Duration, service: &str) -> Issued {
    let regions = [("a", "eu-west-1"), ("b", "us-east-1")].map(|(name, aws)| (name.to_owned(), aws.to_owned()));
    let (service, written, regions) = (service.to_owned(), Vec::new(), regions.into());
    issued_for(Minting::Sigv4(Sigv4Signing { service, written, regions }), life, false)
}

fn issued_for(minting: Minting, life: Duration, is_down: bool) -> Issued {
    let (asked, minted, takes) = (AtomicU64::new(0), AtomicU64::new(0), Duration::from_millis(20));
    let (life, is_down) = (Mutex::new(life), Mutex::new(is_down));
    let gives_keys = matches!(minting, Minting::Sigv4(_));
    let script = Arc::new(Script { gives_keys, life, is_down, takes, asked, minted });
    let own = script.clone();
    let given = move || {
        let own = own.clone();
        async move { own.mint().await }.boxed()
    };
    let minter = Arc::new(Minter::new(&minting, Source::Given(Box::new(given))));
    let (clock, tasks) = (Clock::simulated(Wall::from_millis(1_800_000_000_000)), Tasks::new());
    let deps = MintDeps { clock, tasks, metrics: CredentialsMetrics::default() };
    minter.start(&deps);
    Issued { script, minter, deps }
}

impl Credential {
    /// The header's value.
    pub(crate) fn bearer(&self) -> &HeaderValue {
        let Carried::Bearer(value) = &self.carried else { panic!("keys are carried by no header") };
        value
    }
}

impl Token {
    pub(super) fn text(&self) -> &str {
        let Secret::Bearer(text) = &self.secret else { panic!("they are keys") };
        text
    }
}

impl Issued {
    /// The token that would be sent now, waiting for it for `within`.
    pub(crate) async fn sent(&self, within: Duration) -> Option<String> {
        let credential = self.minter.usable(within).await?;
        Some(credential.bearer().to_str().expect("it is text").to_owned())
    }

    pub(crate) async fn stop(self) {
        assert!(self.deps.tasks.drain(Duration::from_secs(5)).await.is_empty());
    }
}

/// A request's head in lower case but for its first line's target and values, and its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Received {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A server that answers each request with what `answer` makes of it: a whole response.
pub(crate) struct HttpIssuer {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
    tasks: Tasks,
}

impl HttpIssuer {
    pub(crate) async fn start(answer: impl Fn(&Received) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("it has an address"));
        let (received, tasks, answer) = (Arc::<Mutex<Vec<_>>>::default(), Tasks::new(), Arc::new(answer));
        let (all, each, stopping) = (received.clone(), tasks.clone(), tasks.stopping());
        tasks.spawn("accept", async move {
            let accepts = async {
                while let Ok((stream, _)) = listener.accept().await {
                    let (all, answer) = (all.clone(), answer.clone());
                    each.spawn("serve", async move {
                        let _ended = serve(stream, |received| {
                            all.lock().push(received.clone());
                            answer(received)
                        })
                        .await;
                    });
                }
            };
            stopping.run_until_cancelled(accepts).await
        });
        Self { url, received, tasks }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().clone()
    }

    pub(crate) async fn stop(self) {
        self.tasks.drain(Duration::from_secs(5)).await;
    }
}

async fn serve(mut stream: TcpStream, answer: impl Fn(&Received) -> String) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let received = Received { head: head.to_owned(), body: body.to_owned() };
        let length = received.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if body.len() >= length {
            stream.write_all(answer(&received).as_bytes()).await?;
            return stream.shutdown().await;
        }
    }
}

/// A response with this body, after which the connection ends.
pub(crate) fn response(status: u16, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}
