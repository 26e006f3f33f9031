//! Comparison of each region's answers with and without each header that callers send.

use std::sync::Arc;

use futures_util::future::join_all;
use http::{HeaderMap, HeaderName};

use crate::admin::findings::report::{LineState, ReportLine};
use crate::admin::findings::{Check, list};
use crate::config::Route;
use crate::core::Core;
use crate::core::fill::ask;
use crate::core::foreign::{HeaderFate, fate};
use crate::http::admission::Admitted;
use crate::http::exchange::{Outgoing, Reply};
use crate::model::ids::RegionId;

/// What one region showed of one header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderEffect {
    Same,
    Differs,
    /// Two answers to the same request differ, or one of them did not come.
    Unclear,
}

/// A line for each header whose fate a configuration decides; `route` is as the operator wrote it.
pub(super) async fn lines(sidecar: &Arc<Core>, route: &Route, place: usize, request: &Admitted) -> Vec<ReportLine> {
    let is_decided = |name: &&HeaderName| {
        matches!(fate(route, name), HeaderFate::Foreign | HeaderFate::Ignored | HeaderFate::Keyed)
    };
    let names: Vec<_> = request.headers.keys().filter(is_decided).cloned().collect();
    let mut lines = Vec::new();
    for name in names {
        let in_region = |region: u8| compared(sidecar, (route, place), request, &name, RegionId(region));
        let shown = join_all((0..sidecar.regions.count() as u8).map(in_region)).await;
        let regions = shown.iter().enumerate().map(|(at, shown)| (sidecar.names[at].as_str(), *shown));
        lines.push(line(&request.path_and_query, &name, fate(route, &name), &regions.collect::<Vec<_>>()));
    }
    lines
}

async fn compared(
    sidecar: &Core,
    (route, place): (&Route, usize),
    request: &Admitted,
    name: &HeaderName,
    region: RegionId,
) -> HeaderEffect {
    let ask = |leaves_out: bool| {
        let mut outgoing = ask::foreign_read(request, route);
        if leaves_out {
            outgoing.headers.remove(name);
        }
        sidecar.add_credentials(place, &mut outgoing.headers);
        asked(sidecar, region, outgoing)
    };
    let (with, without, again) = (ask(false).await, ask(true).await, ask(false).await);
    let Some(((with, without), again)) = with.zip(without).zip(again) else { return HeaderEffect::Unclear };
    match (is_same(&with, &again), is_same(&with, &without)) {
        (false, _) => HeaderEffect::Unclear,
        (true, true) => HeaderEffect::Same,
        (true, false) => HeaderEffect::Differs,
    }
}

async fn asked(sidecar: &Core, region: RegionId, outgoing: Outgoing) -> Option<Reply> {
    let within = sidecar.regions.deadline();
    sidecar.regions.origin().ask(region, Arc::new(outgoing), within).await.ok()
}

fn is_same(one: &Reply, other: &Reply) -> bool {
    let media_type = |headers: &HeaderMap| headers.get(http::header::CONTENT_TYPE).cloned();
    (one.status, &one.body) == (other.status, &other.body) && media_type(&one.headers) == media_type(&other.headers)
}

fn line(path: &str, name: &HeaderName, fate: HeaderFate, regions: &[(&str, HeaderEffect)]) -> ReportLine {
    let that =
        |wanted: HeaderEffect| list(regions.iter().filter(|(_, shown)| *shown == wanted).map(|(region, _)| *region));
    let (differs, same) = (that(HeaderEffect::Differs), that(HeaderEffect::Same));
    let (state, saw, advice) = if !differs.is_empty() {
        let saw = format!("{name} changes the answer in {differs}");
        match fate {
            HeaderFate::Ignored => {
                (LineState::Wrong, saw, format!("take {name} out of the route's ignore and put it into forward"))
            }
            HeaderFate::Foreign => {
                let advice = format!(
                    "put it into the route's forward: forward = [\"{name}\"]; until then requests with it are passed on and \
                     not stored"
                );
                (LineState::Wrong, saw, advice)
            }
            _ => (LineState::Well, saw, String::new()),
        }
    } else if !same.is_empty() {
        let saw = format!("{name} makes no difference in {same}, with this value and path");
        match fate {
            HeaderFate::Foreign => {
                let advice = format!(
                    "it may go into the route's ignore: ignore = [\"{name}\"]; until then requests with it are passed on and \
                     not stored"
                );
                (LineState::Wrong, saw, advice)
            }
            _ => (LineState::Well, saw, String::new()),
        }
    } else {
        let saw =
            format!("with and without {name} nothing could be compared: a region did not answer, or never alike");
        (LineState::Unseen, saw, "give a path that regions answer alike each time".to_owned())
    };
    let title = Check::HeaderPassed.title();
    ReportLine { state, subject: path.to_owned(), check: Check::HeaderPassed.word(), title, saw, advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(fate: HeaderFate, regions: &[(&str, HeaderEffect)]) -> (LineState, String) {
        let line = line("/r/a", &HeaderName::from_static("x-tenant"), fate, regions);
        (line.state, line.saw + "; " + &line.advice)
    }

    #[test]
    fn each_header_has_a_line_with_what_to_write() {
        let mixed = [("eu", HeaderEffect::Same), ("us", HeaderEffect::Differs)];
        let (state, text) = told(HeaderFate::Foreign, &mixed);
        assert_eq!(state, LineState::Wrong);
        assert!(text.contains("changes the answer in us; ") && text.contains("forward = [\"x-tenant\"]"), "{text}");
        let (state, text) = told(HeaderFate::Foreign, &mixed[..1]);
        assert_eq!(state, LineState::Wrong);
        assert!(text.contains("no difference in eu") && text.contains("ignore = [\"x-tenant\"]"), "{text}");
        assert_eq!(told(HeaderFate::Ignored, &mixed).0, LineState::Wrong);
        assert_eq!(told(HeaderFate::Ignored, &mixed[..1]).0, LineState::Well);
        assert_eq!(told(HeaderFate::Keyed, &mixed).0, LineState::Well);
        assert_eq!(told(HeaderFate::Foreign, &[("eu", HeaderEffect::Unclear)]).0, LineState::Unseen);
    }
}
