//! Finds the sidecar, and asks it for a command over its socket or its port.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::reach::Reach;
use crate::admin::{ALIVE, health};
use crate::app::process;
use crate::cli::error::CommandError;
use crate::cli::limits;
use crate::cli::load::{settings, tell, variables};
use crate::config::{Admin, read};
use crate::http::token;
use crate::shape::cache_status::CACHE_STATUS;

#[derive(Debug)]
enum Place {
    Socket(PathBuf),
    Port(SocketAddr),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Port(address) => address.fmt(f),
        }
    }
}

/// Client of one sidecar.
pub(super) struct CtlClient {
    place: Place,
    token: Option<Vec<u8>>,
    within: Duration,
}

impl CtlClient {
    /// The arguments come first, then the configuration that they name, or else the environment.
    pub(super) fn of(reach: Reach) -> Result<Self, CommandError> {
        let known = match &reach.config {
            Some(file) => settings(Some(file))?.0.admin,
            None => read::admin_alone(variables()).map_err(|errors| {
                tell(&errors);
                CommandError::Usage(String::new())
            })?,
        };
        let Admin { listen, unix, token_file, .. } = known;
        let place = match (reach.socket, reach.admin, unix) {
            (Some(path), ..) => Place::Socket(path),
            (None, Some(address), _) => Place::Port(address),
            (None, None, Some(unix)) => Place::Socket(unix.path),
            (None, None, None) => Place::Port(health::reachable(listen)),
        };
        let file = reach.token_file.or(token_file);
        let token = match &place {
            Place::Socket(_) => None,
            Place::Port(_) => token::read("--token-file", file.as_deref())
                .map_err(|error| CommandError::Usage(format!("the token: {error}")))?,
        };
        Ok(Self { place, token, within: reach.timeout })
    }

    /// Asks for one command, and returns the reply.
    pub(super) fn command(&self, name: &str, arguments: &Value) -> Result<Value, CommandError> {
        let asked = async { tokio::time::timeout(self.within, self.ask(name, arguments)).await };
        let asked = process::block_on(asked).map_err(|error| CommandError::Failed(error.to_string()))?;
        let (status, body) = asked.unwrap_or_else(|_| {
            let within = humantime::format_duration(self.within);
            Err(CommandError::Failed(format!(
                "{} gave no answer within {within}; what was asked may go on: look with nearside ctl jobs or inspect",
                self.place
            )))
        })?;
        self.understood(status, &body)
    }

    async fn ask(&self, name: &str, arguments: &Value) -> Result<(StatusCode, Bytes), CommandError> {
        match &self.place {
            Place::Socket(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| self.unreachable(&error))?;
                self.over(stream, name, arguments).await
            }
            Place::Port(address) => {
                let stream = TcpStream::connect(address).await.map_err(|error| self.unreachable(&error))?;
                self.over(stream, name, arguments).await
            }
        }
    }

    async fn over<S>(&self, stream: S, name: &str, arguments: &Value) -> Result<(StatusCode, Bytes), CommandError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.broken(&error))?;
        let host = match &self.place {
            Place::Socket(_) => "localhost".to_owned(),
            Place::Port(address) => address.to_string(),
        };
        let asked = async {
            if let Place::Port(_) = &self.place {
                self.look_whom_it_is(&mut sender, &host).await?;
            }
            let mut request = Request::post(format!("/commands/{name}"))
                .header(header::HOST, host.as_str())
                .header(header::CONTENT_TYPE, "application/json")
                .body(Full::new(Bytes::from(arguments.to_string())))
                .map_err(|error| CommandError::Failed(error.to_string()))?;
            if let Some(token) = &self.token {
                let value = [b"Bearer ", token.as_slice()].concat();
                let value = http::HeaderValue::from_bytes(&value)
                    .map_err(|_| CommandError::Usage("the token file holds what no header can carry".to_owned()))?;
                request.headers_mut().insert(header::AUTHORIZATION, value);
            }
            let reply = sender.send_request(request).await.map_err(|error| self.broken(&error))?;
            let status = reply.status();
            let body = Limited::new(reply.into_body(), limits::CTL_REPLY_BYTES).collect().await;
            Ok((status, body.map_err(|error| self.broken(&*error))?.to_bytes()))
        };
        // Drives the connection until the answer is there, and no longer.
        tokio::select! {
            asked = asked => asked,
            Err(error) = connection => Err(self.broken(&error)),
        }
    }

    fn broken(&self, error: &dyn std::fmt::Display) -> CommandError {
        CommandError::Failed(format!("{} broke the connection off: {error}; is it a Nearside?", self.place))
    }

    /// Checks that this is the admin side: the applications' port would pass a command on to a region,
    /// and the token with it.
    async fn look_whom_it_is(
        &self,
        sender: &mut http1::SendRequest<Full<Bytes>>,
        host: &str,
    ) -> Result<(), CommandError> {
        let look = Request::get("/livez").header(header::HOST, host).body(Full::default());
        let look = look.map_err(|error| CommandError::Failed(error.to_string()))?;
        let reply = sender.send_request(look).await.map_err(|error| self.broken(&error))?;
        if reply.headers().contains_key(CACHE_STATUS) {
            return Err(CommandError::Usage(format!(
                "{} is the side that applications ask; commands are for the admin side: name admin.listen, 127.0.0.1:8701 \
                 unless set, or with --socket what admin.unix names",
                self.place
            )));
        }
        let body = Limited::new(reply.into_body(), limits::CTL_REPLY_BYTES).collect().await;
        if body.map_err(|error| self.broken(&*error))?.to_bytes() != ALIVE {
            return Err(CommandError::Usage(format!("{} is not the admin side of a Nearside", self.place)));
        }
        sender.ready().await.map_err(|error| self.broken(&error))
    }

    /// The reply, or an error made of the problem document that came in its place.
    fn understood(&self, status: StatusCode, body: &[u8]) -> Result<Value, CommandError> {
        let document: Option<Value> = serde_json::from_slice(body).ok();
        if status.is_success() {
            return document.ok_or_else(|| CommandError::Failed(format!("{} answered what is no JSON", self.place)));
        }
        let detail = document.as_ref().and_then(|document| document["detail"].as_str());
        let reported = match detail {
            Some(detail) => detail.to_owned(),
            None => format!("{} answered {status}; is it a Nearside of this version?", self.place),
        };
        // A client error is a fault in the arguments or the configuration; anything else may go
        // away, and another job ends.
        let is_busy = document.as_ref().and_then(|it| it["type"].as_str()).is_some_and(|it| it.ends_with(":busy"));
        Err(if status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT && !is_busy {
            CommandError::Usage(reported)
        } else {
            CommandError::Failed(reported)
        })
    }

    fn unreachable(&self, error: &std::io::Error) -> CommandError {
        let next = match &self.place {
            Place::Socket(_) => {
                "start the sidecar with admin.unix set to this path, or name its socket with --socket, or its \
                 configuration with --config; the socket is its owner's alone unless admin.unix_mode says otherwise"
            }
            Place::Port(_) => {
                "start the sidecar, or name its socket with --socket, its address with --admin, or its configuration \
                 with --config"
            }
        };
        CommandError::Failed(format!("cannot ask {}: {error}; {next}", self.place))
    }
}
