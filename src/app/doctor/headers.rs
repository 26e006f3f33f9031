//! Comparison of each region's answers with and without each header that callers send.

use std::sync::Arc;

use futures_util::future::join_all;
use http::{HeaderName, HeaderValue, header};

use crate::admin::findings::report::{LineState, ReportLine};
use crate::admin::findings::{Check, list};
use crate::cache::rfc9111::storing::nominated;
use crate::config::Route;
use crate::core::Core;
use crate::core::fill::ask;
use crate::core::foreign::{HeaderFate, fate};
use crate::http::admission::Admitted;
use crate::http::exchange::Reply;
use crate::model::ids::RegionId;

/// What one region showed of one header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderEffect {
    Same,
    /// Alike this time, but replies say that they vary by it.
    Stated,
    Differs,
    /// Answers to the same request differ, or one of them did not come.
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
    let mut replies = Vec::with_capacity(ORDER.len());
    for leaves_out in ORDER {
        let mut outgoing = ask::foreign_read(request, route);
        if leaves_out {
            outgoing.headers.remove(name);
        }
        sidecar.add_credentials(place, &mut outgoing.headers);
        let within = sidecar.regions.deadline();
        let Ok(reply) = sidecar.regions.origin().ask(region, Arc::new(outgoing), within).await else {
            return HeaderEffect::Unclear;
        };
        replies.push(reply);
    }
    effect(name, &replies)
}

/// Whether each of four requests leaves the header out. Two servers that take turns thus differ from
/// themselves, and not by the header.
const ORDER: [bool; 4] = [false, true, true, false];

/// What four replies in that order show.
fn effect(name: &HeaderName, replies: &[Reply]) -> HeaderEffect {
    let [with, without, without_again, with_again] = replies else { return HeaderEffect::Unclear };
    let content = |reply: &Reply| (reply.status, reply.body.clone());
    if content(with) != content(with_again) || content(without) != content(without_again) {
        return HeaderEffect::Unclear;
    }
    let is_stable = |name: &HeaderName| {
        let is_same = |one: &Reply, other: &Reply| values(one, name) == values(other, name);
        is_same(with, with_again) && is_same(without, without_again)
    };
    // What changes by itself, such as the number of a request, shows nothing.
    let mut fields = with.headers.keys().chain(without.headers.keys());
    let is_told = |field: &HeaderName| ![header::DATE, header::AGE].contains(field) && is_stable(field);
    if content(with) != content(without)
        || fields.any(|field| is_told(field) && values(with, field) != values(without, field))
    {
        return HeaderEffect::Differs;
    }
    let varies = |reply: &Reply| nominated(&reply.headers).is_some_and(|names| names.contains(name));
    if replies.iter().any(varies) { HeaderEffect::Stated } else { HeaderEffect::Same }
}

fn values<'r>(reply: &'r Reply, name: &HeaderName) -> Vec<&'r HeaderValue> {
    reply.headers.get_all(name).iter().collect()
}

