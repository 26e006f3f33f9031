//! A route's reply to this caller, made from its regions' bytes, and who answers: forms, fields,
//! batches and the candidate.

use http::{HeaderMap, header};

use crate::config::{Candidate, Compression, Config, Form, MigrationMode, Route};
use crate::http::admission::Head;
use crate::migration::candidate;
use crate::payload::accept::Choice;
use crate::payload::coding::Codings;
use crate::race::compression;
use crate::request::answer::unshaped;
use crate::routing::router::{Matched, Router};
use crate::shape::form::{accept_of, insert_form};
use crate::shape::shapes::{Asked, ShapeError, ShapeRefused, Shapes};

/// Between two lines under one word.
pub(super) const BELOW: &str = "\n          ";

/// Shape that a request asks for; `None` where its route declares nothing.
pub(super) type Wanted = Result<Option<Result<Asked, ShapeRefused>>, ShapeError>;

pub(super) fn wanted(route: &Route, head: Head<'_>) -> Wanted {
    Ok(Shapes::of(route)?.map(|shapes| shapes.asked(head)))
}

/// True if the sidecar itself refuses the request.
pub(super) fn is_refused(wanted: &Wanted) -> bool {
    matches!(wanted, Ok(Some(Err(_))))
}

fn asked(wanted: &Wanted) -> Option<&Asked> {
    wanted.as_ref().ok()?.as_ref()?.as_ref().ok()
}

/// Each region's URL for the request, by the upstream that answers.
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

fn urls(config: &Config, route: &Route, candidate: Option<&Candidate>, path_and_query: &str) -> Vec<String> {
    let target =
        candidate.map_or(path_and_query.into(), |candidate| candidate::target(route, candidate, path_and_query));
    let elsewhere = candidate.and_then(|candidate| candidate.url.as_ref());
    let regions = config.service.regions.iter();
    let bases = regions.map(|region| elsewhere.and_then(|url| url.of(&region.name)).unwrap_or(region.url.clone()));
    bases.map(|base| format!("{}{target}", base.as_str().trim_end_matches('/'))).collect()
}

/// True if the candidate answers for the path's record.
fn is_candidate(matched: &Matched<'_>) -> bool {
    matched.candidate == Some(matched.id)
}

/// The candidate, if it answers for the path's record.
fn answering<'r>(matched: &Matched<'r>) -> Option<&'r Candidate> {
    matched.route.candidate.as_ref().filter(|_| is_candidate(matched))
}

/// Form that regions are asked for by this upstream; `None` passes the caller's `Accept` on.
fn form_by(candidate: Option<&Candidate>, asked: &Asked) -> Option<Form> {
    asked.form.map(|current| candidate.map_or(current, |candidate| candidate.form_for(current)))
}

/// True if the sidecar chooses the content coding, so that the caller's `Accept-Encoding` reaches
/// no region and keeps nothing apart.
pub(super) fn is_own_coding(matched: &Matched<'_>, wanted: &Wanted) -> bool {
    matched.route.is_stored_plain() || is_made(matched, wanted)
}

/// True if something is made of the regions' bytes for this caller.
pub(super) fn is_made(matched: &Matched<'_>, wanted: &Wanted) -> bool {
    asked(wanted).is_some_and(|asked| asked.is_made(form_by(answering(matched), asked)))
}

/// Coding that the regions of the upstream that answers are asked to compress with.
fn coding(matched: &Matched<'_>, wanted: &Wanted) -> Option<String> {
    if !is_own_coding(matched, wanted) {
        return None;
    }
    let codings = match compression::codings(matched.route) {
        Ok(codings) => codings,
        Err(unusable) => return Some(format!("UNUSABLE  {unusable}")),
    };
    let mut headers = HeaderMap::new();
    insert_form(&mut headers, None, true);
    let codings = codings.map(|codings| match answering(matched) {
        Some(candidate) => candidate::codings_for(candidate, &codings),
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

/// True if `Accept` keeps entries apart: all callers that ask for a form share one entry.
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
    if let Some(candidate) = &route.candidate {
        let who = if is_candidate(matched) { "candidate" } else { "current upstream" };
        let meanwhile = match candidate.mode {
            MigrationMode::Check => ", and some of its answers are compared with the candidate's",
            MigrationMode::Old | MigrationMode::New => "",
        };
        lines.push(format!("mode      {}: the {who} answers for this record{meanwhile}", candidate.mode.word()));
        let urls = urls(config, route, Some(candidate), seen_by_regions(wanted, path_and_query));
        lines.push(format!("candidate {}", urls.join(BELOW)));
        lines.push(format!("          {}", request_of(route, candidate, wanted)));
    }
    lines
}

/// Request that the candidate gets, and its settings.
fn request_of(route: &Route, candidate: &Candidate, wanted: &Wanted) -> String {
    let form = asked(wanted)
        .map_or_else(
            || route.payload.message.as_ref().map(|message| candidate.form_for(message.form)),
            |asked| form_by(Some(candidate), asked),
        )
        .map(accept_of);
    let form = form.as_ref().and_then(|form| form.to_str().ok()).unwrap_or("what the caller accepts");
    let own = route.identity.own();
    let with = match (candidate::credentials_for(candidate, candidate.credentials.as_ref(), own), own) {
        (Some(sent), _) => format!("{} in {}", sent.origin(), sent.header),
        (None, Some(_)) => "no credentials, since it names no credentials_file".to_owned(),
        (None, None) => "the callers' own headers".to_owned(),
    };
    let versions = if candidate.has_own_versions {
        "its versions count as if there were none (versions = \"own\")"
    } else {
        "its versions are those that announcements state (versions = \"same\")"
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

/// Lines of a batch path; `None` for any other.
pub(super) fn batch(router: &Router, path: &str) -> Option<Vec<String>> {
    let route = router.routes().nth(router.batch(path)?.0)?;
    let name = route
        .batch
        .as_ref()
        .map(|batch| route.path.left_out_by(batch).unwrap_or_default().to_owned())
        .unwrap_or_default();
    Some(vec![
        format!("batch     callers POST many keys here; each is answered as a GET of {} would be", route.path.text),
        format!("          a key fills {{{name}}}; explain such a path to see what it is"),
        format!("          {}", upstream(route)),
    ])
}
