//! The second way of a route to the same records: who answers, where the second way leads, and what
//! it is asked with.
//!
//! What the second way brings is stored under a route id of its own ([`crate::core::router`]), so
//! that nothing stored by one way is served by the other, and whoever asks again for an entry asks
//! the way that brought it.

use std::borrow::Cow;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use siphasher::sip::SipHasher13;

use crate::config::{Config, Form, IdentityMode, Route, SecondWay, Way};
use crate::core::credentials::{CredentialsError, HeldCredentials};
use crate::core::race::region::Regions;
use crate::core::router::Matched;
use crate::core::shape::CommonForm;
use crate::core::{Core, compression};
use crate::http::exchange::{Failure, Origin, Outgoing, Reply, Streamed};
use crate::model::ids::RegionId;
use crate::payload::coding::Codings;

pub mod ledger;
#[cfg(test)]
mod tests;

/// How the second way of one route is asked.
pub struct Second {
    pub(crate) regions: Arc<Regions>,
    /// Its own credentials.
    pub(in crate::core) credentials: Option<HeldCredentials>,
    /// If it is asked for Protobuf.
    common: Option<Arc<CommonForm>>,
}

/// The second way of each route. What is known of another service's regions outlives a reload.
pub(super) fn seconds(
    config: &Config,
    regions: &Arc<Regions>,
    (held, codings): (Vec<Option<HeldCredentials>>, &[Option<Codings>]),
    before: Option<&Core>,
) -> Vec<Option<Second>> {
    let known = |second: &SecondWay| {
        let before = before?;
        let mut routes = before.config.service.routes.iter().zip(&before.seconds);
        let is_same = |route: &Route| route.second.as_ref().is_some_and(|known| known.url == second.url);
        routes.find_map(|(route, held)| held.as_ref().filter(|_| is_same(route))).map(|held| held.regions.clone())
    };
    let of = |((route, credentials), codings): ((&Route, Option<HeldCredentials>), &Option<Codings>)| {
        let second = route.second.as_ref()?;
        let origin = second.url.as_ref().and_then(|url| regions.origin().elsewhere(url));
        let origin = origin.unwrap_or_else(|| regions.origin().clone());
        let origin = match codings {
            None => origin,
            Some(codings) => compression::over(origin, regions, route, codings_for(second, codings)),
        };
        let origin = if second.has_own_versions { Arc::new(Unversioned(origin)) } else { origin };
        let regions = match (&second.url, known(second)) {
            (None, _) => regions.renewed(&config.race, origin),
            (Some(_), Some(known)) => known.renewed(&config.race, origin),
            (Some(_), None) => regions.elsewhere(&config.race, origin),
        };
        let form = second.form.or_else(|| route.payload.message.as_ref().map(|message| message.form));
        let common = (form == Some(Form::Protobuf)).then(Arc::default);
        Some(Second { regions, credentials, common })
    };
    config.service.routes.iter().zip(held).zip(codings).map(of).collect()
}

/// The credentials of the second ways, read from their files.
pub(super) fn credentials(config: &Config) -> Result<Vec<Option<HeldCredentials>>, CredentialsError> {
    let own = |route: &Route| {
        let credentials = route.second.as_ref().and_then(|second| second.credentials.as_ref());
        credentials.map(HeldCredentials::read).transpose()
    };
    config.service.routes.iter().map(own).collect()
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

/// Takes the way that answers for the path's record now.
#[inline]
pub(crate) fn choose(matched: &mut Matched<'_>) {
    if let Some(second) = matched.second
        && is_new(matched)
    {
        matched.id = second;
    }
}

#[cold]
fn is_new(matched: &Matched<'_>) -> bool {
    let Some(second) = matched.route.second.as_ref().filter(|second| second.way == Way::New) else { return false };
    matched.records().next().is_some_and(|(record_type, key)| second.new_share.takes(hash(record_type, &key)))
}

/// The same in every process, so that all sidecars move the same records.
fn hash(record_type: &str, key: &str) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0x6e65_6172_7369_6465, 0x7761_7973);
    hasher.write_usize(record_type.len());
    hasher.write(record_type.as_bytes());
    hasher.write(key.as_bytes());
    hasher.finish()
}

/// What the second way is asked to compress with. A dictionary is for the regions that it was made
/// with.
pub(crate) fn codings_for(second: &SecondWay, codings: &Codings) -> Codings {
    if second.is_another_service() { codings.without_dictionary() } else { codings.clone() }
}

/// The credentials that the second way is sent, of those that a route names. The route's own never go
/// to another service.
pub(crate) fn credentials_for<'c, T>(second: &SecondWay, own: Option<&'c T>, routes: Option<&'c T>) -> Option<&'c T> {
    own.or(routes.filter(|_| !second.is_another_service()))
}

/// Where the second way has what is at `path_and_query` of the first.
pub(crate) fn target<'t>(route: &Route, second: &SecondWay, path_and_query: &'t str) -> Cow<'t, str> {
    let path_len = path_and_query.find('?').unwrap_or(path_and_query.len());
    let (path, query) = path_and_query.split_at(path_len);
    let Some((other, captures)) = second.path.as_ref().zip(route.path.captures(path)) else {
        return Cow::Borrowed(path_and_query);
    };
    Cow::Owned(other.filled(|name| captures.written(name).unwrap_or_default()) + query)
}

impl Core {
    /// The second way, if this is the id of what it brings.
    pub(super) fn second(&self, route: u16) -> Option<(&Route, &SecondWay, &Second)> {
        self.second_at(self.router.second(route)?)
    }

    /// The second way of the route at this index.
    pub(super) fn second_at(&self, place: usize) -> Option<(&Route, &SecondWay, &Second)> {
        let route = &self.config.service.routes[place];
        Some((route, route.second.as_ref()?, self.seconds[place].as_ref()?))
    }

    /// The regions as the way with this id asks them.
    pub(super) fn regions_of(&self, route: u16) -> &Arc<Regions> {
        match self.second(route) {
            Some((.., held)) => &held.regions,
            None if self.compressed.is_empty() => &self.regions,
            None => {
                let compressed = self.router.place(route).and_then(|place| self.compressed[place].as_ref());
                compressed.unwrap_or(&self.regions)
            }
        }
    }

    /// The sidecar's own credentials for the second way at this index.
    pub(super) fn second_credentials(&self, place: usize) -> Option<&HeldCredentials> {
        let (_, second, held) = self.second_at(place)?;
        credentials_for(second, held.credentials.as_ref(), self.credentials[place].as_ref())
    }

    /// The form that all regions have, if the way with this id asks them for Protobuf.
    pub(super) fn common_form(&self, route: u16) -> Option<&Arc<CommonForm>> {
        if let Some((.., held)) = self.second(route) {
            return held.common.as_ref();
        }
        self.shapes[self.router.place(route)?].as_ref()?.common_form()
    }

    /// What the second way is asked for where the first would be asked for `first`.
    pub(super) fn form_by(&self, route: u16, first: Option<Form>) -> Option<Form> {
        first.map(|first| self.second(route).map_or(first, |(_, second, _)| second.form_for(first)))
    }

    /// Rereads the second ways' credentials when their files change.
    pub(super) fn watch_seconds(&self) {
        for (route, held) in self.config.service.routes.iter().zip(&self.seconds) {
            let own = held.as_ref().and_then(|held| held.credentials.as_ref());
            let named = route.second.as_ref().and_then(|second| second.credentials.as_ref());
            if let (IdentityMode::Sidecar(_), Some((held, named))) = (&route.identity, own.zip(named)) {
                held.watch(named.clone(), &self.tasks);
            }
        }
    }
}