fn line(path: &str, name: &HeaderName, fate: HeaderFate, regions: &[(&str, HeaderEffect)]) -> ReportLine {
    let that =
        |wanted: HeaderEffect| list(regions.iter().filter(|(_, shown)| *shown == wanted).map(|(region, _)| *region));
    let (differs, stated, same) = (that(HeaderEffect::Differs), that(HeaderEffect::Stated), that(HeaderEffect::Same));
    let forward = match fate {
        HeaderFate::Ignored => format!("take {name} out of the route's ignore and put it into forward"),
        _ => format!(
            "put it into the route's forward: forward = [\"{name}\"]; until then requests with it are passed on and not \
             stored"
        ),
    };
    let (saw, wrong) = if !differs.is_empty() {
        (format!("{name} changes the answer in {differs}"), Some(forward))
    } else if !stated.is_empty() {
        (
            format!("replies in {stated} say that they vary by {name}, though not with this value and path"),
            Some(forward),
        )
    } else if !same.is_empty() {
        let ignore = format!(
            "it may go into the route's ignore: ignore = [\"{name}\"]; until then requests with it are passed on and not \
             stored"
        );
        let saw = format!("{name} makes no difference in {same}, with this value and path");
        (saw, (fate == HeaderFate::Foreign).then_some(ignore))
    } else {
        (format!("with and without {name} nothing could be compared: a region did not answer, or never alike"), None)
    };
    let is_unclear = differs.is_empty() && stated.is_empty() && same.is_empty();
    let (state, advice) = match wrong.filter(|_| fate != HeaderFate::Keyed) {
        _ if is_unclear => (LineState::Unseen, "give a path that regions answer alike each time".to_owned()),
        Some(advice) => (LineState::Wrong, advice),
        None => (LineState::Well, String::new()),
    };
    let title = Check::HeaderPassed.title();
    ReportLine { state, subject: path.to_owned(), check: Check::HeaderPassed.word(), title, saw, advice }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::{Moment, Wall};

    fn line_of(fate: HeaderFate, regions: &[(&str, HeaderEffect)]) -> (LineState, String) {
        let line = line("/r/a", &HeaderName::from_static("x-tenant"), fate, regions);
        (line.state, line.saw + "; " + &line.advice)
    }

    #[test]
    fn each_header_has_a_line_with_what_to_write() {
        let mixed = [("eu", HeaderEffect::Same), ("us", HeaderEffect::Differs)];
        let (state, text) = line_of(HeaderFate::Foreign, &mixed);
        assert_eq!(state, LineState::Wrong);
        assert!(text.contains("changes the answer in us; ") && text.contains("forward = [\"x-tenant\"]"), "{text}");
        let (state, text) = line_of(HeaderFate::Foreign, &mixed[..1]);
        assert_eq!(state, LineState::Wrong);
        assert!(text.contains("no difference in eu") && text.contains("ignore = [\"x-tenant\"]"), "{text}");
        assert_eq!(line_of(HeaderFate::Ignored, &mixed).0, LineState::Wrong);
        assert_eq!(line_of(HeaderFate::Ignored, &mixed[..1]).0, LineState::Well);
        assert_eq!(line_of(HeaderFate::Keyed, &mixed).0, LineState::Well);
        assert_eq!(line_of(HeaderFate::Foreign, &[("eu", HeaderEffect::Unclear)]).0, LineState::Unseen);
    }

    #[test]
    fn stated_variation_belongs_into_forward() {
        for fate in [HeaderFate::Foreign, HeaderFate::Ignored] {
            let (state, text) = line_of(fate, &[("eu", HeaderEffect::Stated), ("us", HeaderEffect::Same)]);
            assert!(state == LineState::Wrong && text.contains("in eu say that they vary"), "{text}");
            assert!(text.contains("forward") && !text.contains("may go into"), "{text}");
        }
    }

    fn reply(status: u16, body: &'static str, fields: &[(&'static str, &'static str)]) -> Reply {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        Reply {
            region: RegionId(0),
            status: http::StatusCode::from_u16(status).unwrap(),
            headers: fields.iter().map(field).collect(),
            body: bytes::Bytes::from_static(body.as_bytes()),
            versions: Vec::new(),
            sent: Moment::ZERO,
            sent_wall: Wall::from_millis(0),
            received: Moment::ZERO,
        }
    }

    #[test]
    fn only_what_a_header_changes_differs() {
        use HeaderEffect::{Differs, Same, Stated, Unclear};
        let name = HeaderName::from_static("origin");
        let of = |with: [Reply; 2], without: [Reply; 2]| {
            let ([with, with_again], [without, without_again]) = (with, without);
            effect(&name, &[with, without, without_again, with_again])
        };
        let plain = || reply(200, "x", &[]);
        let twice = |make: fn() -> Reply| [make(), make()];
        assert_eq!(of(twice(|| reply(200, "x", &[])), [plain(), plain()]), Same);
        assert_eq!(of(twice(|| reply(200, "y", &[])), [plain(), plain()]), Differs);
        assert_eq!(of(twice(|| reply(404, "x", &[])), [plain(), plain()]), Differs);
        let cors = || reply(200, "x", &[("access-control-allow-origin", "http://a")]);
        assert_eq!(of(twice(cors), [plain(), plain()]), Differs, "a page would break");
        assert_eq!(of([plain(), plain()], twice(cors)), Differs);
        let numbered = |number| reply(200, "x", &[("x-served-by", number)]);
        assert_eq!(of([numbered("1"), numbered("4")], [numbered("2"), numbered("3")]), Same);
        assert_eq!(of([numbered("1"), numbered("2")], [numbered("2"), numbered("1")]), Same, "two in turn");
        let at = |date| reply(200, "x", &[("date", date)]);
        assert_eq!(of([at("1"), at("1")], [at("2"), at("2")]), Same);
        assert_eq!(of([plain(), reply(200, "y", &[])], [plain(), plain()]), Unclear);
        assert_eq!(of(twice(|| reply(200, "x", &[("vary", "Origin")])), [plain(), plain()]), Differs);
        let varies = || reply(200, "x", &[("vary", "Accept, Origin")]);
        assert_eq!(of(twice(varies), twice(varies)), Stated);
        assert_eq!(effect(&name, &[plain()]), Unclear);
    }
}
