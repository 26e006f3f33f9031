//! The candidate of a route: who answers, where it has the records, and what it is asked with.
//!
//! What it brings is stored under a route id of its own ([`crate::routing::router`]), so that
//! nothing stored from one upstream is served for the other, and a later request for an entry asks
//! the upstream that brought it.

use std::borrow::Cow;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use siphasher::sip::SipHasher13;

use crate::config::{Candidate, Config, Form, MigrationMode, RaceConfig, Route};
use crate::credentials::{CredentialsError, HeldCredentials, Minters};
use crate::http::exchange::{Failure, Origin, Outgoing, Reply, Streamed};
use crate::model::ids::{RegionId, RouteIndex};
use crate::payload::coding::Codings;
use crate::race::authorized;
use crate::race::compression;
use crate::race::region::Regions;
use crate::race::upstream::{Rewrite, Upstream, rewritten};
use crate::routing::router::Matched;
use crate::shape::shapes::Shapes;
use crate::tasks::Tasks;

/// The upstreams of one route.
pub(crate) struct Upstreams {
    pub(crate) current: Upstream,
    pub(crate) candidate: Option<Upstream>,
}

/// Files of a configuration, as read, by route.
pub(crate) struct Held<'f> {
    pub(crate) credentials: &'f [Option<HeldCredentials>],
    pub(crate) candidates: &'f [Option<HeldCredentials>],
    pub(crate) codings: &'f [Option<Codings>],
    pub(crate) shapes: &'f [Option<Arc<Shapes>>],
}

/// The configuration before a reload, and its upstreams.
type Before<'b> = (&'b Config, &'b [Arc<Upstreams>]);

/// The upstreams of each route. What is known of another service's regions outlives a reload.
pub(crate) fn upstreams(
    config: &Config,
    regions: &Arc<Regions>,
    held: &Held<'_>,
    before: Option<Before<'_>>,
) -> Vec<Arc<Upstreams>> {
    let routes = config.service.routes.iter().enumerate();
    routes
        .map(|(index, route)| {
            let building = Building { race: &config.race, regions, held, index: RouteIndex(index), route };
            Upstreams { current: building.current(), candidate: building.candidate(before) }
        })
        .map(Arc::new)
        .collect()
}

/// Parts of the upstreams of one route.
struct Building<'b> {
    race: &'b RaceConfig,
    regions: &'b Arc<Regions>,
    held: &'b Held<'b>,
    index: RouteIndex,
    route: &'b Route,
}

impl Building<'_> {
    fn codings(&self) -> Option<&Codings> {
        self.held.codings[self.index.0].as_ref()
    }

    fn current(&self) -> Upstream {
        let Self { regions, held, index, .. } = self;
        let credentials = held.credentials[index.0].clone();
        let minted = credentials.as_ref().and_then(HeldCredentials::minted);
        let regions = authorized::regions(regions, self.race, minted);
        let compressing = self.codings().map(|codings| {
            let origin = compression::over(regions.origin().clone(), &regions, self.route, codings.clone());
            regions.renewed(self.race, origin)
        });
        Upstream {
            regions: compressing.unwrap_or_else(|| Arc::clone(&regions)),
            direct: regions,
            credentials,
            common_form: held.shapes[index.0].as_ref().and_then(|shapes| shapes.common_form()).cloned(),
            form: None,
            rewrite: None,
            states_versions: true,
        }
    }

    fn candidate(&self, before: Option<Before<'_>>) -> Option<Upstream> {
        let Self { regions, route, held, index, .. } = self;
        let candidate = route.candidate.as_ref()?;
        let origin = candidate.url.as_ref().and_then(|url| regions.origin().elsewhere(url));
        let origin = origin.unwrap_or_else(|| regions.origin().clone());
        let (own, routes) = (held.candidates[index.0].as_ref(), held.credentials[index.0].as_ref());
        let credentials = credentials_for(candidate, own, routes).cloned();
        let origin = authorized::over(origin, regions, credentials.as_ref().and_then(HeldCredentials::minted));
        let origin = match self.codings() {
            None => origin,
            Some(codings) => compression::over(origin, regions, route, codings_for(candidate, codings)),
        };
        let origin = if candidate.has_own_versions { Arc::new(Unversioned(origin)) } else { origin };
        let regions = match (&candidate.url, before.and_then(|before| known_regions(candidate, before))) {
            (None, _) => regions.renewed(self.race, origin),
            (Some(_), Some(known)) => known.renewed(self.race, origin),
            (Some(_), None) => regions.elsewhere(self.race, origin),
        };
        let form = candidate.form.or_else(|| route.payload.message.as_ref().map(|message| message.form));
        Some(Upstream {
            direct: regions.clone(),
            regions,
            credentials,
            common_form: (form == Some(Form::Protobuf)).then(Arc::default),
            form: candidate.form,
            rewrite: candidate.path.clone().map(|to| Rewrite { from: route.path.clone(), to }),
            states_versions: !candidate.has_own_versions,
        })
    }
}

