//! What a route makes of its regions' bytes for this caller, and who answers: forms, fields, batches
//! and the second way.

use crate::config::{Config, Form, PathTemplate, Route, Way};
use crate::core::router::{Matched, Router};
use crate::core::shape::{Asked, ShapeError, ShapeRefused, Shapes, accept_of};
use crate::core::way;
use crate::http::admission::Head;
use crate::payload::accept::Choice;

/// What a request asks for; `None` where its route declares nothing.
pub(super) type Wanted = Result<Option<Result<Asked, ShapeRefused>>, ShapeError>;

pub(super) fn wanted(route: &Route, head: Head<'_>) -> Wanted {
    Ok(Shapes::of(route)?.map(|shapes| shapes.asked(head)))
}

/// Where each region is asked, by the way that answers.
pub(super) fn asked_at(config: &Config, matched: &Matched<'_>, wanted: &Wanted, path_and_query: &str) -> Vec<String> {
    let shortened = match wanted {
        Ok(Some(Ok(asked))) => asked.path_and_query.as_deref(),
        _ => None,
    };
    let first = shortened.unwrap_or(path_and_query);
    let second = matched.route.second.as_ref().filter(|_| is_second(matched));
    let target = second.map_or(first.into(), |second| way::target(matched.route, second, first));
    let elsewhere = second.and_then(|second| second.url.as_ref());
    let regions = config.service.regions.iter();
    let bases = regions.map(|region| elsewhere.and_then(|url| url.of(&region.name)).unwrap_or(region.url.clone()));
    bases.map(|base| format!("{}{target}", base.as_str().trim_end_matches('/'))).collect()
}

/// Whether the second way answers for the path's record.
fn is_second(matched: &Matched<'_>) -> bool {
    matched.second == Some(matched.id)
}

/// What the route's key leaves out of `Accept`: whoever asks for a form shares one entry.
pub(super) fn keeps_accept_apart(wanted: &Wanted) -> bool {
    !matches!(wanted, Ok(Some(Ok(asked))) if asked.form.is_some())
}

pub(super) fn lines(matched: &Matched<'_>, wanted: &Wanted) -> Vec<String> {
    let route = matched.route;
    let mut lines = match wanted {
        Err(unusable) => vec![format!("UNUSABLE  {unusable}")],
        Ok(Some(Err(refused))) => vec![format!("REFUSED   this request: {refused}")],
        Ok(Some(Ok(asked))) => {
            let form = route.payload.message.as_ref().map(|_| form(matched, asked));
            form.into_iter().flatten().chain(route.payload.fields.as_ref().map(|name| fields(name, asked))).collect()
        }
        Ok(None) => Vec::new(),
    };
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
    }
    lines
}

fn form(matched: &Matched<'_>, asked: &Asked) -> [String; 2] {
    let second = matched.route.second.as_ref().filter(|_| is_second(matched));
    let form = asked.form.map(|first| second.and_then(|second| second.form).unwrap_or(first));
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
