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
use crate::protocol::limits::RECORD_KEY_BYTES;
use crate::telemetry::counts::RouteCounts;

#[derive(Clone, Debug)]
struct Known {
    route: Route,
    id: u16,
    /// The id of what its second way brings.
    second: Option<u16>,
    counts: Arc<RouteCounts>,
}

#[derive(Clone, Debug)]
pub struct Router {
    routes: Vec<Known>,
    /// The next id that no route has had.
    next_id: u16,
    /// Indices of the routes with that many segments, in order.
    by_length: Vec<Vec<u16>>,
    /// Some route has a second way.
    has_seconds: bool,
    /// The longest literal text in any record key, in bytes, not counting what comes from the path.
    longest_literal: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Matched<'p> {
    /// Its index in the configuration.
    pub place: usize,
    /// Of the way that answers ([`crate::core::way`]).
    pub id: u16,
    /// The id of the second way, where there is one.
    pub second: Option<u16>,
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
        let fresh = |(id, route): (u16, &Route)| {
            let second = route.second.is_some().then(|| {
                next_id += 1;
                next_id - 1
            });
            Known { route: route.clone(), id, second, counts: Arc::default() }
        };
        Self::of((0..).zip(&service.routes).map(fresh).collect(), next_id)
    }

    /// A router for reloaded routes: those that show the same as before keep their ids. `None` when
    /// no ids are left.
    pub fn renewed(&self, service: &Service) -> Option<Self> {
        let mut next_id = self.next_id;
        let mut renewed = |route: &Route| {
            let mut another = || {
                let id = next_id;
                next_id = next_id.checked_add(1)?;
                Some(id)
            };
            let before = self.routes.iter().find(|known| known.route.shows_the_same(route));
            let id = match before {
                Some(known) => known.id,
                None => another()?,
            };
            let second = match (&route.second, before.and_then(|known| known.route.second.as_ref().zip(known.second)))
            {
                (None, _) => None,
                (Some(second), Some((before, id))) if second.leads_to_the_same(before) => Some(id),
                (Some(_), _) => Some(another()?),
            };
            // A path keeps its counts whatever else of its route has changed.
            let counted = self.routes.iter().find(|known| known.route.path == route.path);
            let counts = counted.map(|known| known.counts.clone()).unwrap_or_default();
            Some(Known { route: route.clone(), id, second, counts })
        };
        let routes = service.routes.iter().map(&mut renewed).collect::<Option<Vec<_>>>()?;
        Some(Self::of(routes, next_id))
    }

    fn of(routes: Vec<Known>, next_id: u16) -> Self {
        let lengths = routes.iter().map(|known| known.route.path.segments.len()).max().unwrap_or_default();
        let mut by_length = vec![Vec::new(); lengths + 1];
        for (place, known) in (0..).zip(&routes) {
            by_length[known.route.path.segments.len()].push(place);
        }
        let records = routes.iter().flat_map(|known| &known.route.records);
        let longest_literal = records.map(RecordTemplate::literal_bytes).max().unwrap_or_default();
        let has_seconds = routes.iter().any(|known| known.second.is_some());
        Self { routes, next_id, by_length, has_seconds, longest_literal }
    }

    /// The route for `path` (no query), or `None` if the path is unrouted.
    ///
    /// A path whose key would be longer than an announcement can carry is unrouted too: nothing
    /// could keep it fresh.
    pub fn find<'p>(&'p self, path: &'p str) -> Option<Matched<'p>> {
        #[cfg(test)]
        CALLED.set(CALLED.get() + 1);
        let length = path.strip_prefix('/')?.bytes().filter(|byte| *byte == b'/').count() + 1;
        let places = self.by_length.get(length)?;
        let known = |place: &u16| (usize::from(*place), &self.routes[usize::from(*place)]);
        let (place, Known { route, id, second, counts }) =
            places.iter().map(known).find(|(_, known)| known.route.path.fits(path))?;
        let announceable = path.len() + self.longest_literal <= RECORD_KEY_BYTES;
        (announceable && is_plain(path)).then_some(Matched { place, id: *id, second: *second, route, counts, path })
    }

    /// The index of the route for which many keys are asked for at `path` (no query).
    pub fn batch(&self, path: &str) -> Option<usize> {
        let fits = |known: &Known| known.route.batch.as_ref().is_some_and(|batch| batch.fits(path));
        self.routes.iter().position(fits).filter(|_| is_plain(path))
    }

    /// The index of the route with this id, of either way, in the configuration; `None` when it is
    /// gone.
    pub fn place(&self, id: u16) -> Option<usize> {
        self.routes.iter().position(|known| known.id == id || known.second == Some(id))
    }

    /// The index of the route whose second way has this id.
    pub fn second(&self, id: u16) -> Option<usize> {
        if !self.has_seconds {
            return None;
        }
        self.routes.iter().position(|known| known.second == Some(id))
    }

    /// The id of the second way of the route at this index.
    pub fn second_id(&self, place: usize) -> Option<u16> {
        self.routes[place].second
    }

    /// Whether every route of `before` still has its id here, so that nothing stored has lost its
    /// route.
    pub fn has_all_of(&self, before: &Self) -> bool {
        let has =
            |known: &Known| self.place(known.id).is_some() && known.second.is_none_or(|id| self.place(id).is_some());
        before.routes.iter().all(has)
    }

    /// The route with this id; `None` when it is gone.
    pub fn route(&self, id: u16) -> Option<&Route> {
        self.place(id).map(|place| &self.routes[place].route)
    }

    /// Whether a region might read `path` as one that a route names although we do not: in another
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
        self.routes().any(|route| route.path.is_like(&segments))
    }

    /// The paths of routes that `path`, which is on none, resembles: about as many segments, and
    /// similar literal ones.
    pub fn resembled(&self, path: &str) -> impl Iterator<Item = &str> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let alike = move |route: &&Route| route.path.resembles(&segments);
        self.routes().filter(alike).map(|route| route.path.text.as_str())
    }

    /// The id of the route at this index.
    pub fn id(&self, place: usize) -> u16 {
        self.routes[place].id
    }

    /// The request counts of the route at this index.
    pub fn counts(&self, place: usize) -> &RouteCounts {
        &self.routes[place].counts
    }

    /// Each route's path and its request counts.
    pub fn counted(&self) -> impl Iterator<Item = (&str, &RouteCounts)> {
        self.routes.iter().map(|known| (known.route.path.text.as_str(), &*known.counts))
    }

    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().map(|known| &known.route)
    }
}

