//! Finds the route for a path. The first route in the order of the file that matches is taken, and
//! finding it allocates nothing.
//!
//! A route's id is part of keys and entries. It survives a reload as long as the route shows the
//! same to the same readers. A route that changed gets an id that no route had before, so that
//! nothing stored is taken for something else.

use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::config::template::is_plain;
use crate::config::{RecordTemplate, Route, Service};
use crate::model::ids::{RouteId, RouteIndex};
use crate::protocol::limits::RECORD_KEY_BYTES;
use crate::telemetry::counts::RouteCounts;

#[derive(Clone, Debug)]
struct Known {
    route: Route,
    id: RouteId,
    /// The id of what its candidate brings.
    candidate: Option<RouteId>,
    counts: Arc<RouteCounts>,
}

#[derive(Clone, Debug)]
pub struct Router {
    routes: Vec<Known>,
    /// The next id that no route has had.
    next_id: u16,
    /// Indices of the routes with that many segments, in order.
    by_length: Vec<Vec<u16>>,
    /// Some route has a candidate.
    has_candidates: bool,
    /// The longest literal text in any record key, in bytes, not counting what comes from the path.
    longest_literal: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Matched<'p> {
    pub index: RouteIndex,
    /// Id of the upstream that answers ([`crate::migration`]).
    pub id: RouteId,
    /// The id of the candidate, where there is one.
    pub candidate: Option<RouteId>,
    pub route: &'p Route,
    pub counts: &'p RouteCounts,
    /// The path that matched.
    path: &'p str,
}

impl<'p> Matched<'p> {
    /// The records that the path shows: type and key, in the order of the route.
    pub fn records(&self) -> impl Iterator<Item = (&'p str, std::borrow::Cow<'p, str>)> {
        let captures = self.route.path.captures(self.path).expect("what fits can be captured");
        self.route.records.iter().map(move |record| (record.record_type.as_str(), record.key_of(&captures)))
    }
}

impl Router {
    pub fn new(service: &Service) -> Self {
        let mut next_id = service.routes.len() as u16;
        Self::of(
            (0..)
                .map(RouteId)
                .zip(&service.routes)
                .map(|(id, route)| {
                    let candidate = route.candidate.is_some().then(|| {
                        next_id += 1;
                        RouteId(next_id - 1)
                    });
                    Known { route: route.clone(), id, candidate, counts: Arc::default() }
                })
                .collect(),
            next_id,
        )
    }

    /// A router for reloaded routes: those that show the same as before keep their ids. `None` when
    /// no ids are left.
    pub fn renewed(&self, service: &Service) -> Option<Self> {
        let mut next_id = self.next_id;
        let routes = service.routes.iter().map(|route| {
            let before = self.routes.iter().find(|known| known.route.shows_the_same(route));
            let id = match before {
                Some(known) => known.id,
                None => take_id(&mut next_id)?,
            };
            let candidate = match (
                &route.candidate,
                before.and_then(|known| known.route.candidate.as_ref().zip(known.candidate)),
            ) {
                (None, _) => None,
                (Some(candidate), Some((before, id))) if candidate.leads_to_the_same(before) => Some(id),
                (Some(_), _) => Some(take_id(&mut next_id)?),
            };
            // A path keeps its counts whatever else of its route has changed.
            let counted = self.routes.iter().find(|known| known.route.path == route.path);
            let counts = counted.map(|known| known.counts.clone()).unwrap_or_default();
            Some(Known { route: route.clone(), id, candidate, counts })
        });
        let routes = routes.collect::<Option<Vec<_>>>()?;
        Some(Self::of(routes, next_id))
    }

    fn of(routes: Vec<Known>, next_id: u16) -> Self {
        let lengths = routes.iter().map(|known| known.route.path.segments.len()).max().unwrap_or_default();
        let mut by_length = vec![Vec::new(); lengths + 1];
        for (index, known) in (0..).zip(&routes) {
            by_length[known.route.path.segments.len()].push(index);
        }
        let records = routes.iter().flat_map(|known| &known.route.records);
        let longest_literal = records.map(RecordTemplate::literal_bytes).max().unwrap_or_default();
        let has_candidates = routes.iter().any(|known| known.candidate.is_some());
        Self { routes, next_id, by_length, has_candidates, longest_literal }
    }