/// The regions of the same other service before a reload.
fn known_regions(candidate: &Candidate, (config, upstreams): Before<'_>) -> Option<Arc<Regions>> {
    let mut routes = config.service.routes.iter().zip(upstreams);
    let held = routes.find_map(|(route, known)| {
        let is_same = route.candidate.as_ref().is_some_and(|before| before.url == candidate.url);
        known.candidate.as_ref().filter(|_| is_same)
    })?;
    Some(held.regions.clone())
}

/// The credentials of the candidates, read from their files.
pub(crate) fn credentials(
    config: &Config,
    minters: &Minters,
) -> Result<Vec<Option<HeldCredentials>>, CredentialsError> {
    config.service.routes.iter().map(|route| own_credentials(route, minters)).collect()
}

fn own_credentials(route: &Route, minters: &Minters) -> Result<Option<HeldCredentials>, CredentialsError> {
    let credentials = route.candidate.as_ref().and_then(|candidate| candidate.credentials.as_ref());
    credentials.map(|own| HeldCredentials::read(own, minters)).transpose()
}

/// Rereads the credentials of a route's upstreams when their files change, while somebody holds them.
pub(crate) fn watch_credentials(upstreams: &Upstreams, tasks: &Tasks) {
    let Upstreams { current, candidate } = upstreams;
    let held =
        [current.credentials.as_ref(), candidate.as_ref().and_then(|candidate| candidate.credentials.as_ref())];
    held.into_iter().flatten().filter_map(HeldCredentials::of_file).for_each(|file| file.watch(tasks));
}

/// Numbers that mean nothing beside those of announcements: replies count as if they stated none,
/// so that no floor hears of them.
struct Unversioned(Arc<dyn Origin>);

impl Origin for Unversioned {
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        let reply = self.0.ask(region, request, within);
        reply.map(|reply| reply.map(|reply| Reply { versions: Vec::new(), ..reply })).boxed()
    }

    fn open(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Streamed, Failure>> {
        let reply = self.0.open(region, request, within);
        reply.map(|reply| reply.map(|reply| Streamed { versions: Vec::new(), ..reply })).boxed()
    }
}

/// Takes the upstream that answers for the path's record now.
#[inline]
pub(crate) fn choose(matched: &mut Matched<'_>) {
    if let Some(candidate) = matched.candidate
        && is_new(matched)
    {
        matched.id = candidate;
    }
}

#[cold]
fn is_new(matched: &Matched<'_>) -> bool {
    let Some(candidate) = matched.route.candidate.as_ref().filter(|candidate| candidate.mode == MigrationMode::New)
    else {
        return false;
    };
    matched.records().next().is_some_and(|(record_type, key)| candidate.new_share.takes(hash(record_type, &key)))
}

/// Hash that is the same in every process, so that all sidecars move the same records.
fn hash(record_type: &str, key: &str) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0x6e65_6172_7369_6465, 0x7761_7973);
    hasher.write_usize(record_type.len());
    hasher.write(record_type.as_bytes());
    hasher.write(key.as_bytes());
    hasher.finish()
}

/// Content codings that the candidate is asked for. A dictionary is for the regions that it was
/// made with.
pub(crate) fn codings_for(candidate: &Candidate, codings: &Codings) -> Codings {
    if candidate.is_another_service() { codings.without_dictionary() } else { codings.clone() }
}

/// The credentials that the candidate is sent, of those that a route names. The route's own
/// never go to another service.
pub(crate) fn credentials_for<'c, T>(
    candidate: &Candidate,
    own: Option<&'c T>,
    routes: Option<&'c T>,
) -> Option<&'c T> {
    own.or(routes.filter(|_| !candidate.is_another_service()))
}

/// Target at the candidate for `path_and_query` of the route.
pub(crate) fn target<'t>(route: &Route, candidate: &Candidate, path_and_query: &'t str) -> Cow<'t, str> {
    rewritten(&route.path, candidate.path.as_ref(), path_and_query)
}
