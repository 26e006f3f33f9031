//! One request's part of an HTTP/2 connection, and what its failure means.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;

use super::Http2Stream;
use crate::model::time::Moment;

/// Why a request got no reply.
pub(crate) struct Unanswered {
    pub(crate) error: hyper::Error,
    /// The peer has not acted on it and never will (RFC 9113, 8.7): it may be sent again.
    pub(crate) is_unprocessed: bool,
}

impl Http2Stream {
    /// Resolves with the reply's head.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Unanswered> {
        let sent = self.connection.requests.clone().try_send_request(request).await;
        sent.map_err(|error| {
            let unanswered = Unanswered::of(error);
            if unanswered.is_unprocessed && !unanswered.is_refused_stream() {
                // The connection takes no more requests, and its end may not be known yet.
                self.retire();
            }
            unanswered
        })
    }

    pub(crate) fn opened(&self) -> Moment {
        self.connection.birth.at
    }

    /// Notes a reply, or that there was none; returns whether its connection had carried any
    /// before.
    pub(crate) fn note(&self, replied: bool) -> bool {
        self.connection.birth.replies.fetch_add(u32::from(replied), Ordering::Relaxed) > 0
    }

    /// Takes its connection out of use.
    pub(crate) fn retire(&self) {
        let mut state = self.shared.state();
        state.connections.retain(|known| !Arc::ptr_eq(&known.connection, &self.connection));
    }
}

impl Unanswered {
    fn of(mut error: TrySendError<Request<Full<Bytes>>>) -> Self {
        let is_unsent = error.take_message().is_some();
        let error = error.into_error();
        // A stream beyond the last one that a GOAWAY names was not looked at; h2 says so only of
        // those.
        let is_unprocessed = is_unsent
            || h2_error(&error).is_some_and(|error| {
                error.is_remote()
                    && (error.reason() == Some(h2::Reason::REFUSED_STREAM)
                        || error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR))
            });
        Self { error, is_unprocessed }
    }

    fn is_refused_stream(&self) -> bool {
        h2_error(&self.error).is_some_and(|error| error.reason() == Some(h2::Reason::REFUSED_STREAM))
    }
}

fn h2_error(error: &hyper::Error) -> Option<&h2::Error> {
    error.source().and_then(|source| source.downcast_ref())
}
