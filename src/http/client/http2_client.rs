//! A region's HTTP/2 client: one connection for all requests. A connection that is taken out of use
//! still finishes what it carries.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::connect::{ConnectionMetadata, Connector};
use crate::http::limits::{IDLE_PER_REGION, KEEPALIVE, REPLY_HEAD_BYTES};
use crate::model::time::Moment;

pub(crate) struct Http2Client {
    client: Client<Connector, Full<Bytes>>,
}

/// The connection that a request went over.
pub(crate) struct Carrier {
    captured: CaptureConnection,
    birth: Arc<ConnectionMetadata>,
}

impl Http2Client {
    pub(crate) fn new(connector: Connector) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_PER_REGION.1)
            .http2_only(true)
            .http2_adaptive_window(true)
            .http2_max_header_list_size(REPLY_HEAD_BYTES as u32)
            .http2_keep_alive_interval(KEEPALIVE)
            .http2_keep_alive_timeout(KEEPALIVE / 4)
            .http2_keep_alive_while_idle(true);
        Self { client: builder.build(connector) }
    }

    /// Resolves with the reply's head; without a carrier if there was no connection.
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> (Result<Response<Incoming>, Error>, Option<Carrier>) {
        let captured = capture_connection(&mut request);
        let result = self.client.request(request).await;
        (result, Carrier::of(captured))
    }
}

impl Carrier {
    fn of(captured: CaptureConnection) -> Option<Self> {
        let mut extras = http::Extensions::new();
        captured.connection_metadata().as_ref()?.get_extras(&mut extras);
        let birth = extras.remove::<Arc<ConnectionMetadata>>()?;
        Some(Self { captured, birth })
    }

    pub(crate) fn opened(&self) -> Moment {
        self.birth.at
    }

    /// Notes a reply, or that there was none; returns whether it had carried any before.
    pub(crate) fn note(&self, replied: bool) -> bool {
        self.birth.replies.fetch_add(u32::from(replied), Ordering::Relaxed) > 0
    }

    pub(crate) fn retire(&self) {
        if let Some(connected) = self.captured.connection_metadata().as_ref() {
            connected.poison();
        }
    }
}
