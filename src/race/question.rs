//! Request of a race to every region, its purpose, and the terms for judging replies.

use std::sync::Arc;
use std::time::Duration;

use super::gather::InBatch;
use super::verdict::Known;
use crate::http::exchange::Outgoing;
use crate::protocol::grants_floor::GrantsFloor;
use crate::protocol::record::Record;
use crate::shape::common_form::CommonForm;

/// On whose behalf an attempt is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Foreground,
    /// Refresh, recheck or audit, within a budget of its own. It always asks every fit region,
    /// since it is there to find out whether they agree.
    Background,
}

#[derive(Clone)]
pub(crate) struct Question {
    pub sending: Sending,
    pub terms: Terms,
}

/// Request to every region, and its purpose.
#[derive(Clone)]
pub(crate) struct Sending {
    /// GET or HEAD.
    pub request: Arc<Outgoing>,
    pub purpose: Purpose,
    /// Sends the attempts, if they are part of a batch.
    pub through: Option<Arc<InBatch>>,
    /// Hears which form each region has, if they are asked for Protobuf.
    pub form: Option<Arc<CommonForm>>,
}

impl Sending {
    /// Returns a request outside any batch, to regions that have one form.
    pub(crate) const fn alone(request: Arc<Outgoing>, purpose: Purpose) -> Self {
        Self { request, purpose, through: None, form: None }
    }
}

/// Terms for judging replies.
#[derive(Clone, Debug)]
pub(crate) enum Terms {
    Routed {
        /// Their live cells, in the order of the route.
        records: Vec<Arc<Record>>,
        /// Entry behind the validators in the request; `None` when it has none.
        known: Option<Known>,
        /// Upper bound on the lag between regions: for that long it matters who took a write (R20).
        worst_lag: Duration,
        /// Version of the grants that replies are held to (R22).
        grants: Arc<GrantsFloor>,
    },
    /// A path that is cached as by any shared HTTP cache: every status is passed on.
    Unrouted,
}
