//! Who may do what at the catalogue. Each handler asks by the name that it then looks up, before it
//! reads a body.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use futures_util::future::{BoxFuture, FutureExt, Shared};
use http::HeaderMap;
use http::request::Parts;

use super::refused::RequestRefused;
use super::request::{reason, request_id};
use crate::access::credentials::Credentials;
use crate::access::decision::{Decision, Need, decide};
use crate::access::denial::Denial;
use crate::access::gate::{Admitted, Gate, Subject};
use crate::access::record::GRANTS;
use crate::catalogue::author::{Author, Writer};
use crate::http::server_tls::peer::PeerCertificate;

/// Who a request comes from, and what it may do.
#[derive(Clone, Default)]
pub(super) struct Caller(Option<(Arc<Gate>, Who)>);

#[derive(Clone)]
enum Who {
    Admitted(Admitted),
    /// Nobody waits for it: every request is answered.
    Observed(Shared<BoxFuture<'static, Result<Admitted, Denial>>>),
}

impl Caller {
    /// Finds out who asks, where that is checked.
    ///
    /// # Errors
    /// [`RequestRefused::Denied`].
    pub(super) async fn of(
        gate: Option<&Arc<Gate>>,
        headers: &HeaderMap,
        peer: Option<&PeerCertificate>,
    ) -> Result<Self, RequestRefused> {
        let Some(gate) = gate else { return Ok(Self::default()) };
        let ruling = gate.admit(Credentials::of(headers, peer));
        let who = if gate.enforces() {
            match ruling.settled().await {
                Ok(admitted) => Who::Admitted(admitted),
                Err(denial) => {
                    let counted: Result<(), Denial> = gate.counted(Subject::default(), Err(denial));
                    counted.map_err(RequestRefused::Denied)?;
                    return Err(RequestRefused::Denied(denial));
                }
            }
        } else {
            Who::Observed(ruling.settled().boxed().shared())
        };
        Ok(Self(Some((gate.clone(), who))))
    }

    /// # Errors
    /// [`RequestRefused::Denied`] unless it may write records of this type, and see their history.
    pub(super) fn needs_type(&self, record_type: &str) -> Result<(), RequestRefused> {
        let asked = record_type.to_owned();
        self.settle(Some(record_type), move |admitted| may_write(admitted, &asked))
    }

    /// # Errors
    /// [`RequestRefused::Denied`] unless there is anything that it may write.
    pub(super) fn needs_any_type(&self) -> Result<(), RequestRefused> {
        self.settle(None, |admitted| admitted.rights.as_ref().is_some_and(|rights| rights.writes_anything()))
    }

    /// # Errors
    /// [`RequestRefused::Denied`] unless it may write the grants.
    pub(super) fn needs_admin(&self) -> Result<(), RequestRefused> {
        self.settle(Some(GRANTS), |admitted| admitted.is_admin)
    }

    /// True if it may see that there is this type.
    pub(super) fn sees_type(&self, record_type: &str) -> bool {
        !matches!(&self.0, Some((_, Who::Admitted(admitted))) if !may_write(admitted, record_type))
    }

    /// Logs who wrote this version of the grants.
    pub(super) fn note_written(&self, version: u64) {
        match &self.0 {
            None => log_written(version, &Admitted::default()),
            Some((_, Who::Admitted(admitted))) => log_written(version, admitted),
            Some((gate, Who::Observed(who))) => {
                let who = who.clone();
                let is_found_out = gate.observe(async move { log_written(version, &who.await.unwrap_or_default()) });
                if !is_found_out {
                    log_written(version, &Admitted::default());
                }
            }
        }
    }

    /// Author of what this request changes. Where callers are only observed, all are one writer.
    ///
    /// # Errors
    /// [`RequestRefused::Reason`].
    pub(super) fn author(&self, headers: &HeaderMap) -> Result<Author, RequestRefused> {
        let admitted = match &self.0 {
            Some((_, Who::Admitted(admitted))) => Some(admitted),
            _ => None,
        };
        let by = match admitted {
            Some(Admitted { rights: Some(rights), .. }) => Writer::Consumer(rights.consumer().into()),
            Some(Admitted { is_admin: true, .. }) => Writer::Admin,
            _ => Writer::Anonymous,
        };
        let principal = admitted.and_then(|admitted| admitted.principal.clone());
        Ok(Author { by, principal, request: request_id(headers), reason: reason(headers)? })
    }

    /// Author of a document of grants, which consumers do not write.
    ///
    /// # Errors
    /// As [`Caller::author`].
    pub(super) fn author_of_grants(&self, headers: &HeaderMap) -> Result<Author, RequestRefused> {
        let author = self.author(headers)?;
        let by = if author.by == Writer::Anonymous { author.by } else { Writer::Admin };
        Ok(Author { by, ..author })
    }

    fn settle(
        &self,
        name: Option<&str>,
        is_granted: impl FnOnce(&Admitted) -> bool + Send + 'static,
    ) -> Result<(), RequestRefused> {
        let decided = |admitted: &Admitted| if is_granted(admitted) { Ok(()) } else { Err(Denial::NotGranted) };
        match &self.0 {
            None => Ok(()),
            Some((gate, Who::Admitted(admitted))) => {
                gate.counted(admitted.subject(name), decided(admitted)).map_err(RequestRefused::Denied)
            }
            Some((gate, Who::Observed(who))) => {
                let (own, who, name) = (gate.clone(), who.clone(), name.map(str::to_owned));
                gate.observe(async move {
                    let name = name.as_deref();
                    let _ = match who.await {
                        Ok(admitted) => own.counted(admitted.subject(name), decided(&admitted)),
                        Err(denial) => own.counted(Subject { name, ..Subject::default() }, Err(denial)),
                    };
                });
                Ok(())
            }
        }
    }
}

fn log_written(version: u64, admitted: &Admitted) {
    let (principal, consumer) = admitted.named();
    tracing::info!(version, principal, consumer, "the grants were written");
}

fn may_write(admitted: &Admitted, record_type: &str) -> bool {
    decide(admitted.rights.as_deref(), &Need::Write(record_type)) == Decision::Granted
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = RequestRefused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RequestRefused> {
        // Without one, nothing around the handlers has found out who asks.
        parts.extensions.get::<Self>().cloned().ok_or(RequestRefused::UnknownPath)
    }
}
