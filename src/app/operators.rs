//! The operators' Unix socket, which a reload may open, move or close.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, Pages};
use crate::config::UnixSocket;
use crate::http::listener::{self, ListenError};
use crate::http::service::Listener;
use crate::tasks::Tasks;

pub(super) struct Operators {
    pages: Pages,
    tasks: Tasks,
    open: Option<Open>,
}

struct Open {
    socket: UnixSocket,
    until: CancellationToken,
}

impl Operators {
    pub(super) fn new(pages: Pages, tasks: &Tasks) -> Self {
        Self { pages, tasks: tasks.clone(), open: None }
    }

    /// Binds the socket that is `wanted` if it is at another path than the one that is open.
    pub(super) fn bind(&self, wanted: Option<&UnixSocket>) -> Result<Option<UnixListener>, ListenError> {
        let open = self.open.as_ref().map(|open| &open.socket.path);
        let moved = wanted.filter(|socket| Some(&socket.path) != open);
        moved.map(|socket| listener::bind_unix(socket, "admin.unix")).transpose()
    }

    /// Serves what [`Operators::bind`] made of `wanted`, instead of what was open before. Connections
    /// to that end by themselves.
    pub(super) fn serve(&mut self, wanted: Option<&UnixSocket>, bound: Option<UnixListener>) {
        if let (Some(open), Some(socket), None) = (&mut self.open, wanted, &bound) {
            if open.socket.mode != socket.mode {
                // Its path was ours a moment ago. A process that took it away has the last word.
                let _ = std::fs::set_permissions(&socket.path, Permissions::from_mode(socket.mode));
            }
            open.socket.clone_from(socket);
            return;
        }
        if let Some(before) = self.open.take() {
            // While this process still listens there: later it may be another's. It is fine if it is gone already.
            let _ = std::fs::remove_file(&before.socket.path);
            before.until.cancel();
        }
        if let (Some(socket), Some(bound)) = (wanted, bound) {
            let until = self.tasks.stopping().child_token();
            let listener = Listener::Unix(bound);
            let permits = admin::socket_connections();
            admin::start([listener], permits, self.pages.clone(), &self.tasks, until.clone());
            self.open = Some(Open { socket: socket.clone(), until });
        }
    }
}
