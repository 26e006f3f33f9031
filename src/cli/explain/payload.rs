//! What a route makes of its regions' bytes for this caller, and who answers: forms, fields, batches
//! and the second way.

use http::{HeaderMap, header};

use crate::config::{Compression, Config, Form, IdentityMode, PathTemplate, Route, SecondWay, Way};
use crate::core::answer::unshaped;
use crate::core::router::{Matched, Router};
use crate::core::shape::{self, Asked, ShapeError, ShapeRefused, Shapes, accept_of};
use crate::core::{compression, way};
use crate::http::admission::Head;
use crate::payload::accept::Choice;
use crate::payload::coding::Codings;

/// Between two lines under one word.
pub(super) const BELOW: &str = "\n          ";

/// What a request asks for; `None` where its route declares nothing.
pub(super) type Wanted = Result<Option<Result<Asked, ShapeRefused>>, ShapeError>;

pub(super) fn wanted(route: &Route, head: Head<'_>) -> Wanted {
    Ok(Shapes::of(route)?.map(|shapes| shapes.asked(head)))
}

/// Whether the sidecar itself refuses the request.
pub(super) fn is_refused(wanted: &Wanted) -> bool {
    matches!(wanted, Ok(Some(Err(_))))
}

fn asked(wanted: &Wanted) -> Option<&Asked> {
    wanted.as_ref().ok()?.as_ref()?.as_ref().ok()
}

/// Where each region is asked, by the way that answers.
pub(super) fn asked_at(config: &Config, matched: &Matched<'_>, wanted: &Wanted, path_and_query: &str) -> Vec<String> {
    if is_refused(wanted) {
        return vec!["no region: the sidecar itself refuses the request, see REFUSED below".to_owned()];
    }
    urls(config, matched.route, answering(matched), seen_by_regions(wanted, path_and_query))
}

/// The target without what only the sidecar understands.
fn seen_by_regions<'a>(wanted: &'a Wanted, path_and_query: &'a str) -> &'a str {
    match asked(wanted) {
        Some(asked) => asked.path_and_query.as_deref().unwrap_or(path_and_query),
        None if is_refused(wanted) => path_and_query.split('?').next().unwrap_or(path_and_query),
        None => path_and_query,
    }
}

fn urls(config: &Config, route: &Route, second: Option<&SecondWay>, path_and_query: &str) -> Vec<String> {
    let target = second.map_or(path_and_query.into(), |second| way::target(route, second, path_and_query));
    let elsewhere = second.and_then(|second| second.url.as_ref());
    let regions = config.service.regions.iter();
    let bases = regions.map(|region| elsewhere.and_then(|url| url.of(&region.name)).unwrap_or(region.url.clone()));
    bases.map(|base| format!("{}{target}", base.as_str().trim_end_matches('/'))).collect()
}

/// Whether the second way answers for the path's record.
fn is_second(matched: &Matched<'_>) -> bool {
    matched.second == Some(matched.id)
}

/// The second way, if it answers for the path's record.
fn answering<'r>(matched: &Matched<'r>) -> Option<&'r SecondWay> {
    matched.route.second.as_ref().filter(|_| is_second(matched))
}

/// What regions are asked for by this way; `None` passes the caller's `Accept` on.
fn form_by(second: Option<&SecondWay>, asked: &Asked) -> Option<Form> {
    asked.form.map(|first| second.map_or(first, |second| second.form_for(first)))
}

/// Whether the sidecar chooses the content coding, so that the caller's `Accept-Encoding` reaches no
/// region and keeps nothing apart.
pub(super) fn is_own_coding(matched: &Matched<'_>, wanted: &Wanted) -> bool {
    matched.route.is_stored_plain() || is_made(matched, wanted)
}

/// Whether something is made of the regions' bytes for this caller.
pub(super) fn is_made(matched: &Matched<'_>, wanted: &Wanted) -> bool {
    asked(wanted).is_some_and(|asked| asked.is_made(form_by(answering(matched), asked)))
}

/// What the regions of the way that answers are asked to compress with.
fn coding(matched: &Matched<'_>, wanted: &Wanted) -> Option<String> {
    if !is_own_coding(matched, wanted) {
        return None;
    }
    let codings = match compression::codings(matched.route) {
        Ok(codings) => codings,
        Err(unusable) => return Some(format!("UNUSABLE  {unusable}")),
    };
    let mut headers = HeaderMap::new();
    shape::dress(&mut headers, None, true);
    let codings = codings.map(|codings| match answering(matched) {
        Some(second) => way::codings_for(second, &codings),
        None => codings,
    });
    codings.iter().for_each(|codings| codings.put(&mut headers));
    let line = headers.get(header::ACCEPT_ENCODING).and_then(|line| line.to_str().ok()).unwrap_or_default();
    let dictionary = match (&matched.route.compression, codings) {
        (Some(Compression::Zstd(Some(named))), Some(Codings::Dcz(_))) => {
            format!("{BELOW}they are offered the dictionary {} (sha256 {})", named.file.display(), named.hash)
        }
        _ => String::new(),
    };
    Some(format!(
        "coding    regions are asked for {line}, whatever the caller accepts; what comes is stored plain{dictionary}"
    ))
}

