//! The form in which all regions have the records of a route. Only replies of one form can agree
//! (R5). So regions are asked for Protobuf until one of them shows that it has JSON alone; from then
//! on all are asked for JSON, until it is time to see whether that has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderValue, StatusCode, header};

use super::form::{accept_of, form_sent};
use super::limits::JSON_ALONE;
use crate::config::Form;
use crate::http::exchange::{Outgoing, Reply};
use crate::model::time::Moment;

/// Common form of one upstream of a route whose regions are asked for Protobuf.
#[derive(Debug, Default)]
pub(crate) struct CommonForm {
    /// Nanoseconds; zero before any region showed that it has JSON alone.
    json_until: AtomicU64,
}

impl CommonForm {
    /// Form that regions are asked for now.
    pub(crate) fn asked(&self, now: Moment) -> Form {
        if now.as_nanos() < self.json_until.load(Ordering::Relaxed) { Form::Json } else { Form::Protobuf }
    }

    /// A request for Protobuf as it is sent now.
    pub(crate) fn negotiated(&self, request: Arc<Outgoing>, now: Moment) -> Arc<Outgoing> {
        match self.asked(now) {
            Form::Json if asks_for_protobuf(&request) => for_json(&request),
            _ => request,
        }
    }

    /// Takes note of what a region has. Gives what to ask it instead, if it refused Protobuf or its
    /// JSON has a coding that a caller who takes no JSON could make nothing of.
    pub(crate) fn note(&self, request: &Outgoing, reply: &Reply, now: Moment) -> Option<Arc<Outgoing>> {
        let refused = reply.status == StatusCode::NOT_ACCEPTABLE;
        let is_json = reply.status.is_success() && form_sent(&reply.headers) == Some(Form::Json);
        if !asks_for_protobuf(request) || !refused && !is_json {
            return None;
        }
        let until = now + JSON_ALONE;
        self.json_until.fetch_max(until.as_nanos(), Ordering::Relaxed);
        let is_unusable = refused || reply.headers.contains_key(header::CONTENT_ENCODING);
        is_unusable.then(|| for_json(request))
    }
}

fn asks_for_protobuf(request: &Outgoing) -> bool {
    request.headers.get(header::ACCEPT) == Some(&accept_of(Form::Protobuf))
}

/// Without a coding, since another form may be made of it.
fn for_json(request: &Outgoing) -> Arc<Outgoing> {
    let mut request = request.clone();
    request.headers.insert(header::ACCEPT, accept_of(Form::Json));
    request.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Arc::new(request)
}
