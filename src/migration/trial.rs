//! Both upstreams of one path's route, compared in each region there and then: for who examines a
//! configuration. Both are asked, whichever of them answers meanwhile. It takes no turn of the
//! background's budget and is counted nowhere.

use parking_lot::Mutex;

use super::comparison::{Found, Pair};
use super::limits;
use super::tally::Ending;
use crate::model::ids::RegionId;
use crate::payload::compare::Differences;

/// One comparison in one region.
pub(crate) struct Trial {
    pair: Pair,
    shown: Mutex<Tried>,
}

/// Findings so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// Nothing has come.
    Nothing,
    /// The current upstream gave nothing to compare with.
    NoCurrent,
    /// They differ in these places, or state different versions, in a first reading: the record may
    /// have changed between. They are read again after [`limits::CHECK_AGAIN`].
    Once(Option<Differences>),
    Ended(Ending),
}

impl Trial {
    pub(crate) fn new(pair: Pair) -> Self {
        Self { pair, shown: Mutex::new(Tried::Nothing) }
    }

    pub(crate) fn region(&self) -> RegionId {
        self.pair.region
    }

    /// Findings so far, also of a trial that was broken off.
    pub(crate) fn shown(&self) -> Tried {
        self.shown.lock().clone()
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
        let current = self.pair.current().await.map_err(|_| Tried::NoCurrent)?;
        let candidate = self.pair.candidate(true).await.map_err(Tried::Ended)?;
        Ok(self.pair.found(current, candidate).await)
    }

    fn show(&self, tried: Tried) {
        *self.shown.lock() = tried;
    }
}