#[cfg(test)]
thread_local! {
    /// How often this thread called [`Router::find`].
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
        Some((found.place, found.records().map(|(kind, key)| (kind.to_owned(), key.into_owned())).collect()))
    }

    #[test]
    fn the_first_route_in_the_order_of_the_file_is_taken() {
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

    #[test]
    fn a_route_keeps_its_id_for_as_long_as_it_shows_the_same_and_no_id_is_given_twice() {
        let (a, b) = (("/a/{key}", "a:{key}"), ("/b/{key}", "b:{key}"));
        let first = router(&[a, b]);
        let id = |router: &Router, path: &str| router.find(path).map(|found| found.id);
        let renewed = |router: &Router, routes: &[(&str, &str)]| {
            let mut text = "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n".to_owned();
            for (path, record) in routes {
                text += &format!("[[service.route]]\npath = \"{path}\"\nrecords = [\"{record}\"]\nttl = \"5m\"\n");
            }
            router.renewed(&from_toml(&text).unwrap().service).unwrap()
        };
        let turned = renewed(&first, &[b, a]);
        assert_eq!((id(&turned, "/a/k"), id(&turned, "/b/k")), (Some(0), Some(1)), "another ttl, another place");
        assert!(turned.has_all_of(&first) && turned.place(0) == Some(1));
        let other = renewed(&turned, &[("/a/{key}", "other:{key}"), b]);
        assert_eq!((id(&other, "/a/k"), id(&other, "/b/k")), (Some(2), Some(1)));
        assert!(!other.has_all_of(&first) && other.route(0).is_none());
        let back = renewed(&other, &[a, b]);
        assert_eq!(id(&back, "/a/k"), Some(3), "what it stored when it was here before is not its own any more");
    }

    #[test]
    fn a_path_whose_key_could_not_be_announced_is_unrouted() {
        let router = router(&[("/c/{key}", "c:{key}")]);
        assert!(router.find(&format!("/c/{}", "k".repeat(RECORD_KEY_BYTES - 3))).is_some());
        assert!(router.find(&format!("/c/{}", "k".repeat(RECORD_KEY_BYTES))).is_none());
    }

    #[test]
    fn a_path_that_a_region_may_take_for_a_routes_is_near() {
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
    fn a_path_that_a_region_might_read_differently_is_unrouted() {
        let router = router(&[("/v1/contexts/{key}/{view}", "context:{key}")]);
        assert!(router.find("/v1/contexts/k/full").is_some());
        for path in
            ["/v1/contexts/../full", "/v1/contexts/k/%2e%2E", "/v1/contexts/a%2f..%2fb/full", "/v1/contexts/%zz/f"]
        {
            assert!(router.find(path).is_none(), "{path}");
        }
    }
}