    /// The route for `path` (no query), or `None` if the path is unrouted.
    ///
    /// A path whose key would be longer than an announcement can carry is unrouted too: nothing
    /// could keep it fresh.
    pub fn find<'p>(&'p self, path: &'p str) -> Option<Matched<'p>> {
        #[cfg(test)]
        CALLED.set(CALLED.get() + 1);
        let length = memchr::memchr_iter(b'/', path.strip_prefix('/')?.as_bytes()).count() + 1;
        let indices = self.by_length.get(length)?;
        let mut known =
            indices.iter().map(|index| (RouteIndex(usize::from(*index)), &self.routes[usize::from(*index)]));
        let (index, Known { route, id, candidate, counts }) = known.find(|(_, known)| known.route.path.fits(path))?;
        let announceable = path.len() + self.longest_literal <= RECORD_KEY_BYTES;
        (announceable && is_plain(path)).then_some(Matched {
            index,
            id: *id,
            candidate: *candidate,
            route,
            counts,
            path,
        })
    }

    /// The index of the route for which many keys are asked for at `path` (no query).
    pub fn batch(&self, path: &str) -> Option<RouteIndex> {
        self.routes
            .iter()
            .position(|known| known.route.batch.as_ref().is_some_and(|batch| batch.fits(path)))
            .filter(|_| is_plain(path))
            .map(RouteIndex)
    }

    /// The index of the route with this id, of either upstream, in the configuration; `None` when it
    /// is gone.
    pub fn index_of(&self, id: RouteId) -> Option<RouteIndex> {
        self.routes.iter().position(|known| known.id == id || known.candidate == Some(id)).map(RouteIndex)
    }

    /// The index of the route whose candidate has this id.
    pub fn candidate(&self, id: RouteId) -> Option<RouteIndex> {
        if !self.has_candidates {
            return None;
        }
        self.routes.iter().position(|known| known.candidate == Some(id)).map(RouteIndex)
    }

    /// The id of the candidate of the route at this index.
    pub fn candidate_id(&self, index: RouteIndex) -> Option<RouteId> {
        self.routes[index.0].candidate
    }

    /// True if every route of `before` still has its id here, so that nothing stored has lost its
    /// route.
    pub fn has_all_of(&self, before: &Self) -> bool {
        before.routes.iter().all(|known| {
            self.index_of(known.id).is_some() && known.candidate.is_none_or(|id| self.index_of(id).is_some())
        })
    }

    /// The route with this id; `None` when it is gone.
    pub fn route(&self, id: RouteId) -> Option<&Route> {
        self.index_of(id).map(|index| &self.routes[index.0].route)
    }

    /// True if a region might read `path` as one that a route names although we do not: in another
    /// letter case, with empty or dot segments, escapes or segment parameters (`;v=1`) resolved, or
    /// with a key of any length.
    pub fn is_near(&self, path: &str) -> bool {
        let decoded = percent_decode_str(path).decode_utf8_lossy().replace('\\', "/");
        let mut segments = Vec::new();
        for segment in decoded.split('/').map(|segment| segment.split(';').next().unwrap_or_default()) {
            match segment {
                "" | "." => {}
                ".." => drop(segments.pop()),
                _ => segments.push(segment),
            }
        }
        self.routes().any(|route| route.path.matches_loosely(&segments))
    }

    /// The paths of routes that `path`, which is on none, resembles: about as many segments, and
    /// similar literal ones.
    pub fn resembled(&self, path: &str) -> impl Iterator<Item = &str> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let alike = self.routes().filter(move |route| route.path.is_similar_to(&segments));
        alike.map(|route| route.path.text.as_str())
    }

    /// The id of the route at this index.
    pub fn id(&self, index: RouteIndex) -> RouteId {
        self.routes[index.0].id
    }

    /// The request counts of the route at this index.
    pub fn counts(&self, index: RouteIndex) -> &RouteCounts {
        &self.routes[index.0].counts
    }

    /// Each route's path and its request counts.
    pub fn counted(&self) -> impl Iterator<Item = (&str, &RouteCounts)> {
        self.routes.iter().map(|known| (known.route.path.text.as_str(), &*known.counts))
    }

    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().map(|known| &known.route)
    }
}

fn take_id(next_id: &mut u16) -> Option<RouteId> {
    let id = RouteId(*next_id);
    *next_id = next_id.checked_add(1)?;
    Some(id)
}

