//! The regions' nodes, which decide by the document that each has.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nearside::http::exchange::{Failure, Origin, Outgoing, Reply};
use nearside::model::ids::{RegionId, Version};
use nearside::model::stated_grants::StatedGrants;
use nearside::model::time::{Clock, Moment};

use super::plan::{CALLERS, Fault, Plan, VIEWS};

pub(super) struct Regions {
    pub(super) plan: Arc<Plan>,
    pub(super) clock: Clock,
    pub(super) start: Moment,
}

/// A node's word on a request: its status, and the version that it states.
type Decision = (u16, Option<u64>);

impl Regions {
    fn decide(&self, region: usize, caller: usize, view: usize, at: Duration) -> Decision {
        let plan = &self.plan;
        if let Some(version) = plan.elsewhere(region, at) {
            return (403, Some(version));
        }
        if plan.has(Fault::Silent, region, at) {
            return (200, None);
        }
        let Some(document) = plan.in_use(region, at) else { return (503, None) };
        let is_allowed = document.allowed[caller][view] && !plan.has(Fault::Refusing, region, at);
        let is_open = plan.has(Fault::Observing, region, at);
        (if is_allowed || is_open { 200 } else { 403 }, Some(document.version()))
    }
}

impl Origin for Regions {
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        // No two attempts are sent at the same moment.
        self.clock.suspend(Duration::from_nanos(100));
        let (sent, sent_wall) = (self.clock.now(), self.clock.wall());
        let (at, number) = (sent - self.start, region.index());
        if self.plan.has(Fault::Off, number, at) || self.plan.has(Fault::CutOff, number, at) {
            return async move {
                tokio::time::sleep(Duration::from_millis(1).min(within)).await;
                Err(Failure::Connect)
            }
            .boxed();
        }
        let token = request.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let caller = token.and_then(|token| token.strip_prefix("Bearer c")?.parse::<usize>().ok());
        let view = VIEWS.iter().position(|view| request.path_and_query.ends_with(view)).unwrap_or_default();
        let latency = Duration::from_millis(5 + fastrand::u64(0..45));
        let (status, stated) = self.decide(number, caller.unwrap_or(CALLERS), view, at + latency / 2);
        let clock = self.clock.clone();
        async move {
            tokio::time::sleep(latency).await;
            let mut headers = HeaderMap::new();
            let is_known = request.headers.contains_key(header::IF_NONE_MATCH);
            let status = if status == 200 && is_known { 304 } else { status };
            if matches!(status, 200 | 304) {
                headers.insert(header::ETAG, HeaderValue::from_static("\"1\""));
            }
            Ok(Reply {
                region,
                status: StatusCode::from_u16(status).expect("a status"),
                headers,
                body: if status == 200 { Bytes::from_static(b"x") } else { Bytes::new() },
                versions: if matches!(status, 200 | 304) { vec![Version(1)] } else { Vec::new() },
                sent,
                sent_wall,
                received: clock.now(),
                grants: stated.map(|version| StatedGrants { version, view: VIEWS[view].into() }),
            })
        }
        .boxed()
    }
}
