//! The minters of a process: one for each distinct setting, whatever routes and reloads share it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use url::Url;

use super::claims::Claims;
use super::error::MintError;
use super::limits::MINT_WAIT;
use super::minter::{MintDeps, Minter};
use super::source::Source;
use crate::aws::clients::Sdk;
use crate::config::Minting;
use crate::model::time::Moment;
use crate::telemetry::metrics::credentials::MintKind;

/// Holds no minter: each lives as long as the settings that use it.
pub struct Minters {
    known: Mutex<Vec<Weak<Minter>>>,
    sdk: Sdk,
}

/// State of one minter, without its token.
#[derive(Clone, Debug)]
pub struct MinterStatus {
    pub kind: MintKind,
    /// Time until its token's end; `None` without one.
    pub left: Option<Duration>,
    /// A token may be sent.
    pub is_usable: bool,
    /// Failure of the last mint.
    pub failure: Option<String>,
    pub claims: Option<Claims>,
}

impl MinterStatus {
    /// A line about what is wrong with it.
    pub(crate) fn reason(&self) -> Option<String> {
        let why = self.failure.as_deref().unwrap_or("one is being minted");
        let kind = self.kind.into_str();
        match self.left.filter(|_| self.is_usable) {
            None => Some(format!("credentials ({kind}): there are none, so regions are not asked: {why}")),
            Some(left) if self.failure.is_some() => {
                let left = left.as_secs();
                Some(format!("credentials ({kind}): they cannot be renewed, and end in {left} s: {why}"))
            }
            Some(_) => None,
        }
    }
}

impl Minters {
    /// A process's, without any. `endpoint` replaces every AWS endpoint.
    pub fn new(endpoint: Option<Url>) -> Self {
        Self { known: Mutex::default(), sdk: Sdk::new(endpoint) }
    }

    /// The minter of this setting.
    pub(super) fn of(&self, minting: &Minting) -> Result<Arc<Minter>, MintError> {
        let mut known = self.known.lock();
        known.retain(|minter| minter.strong_count() > 0);
        if let Some(same) = known.iter().filter_map(Weak::upgrade).find(|minter| minter.minting == *minting) {
            return Ok(same);
        }
        let source = Source::new(minting, &self.sdk)?;
        let minter = Arc::new(Minter::new(minting, source));
        known.push(Arc::downgrade(&minter));
        Ok(minter)
    }

    /// Starts those that do not mint yet.
    pub fn start(&self, deps: &MintDeps) {
        self.live().iter().for_each(|minter| minter.start(deps));
    }

    /// Waits until each has ended a mint.
    pub async fn first_mints(&self) {
        for minter in self.live() {
            minter.first_mint(MINT_WAIT).await;
        }
    }

    pub fn status(&self, now: Moment) -> Vec<MinterStatus> {
        self.live().iter().map(|minter| status(minter, now)).collect()
    }

    fn live(&self) -> Vec<Arc<Minter>> {
        self.known.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

fn status(minter: &Minter, now: Moment) -> MinterStatus {
    let minted = minter.minted();
    MinterStatus {
        kind: minter.kind(),
        left: minted.current.as_ref().map(|credential| credential.ends.since(now)),
        is_usable: minted.usable(now).is_some(),
        failure: minted.failure.as_ref().map(ToString::to_string),
        claims: minted.current.map(|credential| credential.claims.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::StsMinting;

    #[test]
    fn reloads_and_routes_share_a_minter() {
        let minters = Minters::new(None);
        let lifetime = Duration::from_mins(15);
        let of = |audience: &str| {
            let (audience, regions) = (audience.to_owned(), vec!["eu-west-1".to_owned()]);
            minters.of(&Minting::Sts(StsMinting { audience, lifetime, regions })).ok().unwrap()
        };
        let (one, other, again) = (of("one"), of("other"), of("one"));
        assert!(Arc::ptr_eq(&one, &again) && !Arc::ptr_eq(&one, &other));
        drop((one, again));
        assert_eq!(minters.status(Moment::ZERO).len(), 1, "what no settings use is gone");
    }
}