/// What the route's key leaves out of `Accept`: whoever asks for a form shares one entry.
pub(super) fn keeps_accept_apart(wanted: &Wanted) -> bool {
    !matches!(wanted, Ok(Some(Ok(asked))) if asked.form.is_some())
}

pub(super) fn lines(config: &Config, matched: &Matched<'_>, wanted: &Wanted, path_and_query: &str) -> Vec<String> {
    let route = matched.route;
    let mut lines = match wanted {
        Err(unusable) => vec![format!("UNUSABLE  {unusable}")],
        Ok(Some(Err(refused))) => {
            vec![format!("REFUSED   this request: {refused} ({})", unshaped(refused).0.as_u16())]
        }
        Ok(Some(Ok(asked))) => {
            let form = route.payload.message.as_ref().map(|_| form(matched, asked));
            form.into_iter().flatten().chain(route.payload.fields.as_ref().map(|name| fields(name, asked))).collect()
        }
        Ok(None) => Vec::new(),
    };
    lines.extend(coding(matched, wanted).filter(|_| !is_refused(wanted)));
    if let Some(batch) = &route.batch {
        lines.push(format!("batch     callers POST many keys to {}; {}", batch.text, upstream(route)));
    }
    if let Some(second) = &route.second {
        let who = if is_second(matched) { "second" } else { "first" };
        let meanwhile = match second.way {
            Way::Check => ", and some of its answers are compared with the second's",
            Way::Old | Way::New => "",
        };
        lines.push(format!("way       {}: the {who} answers for this record{meanwhile}", second.way.word()));
        let urls = urls(config, route, Some(second), seen_by_regions(wanted, path_and_query));
        lines.push(format!("second    {}", urls.join(BELOW)));
        lines.push(format!("          {}", second_way(route, second, wanted)));
    }
    lines
}

/// What the second way is asked for, and with what.
fn second_way(route: &Route, second: &SecondWay, wanted: &Wanted) -> String {
    let usual = || route.payload.message.as_ref().map(|message| second.form_for(message.form));
    let form = asked(wanted).map_or_else(usual, |asked| form_by(Some(second), asked)).map(accept_of);
    let form = form.as_ref().and_then(|form| form.to_str().ok()).unwrap_or("what the caller accepts");
    let own = match &route.identity {
        IdentityMode::Exact(_) => None,
        IdentityMode::Sidecar(credentials) => Some(credentials),
    };
    let with = match (way::credentials_for(second, second.credentials.as_ref(), own), own) {
        (Some(sent), _) => format!("{} in {}", sent.file.display(), sent.header),
        (None, Some(_)) => "no credentials, since it names no credentials_file".to_owned(),
        (None, None) => "the callers' own headers".to_owned(),
    };
    let versions = match second.has_own_versions {
        true => "its versions count as if there were none (versions = \"own\")",
        false => "its versions are those that announcements state (versions = \"same\")",
    };
    format!("asked for {form}, with {with}; {versions}")
}

fn form(matched: &Matched<'_>, asked: &Asked) -> [String; 2] {
    let form = form_by(answering(matched), asked);
    let own = match form {
        Some(form) => accept_of(form).to_str().unwrap_or_default().to_owned(),
        None => "what the caller accepts".to_owned(),
    };
    let (gets, of) = match asked.choice {
        Some(Choice::Json) => ("application/json", Some(Form::Json)),
        Some(Choice::Protobuf { media_type, .. }) => (media_type, Some(Form::Protobuf)),
        Some(Choice::AsNamed) | None => ("what regions answer to its Accept", None),
    };
    let derived = if of.is_some() && of != form { ", derived once for each version" } else { "" };
    [format!("form      regions are asked for {own}"), format!("          this caller gets {gets}{derived}")]
}

fn fields(name: &str, asked: &Asked) -> String {
    let what = match (&asked.mask, asked.choice) {
        (None, _) => "all of the record, as nothing else is asked for".to_owned(),
        (Some(mask), Some(Choice::Protobuf { .. })) => format!("all of the Protobuf, and of JSON {mask}"),
        (Some(mask), _) => format!("{mask} of the JSON"),
    };
    format!("fields    regions never see the parameter `{name}`; this caller gets {what}")
}

fn upstream(route: &Route) -> String {
    match &route.upstream_batch {
        Some(upstream) => format!("regions get the rest at {}", upstream.text),
        None => "regions are asked for one key at a time".to_owned(),
    }
}

/// What a batch path is; `None` for any other.
pub(super) fn batch(router: &Router, path: &str) -> Option<Vec<String>> {
    let route = router.routes().nth(router.batch(path)?)?;
    let left_out = |batch: &PathTemplate| route.path.left_out_by(batch).unwrap_or_default().to_owned();
    let name = route.batch.as_ref().map(left_out).unwrap_or_default();
    Some(vec![
        format!("batch     callers POST many keys here; each is answered as a GET of {} would be", route.path.text),
        format!("          a key fills {{{name}}}; explain such a path to see what it is"),
        format!("          {}", upstream(route)),
    ])
}
