//! The paths to which callers POST many keys at once: each says which segment the keys fill, and
//! takes nothing that a route or another batch path serves.

use crate::config::error::quoted;
use crate::config::schema;
use crate::config::scope::Collector;
use crate::config::settings::Setting;
use crate::config::{PathTemplate, Route};

pub(super) fn check(collector: &mut Collector, routes: &[Route]) {
    for (at, route) in routes.iter().enumerate() {
        if collector.has_error(&schema::ROUTE_PATH, Some(at)) {
            continue;
        }
        match &route.batch {
            Some(batch) => {
                names(collector, &schema::ROUTE_BATCH, at, &route.path, batch);
                taken(collector, routes, at, batch);
            }
            None if route.upstream_batch.is_some() && !collector.has_error(&schema::ROUTE_BATCH, Some(at)) => {
                let what = "no effect without `batch`: nobody asks this route for many keys".to_owned();
                collector.refuse(&schema::ROUTE_UPSTREAM_BATCH, Some(at), what, "write batch too, or remove it");
            }
            None => {}
        }
        if let Some(upstream) = &route.upstream_batch {
            names(collector, &schema::ROUTE_UPSTREAM_BATCH, at, &route.path, upstream);
            fills_the_same(collector, at, route, upstream);
        }
    }
}

fn names(collector: &mut Collector, setting: &'static Setting, at: usize, path: &PathTemplate, batch: &PathTemplate) {
    if path.left_out_by(batch).is_some() {
        return;
    }
    let what = format!("{} does not name all but one of what {} names", quoted(&batch.text), quoted(&path.text));
    let keep: Vec<_> = path.names().skip(1).map(|name| format!("/{{{name}}}")).collect();
    let suggestion = match path.names().next() {
        Some(first) => format!(
            "leave out the segment that the keys fill, such as \"/v1/batch{}\" for {{{first}}}",
            keep.concat()
        ),
        None => "remove it: the path has no segment for a key".to_owned(),
    };
    collector.refuse(setting, Some(at), what, &suggestion);
}

/// Refuses an upstream path whose keys would fill another segment than those of the batch do.
fn fills_the_same(collector: &mut Collector, at: usize, route: &Route, upstream: &PathTemplate) {
    let by_batch = route.batch.as_ref().and_then(|batch| route.path.left_out_by(batch));
    let Some((own, other)) = by_batch.zip(route.path.left_out_by(upstream)).filter(|(own, other)| own != other)
    else {
        return;
    };
    let what = format!("{} leaves out {{{other}}}, but the keys of `batch` fill {{{own}}}", quoted(&upstream.text));
    let suggestion = format!("leave out {{{own}}} and name {{{other}}}");
    collector.refuse(&schema::ROUTE_UPSTREAM_BATCH, Some(at), what, &suggestion);
}

/// Refuses a path that is served already.
fn taken(collector: &mut Collector, routes: &[Route], at: usize, batch: &PathTemplate) {
    let suggestion = "write a path of its own, such as one that begins with \"/v1/batch\"";
    if let Some(route) = routes.iter().find(|route| route.path.overlaps(batch)) {
        let what = format!("{} would take what the route {} serves", quoted(&batch.text), quoted(&route.path.text));
        collector.refuse(&schema::ROUTE_BATCH, Some(at), what, suggestion);
    }
    let earlier = routes[..at].iter().filter_map(|route| route.batch.as_ref());
    if let Some(other) = earlier.filter(|other| other.overlaps(batch)).last() {
        let what = format!("{} and {} of another route share paths", quoted(&batch.text), quoted(&other.text));
        collector.refuse(&schema::ROUTE_BATCH, Some(at), what, suggestion);
    }
}
