//! The answers of one connection, as hyper asks for them.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::{BoxFuture, Either, ready};
use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use hyper::body::{Body as _, Incoming};
use hyper::service::Service;
use parking_lot::Mutex;

use super::via::Via;
use crate::http::body::{Body, BodyUnread, CredentialRefused};
use crate::http::pulse::Pulse;
use crate::http::server_tls::peer::PeerCertificate;

#[derive(Clone)]
pub(super) struct Answering<H> {
    handler: H,
    pub(super) via: Via,
    pub(super) pulse: Arc<Pulse>,
    pub(super) ready: Ready,
    /// Certificate of the caller, which each request carries.
    pub(super) peer: Option<Arc<PeerCertificate>>,
}

impl<H> Answering<H> {
    pub(super) fn new(handler: H, via: Via, pulse: Arc<Pulse>) -> Self {
        Self { handler, via, pulse, ready: Ready::default(), peer: None }
    }

    /// Answers a caller that presented this certificate.
    pub(super) fn to(self, peer: Option<Arc<PeerCertificate>>) -> Self {
        Self { peer, ..self }
    }
}

/// The answer to the request that hyper reads next, if the fast path has it already.
#[derive(Clone, Default)]
pub(super) struct Ready(Arc<Mutex<Option<Box<Response<Body>>>>>);

impl Ready {
    pub(super) fn put(&self, answer: Option<Box<Response<Body>>>) {
        *self.0.lock() = answer;
    }

    fn take(&self) -> Option<Box<Response<Body>>> {
        self.0.lock().take()
    }
}

impl<H, F> Service<Request<Incoming>> for Answering<H>
where
    H: Fn(Request<Incoming>, Via) -> F,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let old = request.version() < Version::HTTP_2;
        // hyper does not tell whether a length came with the chunks. If one did, the connection
        // must end (RFC 9112, 6.1).
        let chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
        let (under_way, pulse) = (self.pulse.begin(), self.pulse.clone());
        if !request.body().is_end_stream() {
            // The reader of the body takes it out.
            request.extensions_mut().insert(self.pulse.arrives());
        }
        if let Some(peer) = &self.peer {
            request.extensions_mut().insert(peer.clone());
        }
        let ready_answer = self.ready.take();
        let heads = 1 + u32::from(ready_answer.is_some());
        let answer = match ready_answer {
            Some(answer) => Either::Left(ready(*answer)),
            None => Either::Right((self.handler)(request, self.via)),
        };
        let answered = async move {
            let mut response = answer.await;
            let unread = matches!(response.status(), StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE)
                || response.extensions_mut().remove::<BodyUnread>().is_some();
            if let Some(refused) = response.extensions_mut().remove::<CredentialRefused>() {
                pulse.refused(refused, heads);
            }
            if old && (under_way.lingers() || chunked || unread || pulse.is_refused()) {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            drop(under_way);
            Ok(response.map(|body| body.keeping(|| pulse.send())))
        };
        Box::pin(answered)
    }
}
