//! Commands of a service's operators, one per request: `POST /commands/NAME` at its admin port.
//!
//! Grants decide about them wherever callers are checked: while they are only observed too, and over
//! loopback too, which every process of a pod reaches. Each is logged before it begins and when it ended.

use std::fmt;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Json, Response};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::commands::problem::Problem;
use super::commands::refused::CommandRefused;
use super::commands::{arguments, busy};
use super::guard::denied;
use super::limits;
use crate::access::credentials::Credentials;
use crate::access::gate::{Admitted, Gate};
use crate::access::grants::May;
use crate::http::server_tls::peer::PeerCertificate;

/// Rights of which one is enough to ask for a command of an unknown name.
const ANY: [May; 7] = [May::Operate, May::Inspect, May::Guard, May::Restore, May::Erase, May::Views, May::Chaos];

/// The rule by which operators are let in.
#[derive(Clone)]
pub enum CommandGate {
    /// Tokens for operators, and the grants.
    Grants(Arc<Gate>),
    /// Callers are not checked, and the port is this machine's alone.
    Local,
    /// Nobody is; this is why, and what to do.
    Closed(&'static str),
}

/// An operator who was let in.
#[derive(Clone, Debug)]
pub enum Commander {
    Known(Admitted),
    /// Somebody on this machine, where callers are not checked.
    Local,
}

impl fmt::Display for Commander {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Known(admitted) => {
                let (principal, consumer) = admitted.named();
                write!(f, "{principal} ({consumer})")
            }
        }
    }
}

/// Carries a command out, with its arguments as JSON. Dropped when its caller hangs up.
pub type RunCommand =
    Arc<dyn Fn(Commander, Bytes) -> BoxFuture<'static, Result<Value, CommandRefused>> + Send + Sync>;

/// A command of a service.
#[derive(Clone)]
pub struct ServiceCommand {
    pub name: &'static str,
    /// Rights of which one is enough.
    pub needs: &'static [May],
    pub run: RunCommand,
}

/// The commands of a service.
pub struct ServiceCommands {
    gate: CommandGate,
    commands: Vec<ServiceCommand>,
    room: Semaphore,
}

impl ServiceCommands {
    #[must_use]
    pub fn new(gate: CommandGate, commands: Vec<ServiceCommand>) -> Self {
        Self { gate, commands, room: Semaphore::new(limits::COMMANDS) }
    }

    async fn perform(&self, command: &ServiceCommand, by: Commander, body: Body) -> Result<Value, CommandRefused> {
        let Ok(_place) = self.room.try_acquire() else { return Err(busy()) };
        let arguments = arguments(body).await?;
        // Logged before it happens, so that one which ends the process is logged too.
        tracing::info!(command = command.name, %by, "an operator's command");
        let done = (command.run)(by.clone(), arguments).await;
        match &done {
            Ok(_) => tracing::info!(command = command.name, %by, "an operator's command was carried out"),
            Err(why) => tracing::warn!(command = command.name, %by, %why, "an operator's command was refused"),
        }
        done
    }

    /// Lets an operator in, or says why not.
    async fn admit(&self, request: &mut Request, needs: &[May]) -> Result<Commander, Response> {
        let gate = match &self.gate {
            CommandGate::Grants(gate) => gate,
            CommandGate::Local => return Ok(Commander::Local),
            CommandGate::Closed(why) => return Err(refused(CommandRefused::Closed(why))),
        };
        let peer = request.extensions().get::<Arc<PeerCertificate>>().cloned();
        let headers = std::mem::take(request.headers_mut());
        let credentials = Credentials::of(&headers, peer.as_deref());
        let admitted = gate.admit_command(credentials, needs).await;
        *request.headers_mut() = headers;
        admitted.map(Commander::Known).map_err(denied)
    }
}

/// Answers `POST /commands/NAME`.
pub(super) async fn answer(
    Shared(commands): Shared<Arc<ServiceCommands>>,
    Path(name): Path<String>,
    mut request: Request,
) -> Response {
    let command = commands.commands.iter().find(|command| command.name == name);
    let by = match commands.admit(&mut request, command.map_or(&ANY, |command| command.needs)).await {
        Ok(by) => by,
        Err(response) => return response,
    };
    let Some(command) = command else {
        let known: Vec<_> = commands.commands.iter().map(|command| command.name).collect();
        return refused(CommandRefused::UnknownCommand { name, known: known.join(", ") });
    };
    // A page of another site can send a form, and no JSON.
    if request.headers().get(header::CONTENT_TYPE).is_none_or(|kind| kind != "application/json") {
        return refused(CommandRefused::Malformed("send the arguments as application/json".to_owned()));
    }
    match commands.perform(command, by, request.into_body()).await {
        Ok(done) => Json(done).into_response(),
        Err(why) => refused(why),
    }
}

/// Arguments of a command, as `T` has them.
///
/// # Errors
/// [`CommandRefused::Malformed`].
pub fn read<T: DeserializeOwned>(arguments: &[u8]) -> Result<T, CommandRefused> {
    serde_json::from_slice(arguments).map_err(|error| CommandRefused::Malformed(error.to_string()))
}

fn refused(why: CommandRefused) -> Response {
    Problem::from(why).into_response()
}

#[cfg(test)]
mod tests;