#[cfg(test)]
thread_local! {
    /// Number of calls to [`Router::find`] by this thread.
    pub(crate) static CALLED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read::from_toml;

    fn router(routes: &[(&str, &str)]) -> Router {
        let mut text = "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n".to_owned();
        for (path, record) in routes {
            text.push_str(&format!("[[service.route]]\npath = \"{path}\"\nrecords = [\"{record}\"]\n"));
        }
        Router::new(&from_toml(&text).unwrap().service)
    }

    fn records(router: &Router, path: &str) -> Option<(usize, Vec<(String, String)>)> {
        let found = router.find(path)?;
        Some((found.index.0, found.records().map(|(kind, key)| (kind.to_owned(), key.into_owned())).collect()))
    }

    #[test]
    fn first_route_in_file_order_wins() {
        let router =
            router(&[("/v1/contexts/{key}/raw", "raw:{key}"), ("/v1/contexts/{key}/{view}", "context:{key}")]);
        assert_eq!(records(&router, "/v1/contexts/k/raw"), Some((0, vec![("raw".into(), "k".into())])));
        assert_eq!(records(&router, "/v1/contexts/k/full"), Some((1, vec![("context".into(), "k".into())])));
        assert_eq!(records(&router, "/v1/contexts/k"), None);
        assert_eq!(records(&router, "/v1/contexts/k/full/more"), None);
        assert_eq!(records(&router, "*"), None);
    }

    #[test]
    fn one_path_may_show_several_records() {
        let mut text = "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n".to_owned();
        text.push_str(
            "[[service.route]]\npath = \"/t/{t}/c/{c}\"\nrecords = [\"tenant:{t}\", \"context:{t}/{c}\"]\n",
        );
        let router = Router::new(&from_toml(&text).unwrap().service);
        let shown = records(&router, "/t/acme/c/a%2Fb").unwrap().1;
        assert_eq!(shown, vec![("tenant".into(), "acme".into()), ("context".into(), "acme/a/b".into())]);
    }

    fn id(router: &Router, path: &str) -> Option<u16> {
        router.find(path).map(|found| found.id.0)
    }

    fn renewed(router: &Router, routes: &[(&str, &str)]) -> Router {
        let mut text = "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n".to_owned();
        for (path, record) in routes {
            text += &format!("[[service.route]]\npath = \"{path}\"\nrecords = [\"{record}\"]\nttl = \"5m\"\n");
        }
        router.renewed(&from_toml(&text).unwrap().service).unwrap()
    }

    #[test]
    fn route_ids_are_stable_never_reused() {
        let (a, b) = (("/a/{key}", "a:{key}"), ("/b/{key}", "b:{key}"));
        let first = router(&[a, b]);
        let turned = renewed(&first, &[b, a]);
        assert_eq!((id(&turned, "/a/k"), id(&turned, "/b/k")), (Some(0), Some(1)), "another ttl, another place");
        assert!(turned.has_all_of(&first) && turned.index_of(RouteId(0)) == Some(RouteIndex(1)));
        let other = renewed(&turned, &[("/a/{key}", "other:{key}"), b]);
        assert_eq!((id(&other, "/a/k"), id(&other, "/b/k")), (Some(2), Some(1)));
        assert!(!other.has_all_of(&first) && other.route(RouteId(0)).is_none());
        let back = renewed(&other, &[a, b]);
        assert_eq!(id(&back, "/a/k"), Some(3), "what it stored when it was here before is not its own any more");
    }

    #[test]
    fn path_with_unannounceable_key_is_unrouted() {
        let router = router(&[("/c/{key}", "c:{key}")]);
        assert!(router.find(&format!("/c/{}", "k".repeat(RECORD_KEY_BYTES - 3))).is_some());
        assert!(router.find(&format!("/c/{}", "k".repeat(RECORD_KEY_BYTES))).is_none());
    }

    #[test]
    fn lookalike_of_routed_path_is_near() {
        let router = router(&[("/v1/contexts/{key}", "context:{key}"), ("/v1/list/", "list:all")]);
        for path in [
            "/v1/contexts/k/",
            "//v1/contexts//k",
            "/V1/Contexts/k",
            "/v1/./contexts/x/../k",
            "/v1/contexts/%2e/k",
            "/v1%2fcontexts\\k",
            "/v1;a=b/contexts/k;c=d",
            "/v1/list",
        ] {
            assert!(router.find(path).is_none() && router.is_near(path), "{path}");
        }
        for path in ["/", "/v1/contexts", "/v1/contexts/k/view", "/v2/contexts/k", "*"] {
            assert!(!router.is_near(path), "{path}");
        }
    }

    #[test]
    fn ambiguous_path_is_unrouted() {
        let router = router(&[("/v1/contexts/{key}/{view}", "context:{key}")]);
        assert!(router.find("/v1/contexts/k/full").is_some());
        for path in
            ["/v1/contexts/../full", "/v1/contexts/k/%2e%2E", "/v1/contexts/a%2f..%2fb/full", "/v1/contexts/%zz/f"]
        {
            assert!(router.find(path).is_none(), "{path}");
        }
    }
}
