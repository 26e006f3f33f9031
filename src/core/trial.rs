//! Both ways to one path, compared in each region there and then: for who examines a configuration.
//! Whoever answers meanwhile, both are asked. It takes no turn of the background's budget and is
//! counted nowhere.

use std::sync::{Arc, Mutex, PoisonError};

use super::fill::Of;
use super::fill::comparison::{Found, Pair};
use super::way::ledger::Ending;
use super::{Core, limits, lookup};
use crate::config::Way;
use crate::http::admission::Head;
use crate::model::ids::RegionId;
use crate::payload::compare::Differences;

/// One comparison in one region.
pub(crate) struct Trial {
    pair: Pair,
    shown: Mutex<Tried>,
}

/// What is known so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// Nothing has come.
    Nothing,
    /// The first way gave nothing to compare with.
    NoFirst,
    /// They differ in these places, or state different versions, in a first reading: the record may
    /// have changed between. They are read again after [`limits::CHECK_AGAIN`].
    Once(Option<Differences>),
    Ended(Ending),
}

/// A trial for each region; none if the path has no second way that may be asked, or the sidecar
/// itself refuses the request. `head` says `no-cache`.
pub(crate) fn trials(core: &Arc<Core>, head: Head<'_>) -> Vec<Trial> {
    let matched = core.router.find(head.path());
    let is_tried = |way| matches!(way, Way::Check | Way::New);
    let matched = matched.filter(|it| it.route.second.as_ref().is_some_and(|second| is_tried(second.way)));
    let Some(matched) = matched else { return Vec::new() };
    let Some(ask) = lookup::would_ask(core, head, &matched) else { return Vec::new() };
    let Of::Route(routing) = &ask.of else { return Vec::new() };
    let of = |region| {
        let (key, request, of) = (ask.key.clone(), ask.request.clone(), routing.clone());
        let pair = Pair { core: core.clone(), place: matched.place, key, region: RegionId(region), request, of };
        Trial { pair, shown: Mutex::new(Tried::Nothing) }
    };
    (0..core.regions.count() as u8).map(of).collect()
}

impl Trial {
    pub(crate) fn region(&self) -> RegionId {
        self.pair.region
    }

    /// What is known so far, also of a trial that was broken off.
    pub(crate) fn shown(&self) -> Tried {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn run(&self) {
        let before = match self.read().await {
            Err(tried) => return self.show(tried),
            Ok(Found::Ended(ending)) => return self.show(Tried::Ended(ending)),
            Ok(before) => before,
        };
        self.show(Tried::Once(match &before {
            Found::Differs(differences) => Some(differences.clone()),
            _ => None,
        }));
        tokio::time::sleep(limits::CHECK_AGAIN).await;
        match self.read().await {
            Ok(now) => self.show(Tried::Ended(before.again(now))),
            Err(Tried::Ended(ending)) => self.show(Tried::Ended(ending)),
            // What the first reading showed stands.
            Err(_) => {}
        }
    }

    /// Past any cache, so that both are of now.
    async fn read(&self) -> Result<Found, Tried> {
        let first = self.pair.first().await.map_err(|_| Tried::NoFirst)?;
        let second = self.pair.second(true).await.map_err(Tried::Ended)?;
        Ok(self.pair.found(first, second).await)
    }

    fn show(&self, tried: Tried) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = tried;
    }
}
