//! Who may do what at the catalogue. Each handler asks by the name that it then looks up, before it
//! reads a body.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use http::request::Parts;

use super::refused::RequestRefused;
use crate::access::credentials::Credentials;
use crate::access::decision::{Decision, Need, decide};
use crate::access::denial::Denial;
use crate::access::gate::{Admitted, Gate};
use crate::http::server_tls::peer::PeerCertificate;

/// Who a request comes from, and what it may do.
#[derive(Clone, Default)]
pub(super) struct Caller(Option<(Arc<Gate>, Admitted)>);

/// Name under which idempotency keys are kept where callers are not checked.
const ANONYMOUS: &str = "anonymous";

impl Caller {
    /// Finds out who asks, where that is checked.
    ///
    /// # Errors
    /// [`RequestRefused::Denied`].
    pub(super) fn of(gate: Option<&Arc<Gate>>, request: &Request) -> Result<Self, RequestRefused> {
        let Some(gate) = gate else { return Ok(Self::default()) };
        let peer = request.extensions().get::<Arc<PeerCertificate>>();
        let credentials = Credentials::of(request.headers(), peer.map(|peer| &**peer));
        let admitted = gate.admit(credentials).map_err(RequestRefused::Denied)?;
        Ok(Self(Some((gate.clone(), admitted))))
    }

    /// # Errors
    /// [`RequestRefused::Denied`] unless it may write records of this type, and see their history.
    pub(super) fn needs_type(&self, record_type: &str) -> Result<(), RequestRefused> {
        self.settle(|admitted| decide(admitted.rights.as_deref(), &Need::Write(record_type)) == Decision::Granted)
    }

    /// # Errors
    /// [`RequestRefused::Denied`] unless there is anything that it may write.
    pub(super) fn needs_any_type(&self) -> Result<(), RequestRefused> {
        self.settle(|admitted| admitted.rights.as_ref().is_some_and(|rights| rights.writes_anything()))
    }

    /// # Errors
    /// [`RequestRefused::Denied`] unless it may write the grants.
    pub(super) fn needs_admin(&self) -> Result<(), RequestRefused> {
        self.settle(|admitted| admitted.is_admin)
    }

    /// True if it may see that there is this type.
    pub(super) fn sees_type(&self, record_type: &str) -> bool {
        self.0.as_ref().is_none_or(|(gate, admitted)| {
            !gate.enforces() || decide(admitted.rights.as_deref(), &Need::Write(record_type)) == Decision::Granted
        })
    }

    /// Whose idempotency keys its own are among.
    pub(super) fn writer(&self) -> String {
        let admitted = self.0.as_ref().map(|(_, admitted)| admitted);
        match admitted {
            Some(Admitted { rights: Some(rights), .. }) => format!("consumer/{}", rights.consumer()),
            Some(Admitted { is_admin: true, .. }) => "admin".to_owned(),
            _ => ANONYMOUS.to_owned(),
        }
    }

    fn settle(&self, is_granted: impl FnOnce(&Admitted) -> bool) -> Result<(), RequestRefused> {
        let Some((gate, admitted)) = &self.0 else { return Ok(()) };
        let decided = if is_granted(admitted) { Ok(()) } else { Err(Denial::NotGranted) };
        gate.counted(decided).map_err(RequestRefused::Denied)
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = RequestRefused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RequestRefused> {
        // Without one, nothing around the handlers has found out who asks.
        parts.extensions.get::<Self>().cloned().ok_or(RequestRefused::UnknownPath)
    }
}
