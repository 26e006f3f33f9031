//! A node's gate before each lookup: whether the caller may read, and the grants by which the answer
//! says so (R22).

use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode};

use crate::access::credentials::Credentials;
use crate::access::gate::{Gate, Ruling, Turn};
use crate::access::known::Known;
use crate::access::names::{Asked, asked};
use crate::config::grants_version::GRANTS_VERSION;
use crate::model::stated_grants;

/// Memory that a connection has of a caller whose lines are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct GateMemory {
    known: Option<Arc<Known>>,
    line: Option<Line>,
    /// The newest version that the caller states; `None` before the lines were read.
    newest: Option<u64>,
}

/// `X-Grants-Version` of the last answer, written anew when another is due.
#[derive(Clone, Debug)]
struct Line {
    version: u64,
    view: Box<str>,
    value: HeaderValue,
}

/// A node's decision, and what its answer states.
pub(crate) struct Gated {
    pub(crate) ruling: Ruling<()>,
    /// The version that the caller knows of, if it is newer than this node's.
    pub(crate) newer: Option<u64>,
}

impl GateMemory {
    /// Decides about a request.
    pub(crate) fn ask(
        &mut self,
        gate: &Arc<Gate>,
        method: &Method,
        path: &str,
        credentials: Credentials<'_>,
        turn: Turn,
    ) -> Gated {
        // Taken first: a decision by newer grants than it states does no harm, one by older would.
        let version = gate.version();
        let ruling = gate.admit_to_view(&mut self.known, method, path, credentials, turn);
        self.state(version, asked(method, path));
        let newest = *self.newest.get_or_insert_with(|| {
            stated_grants::stated_version(credentials.headers, &GRANTS_VERSION).unwrap_or_default()
        });
        // Who is only observed, and not yet known, may be anybody.
        let may_know = self.known.is_some() || matches!(ruling, Ruling::Pending(_));
        Gated { ruling, newer: Some(newest).filter(|newest| *newest > version && may_know) }
    }

    /// The line of the answer to the last request.
    #[inline]
    pub(crate) fn stated(&self) -> Option<&HeaderValue> {
        self.line.as_ref().map(|line| &line.value)
    }

    fn state(&mut self, version: u64, asked: Asked<'_>) {
        match (asked, &self.line) {
            (Asked::View(view), Some(line)) if line.version == version && *line.view == *view => {}
            (Asked::View(view), _) if version > 0 => {
                let value = stated_grants::line(version, view);
                self.line = value.map(|value| Line { version, view: view.into(), value });
            }
            _ => self.line = None,
        }
    }
}

/// True if the node should read the grants of which a caller knows before it answers. Asked for
/// callers with a grant alone: nobody else makes a node read.
#[inline]
pub(crate) fn is_behind(gate: &Gate, newer: Option<u64>) -> bool {
    newer.is_some_and(|newer| gate.may_look_for(newer))
}

/// True for an answer that states the grants: one by which something was decided.
pub(crate) fn is_stated(status: StatusCode) -> bool {
    status != StatusCode::UNAUTHORIZED && !status.is_server_error()
}

#[cfg(test)]
mod tests;
