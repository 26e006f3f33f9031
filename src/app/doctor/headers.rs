//! Comparison of each region's answers with and without each header that callers send.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::admin::findings::report::{LineState, ReportLine};
use crate::admin::findings::{Check, list};
use crate::cache::rfc9111::storing::nominated;
use crate::config::Route;
use crate::config::overrides::{is_override, taken_as};
use crate::http::admission::Admitted;
use crate::http::exchange::Reply;
use crate::model::ids::RegionId;
use crate::request::pass::foreign::whole_read;
use crate::request::settings::Settings;
use crate::routing::foreign::{HeaderFate, fate, may_misuse};
use crate::routing::router::Matched;

/// Effect of one header on one region's replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderEffect {
    Same,
    /// Alike this time, but replies say that they vary by it.
    Stated,
    Differs,
    /// Answers to the same request differ, or one of them did not come.
    Unclear,
}

/// A line for each of these headers whose fate a configuration decides; `route` is as the operator
/// wrote it, and `request` has none of those that could make another request of it.
pub(super) async fn lines(
    sidecar: &Arc<Settings>,
    route: &Route,
    matched: Matched<'_>,
    request: &Admitted,
    headers: &HeaderMap,
) -> Vec<ReportLine> {
    let path = &request.path_and_query;
    let comparer = Comparer { sidecar, matched, request };
    let mut lines = Vec::new();
    for name in headers.keys() {
        let fate = fate(route, name);
        let own: HeaderMap = headers.get_all(name).iter().map(|value| (name.clone(), value.clone())).collect();
        let is_write = !taken_as(&Method::GET, &own, |_| true).is_safe();
        match fate {
            HeaderFate::Withheld => lines.push(withheld(path, name)),
            // It never goes beside the sidecar's own credentials, not even to try it out.
            HeaderFate::Ignored if may_misuse(route, name) => {}
            HeaderFate::Foreign if is_write => lines.push(write(path, name)),
            HeaderFate::Ignored if is_write => {}
            HeaderFate::Foreign | HeaderFate::Ignored | HeaderFate::Keyed | HeaderFate::Permitted => {
                let shown = join_all(
                    (0..sidecar.fill.regions.count() as u8)
                        .map(|region| comparer.compared(name, &own, RegionId(region))),
                )
                .await;
                let regions =
                    shown.iter().enumerate().map(|(at, shown)| (sidecar.fill.shared.names[at].as_str(), *shown));
                lines.push(line(path, name, fate, &regions.collect::<Vec<_>>()));
            }
            HeaderFate::Replaced | HeaderFate::Inert(_) => {}
        }
    }
    lines
}

/// A request that is sent with and without a header.
struct Comparer<'a> {
    sidecar: &'a Settings,
    matched: Matched<'a>,
    request: &'a Admitted,
}

impl Comparer<'_> {
    /// Effect of the header `name`, whose values are `own`. A record may change between two
    /// requests, so what is unclear is asked for again, [`ROUNDS`] times in all.
    async fn compared(&self, name: &HeaderName, own: &HeaderMap, region: RegionId) -> HeaderEffect {
        for _ in 1..ROUNDS {
            match self.compared_once(name, own, region).await {
                HeaderEffect::Unclear => {}
                clear => return clear,
            }
        }
        self.compared_once(name, own, region).await
    }

    /// Effect that one round of requests shows. Asks as callers are answered whose requests are
    /// passed on, by the upstream that answers.
    async fn compared_once(&self, name: &HeaderName, own: &HeaderMap, region: RegionId) -> HeaderEffect {
        let Self { sidecar, matched, request } = self;
        let mut replies = Vec::with_capacity(ORDER.len());
        for leaves_out in ORDER {
            let mut headers = request.headers.clone();
            headers.remove(name);
            if !leaves_out {
                headers.extend(own.clone());
            }
            let (method, path_and_query) = (request.method.clone(), request.path_and_query.clone());
            let asked = Admitted { method, path_and_query, path_len: request.path_len, headers, body: Bytes::new() };
            let Ok((regions, mut outgoing)) = whole_read(sidecar, &asked, matched) else {
                return HeaderEffect::Unclear;
            };
            if !leaves_out && !outgoing.headers.contains_key(name) {
                // No caller's goes there while it is ignored, which may be the error.
                outgoing.headers.extend(own.clone());
            }
            let Ok(reply) = regions.origin().ask(region, Arc::new(outgoing), regions.deadline()).await else {
                return HeaderEffect::Unclear;
            };
            replies.push(reply);
        }
        effect(name, &replies)
    }
}

/// Rounds of requests, at most, until one is clear.
const ROUNDS: usize = 3;

/// Pattern of four requests: true leaves the header out. Two servers that take turns thus differ
/// from themselves, and not by the header.
const ORDER: [bool; 4] = [false, true, true, false];

/// Effect that four replies in that order show.
fn effect(name: &HeaderName, replies: &[Reply]) -> HeaderEffect {
    let [with, without, without_again, with_again] = replies else { return HeaderEffect::Unclear };
    if content(with) != content(with_again) || content(without) != content(without_again) {
        return HeaderEffect::Unclear;
    }
    let fields = with.headers.keys().chain(without.headers.keys());
    // What changes by itself, such as the number of a request, shows nothing.
    let mut fields = fields.filter(|field| {
        ![header::DATE, header::AGE].contains(field)
            && values(with, field) == values(with_again, field)
            && values(without, field) == values(without_again, field)
    });
    if content(with) != content(without) || fields.any(|field| values(with, field) != values(without, field)) {
        return HeaderEffect::Differs;
    }
    let mut nominations = replies.iter().filter_map(|reply| nominated(&reply.headers));
    if nominations.any(|names| names.contains(name)) { HeaderEffect::Stated } else { HeaderEffect::Same }
}

const fn content(reply: &Reply) -> (StatusCode, &Bytes) {
    (reply.status, &reply.body)
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
    let (saw, wrong) = if is_override(name) && !(differs.is_empty() && stated.is_empty()) {
        let saw = format!("{name} makes another request of it, so it can only be passed on, and nothing stored");
        (saw, (fate == HeaderFate::Ignored).then(|| format!("take {name} out of the route's ignore")))
    } else if !differs.is_empty() {
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
        _ if is_unclear => (LineState::Unchecked, "give a path that regions answer alike each time".to_owned()),
        Some(advice) => (LineState::Wrong, advice),
        None => (LineState::Well, String::new()),
    };
    of(path, state, saw, advice)
}

fn of(path: &str, state: LineState, saw: String, advice: String) -> ReportLine {
    let title = Check::HeaderPassed.title();
    ReportLine { state, subject: path.to_owned(), check: Check::HeaderPassed.into_str(), title, saw, advice }
}

/// Nobody is asked with it: it stays here.
fn withheld(path: &str, name: &HeaderName) -> ReportLine {
    let saw = format!(
        "{name} goes to no region beside the sidecar's own credentials, and was not sent: requests with it are answered \
         as without it, and not stored"
    );
    let advice = format!(
        "if callers mean nothing by it, put it into the route's ignore: ignore = [\"{name}\"]; who means another path, \
         method or user has to ask a region itself"
    );
    of(path, LineState::Wrong, saw, advice)
}

/// Nobody is asked with it: it would be a write.
fn write(path: &str, name: &HeaderName) -> ReportLine {
    let saw = format!(
        "{name} makes a write of a read, and was not sent: requests with it go to one region, once, and count as writes"
    );
    let advice = format!(
        "let callers send the method itself; if the service does not know {name}, put it into the route's ignore: ignore \
         = [\"{name}\"]"
    );
    of(path, LineState::Wrong, saw, advice)
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
    fn each_header_gets_advice_line() {
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
        assert_eq!(line_of(HeaderFate::Foreign, &[("eu", HeaderEffect::Unclear)]).0, LineState::Unchecked);
    }

    #[test]
    fn stated_vary_belongs_in_forward() {
        for fate in [HeaderFate::Foreign, HeaderFate::Ignored] {
            let (state, text) = line_of(fate, &[("eu", HeaderEffect::Stated), ("us", HeaderEffect::Same)]);
            assert!(state == LineState::Wrong && text.contains("in eu say that they vary"), "{text}");
            assert!(text.contains("forward") && !text.contains("may go into"), "{text}");
        }
    }

    fn reply(status: u16, body: &'static str, fields: &[(&'static str, &'static str)]) -> Reply {
        Reply {
            region: RegionId(0),
            status: http::StatusCode::from_u16(status).unwrap(),
            headers: fields
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect(),
            body: bytes::Bytes::from_static(body.as_bytes()),
            versions: Vec::new(),
            sent: Moment::ZERO,
            sent_wall: Wall::from_millis(0),
            received: Moment::ZERO,
            grants: None,
        }
    }

    fn stating(name: &'static str, value: &'static str) -> Reply {
        reply(200, "x", &[(name, value)])
    }

    fn twice(reply: &Reply) -> [Reply; 2] {
        [reply.clone(), reply.clone()]
    }

    /// Effect of `origin` where regions answer so with and without it.
    fn effect_of([with, again]: [Reply; 2], [without, without_again]: &[Reply; 2]) -> HeaderEffect {
        effect(&HeaderName::from_static("origin"), &[with, without.clone(), without_again.clone(), again])
    }

    #[test]
    fn only_header_caused_changes_differ() {
        use HeaderEffect::{Differs, Same, Stated, Unclear};
        let plain = reply(200, "x", &[]);
        let without = twice(&plain);
        assert_eq!(effect_of(twice(&plain), &without), Same);
        assert_eq!(effect_of(twice(&reply(200, "y", &[])), &without), Differs);
        assert_eq!(effect_of(twice(&reply(404, "x", &[])), &without), Differs);
        let cors = twice(&stating("access-control-allow-origin", "http://a"));
        assert_eq!(effect_of(cors.clone(), &without), Differs, "a page would break");
        assert_eq!(effect_of(twice(&plain), &cors), Differs);
        let [one, two, three, four] = ["1", "2", "3", "4"].map(|number| stating("x-served-by", number));
        assert_eq!(effect_of([one.clone(), four], &[two.clone(), three]), Same);
        assert_eq!(effect_of([one.clone(), two.clone()], &[two, one]), Same, "two in turn");
        let [one, two] = ["1", "2"].map(|date| twice(&stating("date", date)));
        assert_eq!(effect_of(one, &two), Same);
        assert_eq!(effect_of([plain.clone(), reply(200, "y", &[])], &without), Unclear);
        assert_eq!(effect_of(twice(&stating("vary", "Origin")), &without), Differs);
        let varies = twice(&stating("vary", "Accept, Origin"));
        assert_eq!(effect_of(varies.clone(), &varies), Stated);
        assert_eq!(effect(&HeaderName::from_static("origin"), &[plain]), Unclear);
    }
}
