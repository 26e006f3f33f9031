//! Keeps what the store's answers say of its health: the calls of a service's own parts, and those of
//! [`super::probe`] where there were none for a moment. A store that only fails, or answers nothing, becomes a reason
//! on the service's pages; a full disk does so with the first write that finds no room.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::app::limits::{STORE_FAILS, STORE_IDLE, TROUBLE_HOLD};
use crate::engine::EngineError;
use crate::model::time::{Clock, Moment};

/// Kinds of calls to a place of the engine; each can fail by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(super) enum Access {
    Reads,
    Writes,
    Announcements,
}

/// Health of each place. Clones share it.
#[derive(Clone)]
pub(super) struct StoreHealth(Arc<HealthState>);

struct HealthState {
    clock: Clock,
    /// As many as a service has places, times three.
    known: Mutex<BTreeMap<(Arc<str>, Access), AccessHealth>>,
}

#[derive(Default)]
struct AccessHealth {
    succeeded: Option<Moment>,
    trouble: Option<Trouble>,
    full: Option<(Moment, EngineError)>,
}

/// Failures with no success in between.
struct Trouble {
    /// Time at which the first call began that failed.
    since: Moment,
    last: Moment,
    error: String,
}

impl StoreHealth {
    pub(super) fn new(clock: Clock) -> Self {
        Self(Arc::new(HealthState { clock, known: Mutex::default() }))
    }

    pub(super) fn now(&self) -> Moment {
        self.0.clock.now()
    }

    pub(super) fn succeeded(&self, place: &Arc<str>, access: Access) {
        let now = self.now();
        let mut known = self.known();
        let health = known.entry((place.clone(), access)).or_default();
        (health.succeeded, health.trouble) = (Some(now), None);
    }

    /// A call that began at `began` failed. What is missing or not allowed is another's matter, and
    /// what is refused is one item's.
    pub(super) fn failed(&self, place: &Arc<str>, access: Access, began: Moment, error: &EngineError) {
        match error {
            EngineError::Full { .. } => {
                let full = Some((self.now(), error.clone()));
                self.known().entry((place.clone(), access)).or_default().full = full;
            }
            error if error.is_transient() => self.is_in_trouble(place, access, began, error.to_string()),
            _ => {}
        }
    }

    pub(super) fn is_in_trouble(&self, place: &Arc<str>, access: Access, began: Moment, error: String) {
        let last = self.now();
        let mut known = self.known();
        let health = known.entry((place.clone(), access)).or_default();
        // A call that began before a success of others says less than that.
        let began = health.succeeded.map_or(began, |succeeded| began.max(succeeded));
        let since = health.trouble.as_ref().map_or(began, |trouble| trouble.since.min(began));
        health.trouble = Some(Trouble { since, last, error });
    }

    /// Failures, one line for each place and access.
    pub(super) fn lines(&self) -> Vec<String> {
        let now = self.now();
        let is_held = |at: Moment| now.since(at) < TROUBLE_HOLD;
        let mut lines = Vec::new();
        for ((place, access), health) in &*self.known() {
            let access = access.into_str();
            if let Some((_, error)) = health.full.as_ref().filter(|(at, _)| is_held(*at)) {
                lines.push(format!("{place}: {access} are refused: {error}"));
            }
            if let Some(Trouble { since, error, .. }) = health
                .trouble
                .as_ref()
                .filter(|trouble| is_held(trouble.last) && trouble.last.since(trouble.since) >= STORE_FAILS)
            {
                let span = Duration::from_secs(now.since(*since).as_secs());
                let span = humantime::format_duration(span);
                lines.push(format!("{place}: {access} have failed or had no answer for {span}: {error}"));
            }
        }
        lines
    }

    /// Nothing has succeeded for so long that a probe is due.
    pub(super) fn is_idle(&self, place: &Arc<str>, access: Access) -> bool {
        let now = self.now();
        let known = self.known();
        let succeeded = known.get(&(place.clone(), access)).and_then(|health| health.succeeded);
        succeeded.is_none_or(|succeeded| now.since(succeeded) >= STORE_IDLE)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<(Arc<str>, Access), AccessHealth>> {
        // Each change is a few plain stores.
        self.0.known.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn failure() -> EngineError {
        EngineError::Unavailable { what: "t".to_owned(), why: "why".to_owned() }
    }

    fn setting() -> (StoreHealth, Arc<str>) {
        (StoreHealth::new(Clock::simulated(Clock::System.wall())), "home".into())
    }

    #[tokio::test(start_paused = true)]
    async fn failures_without_success_become_a_reason() {
        let (health, home) = setting();
        health.succeeded(&home, Access::Reads);
        for _ in 0..5 {
            health.failed(&home, Access::Reads, health.now(), &failure());
            assert!(health.lines().is_empty(), "one failure is none of the store's");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        health.failed(&home, Access::Reads, health.now(), &failure());
        assert_eq!(health.lines(), ["home: reads have failed or had no answer for 5s: t: why"]);
        health.succeeded(&home, Access::Writes);
        assert_eq!(health.lines().len(), 1, "writes say nothing of reads");
        health.succeeded(&home, Access::Reads);
        assert!(health.lines().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn long_call_is_temporary_reason() {
        let (health, home) = setting();
        let began = health.now();
        tokio::time::sleep(STORE_FAILS).await;
        health.failed(&home, Access::Writes, began, &failure());
        assert_eq!(health.lines().len(), 1);
        tokio::time::sleep(TROUBLE_HOLD).await;
        assert!(health.lines().is_empty(), "nobody has written since");
    }

    #[tokio::test(start_paused = true)]
    async fn full_disk_is_reason_despite_writes() {
        let (health, home) = setting();
        let full = EngineError::Full { what: "the data directory".to_owned(), why: "the disk is full".to_owned() };
        health.failed(&home, Access::Writes, health.now(), &full);
        health.succeeded(&home, Access::Writes);
        assert_eq!(health.lines(), ["home: writes are refused: the data directory: the disk is full"]);
        tokio::time::sleep(TROUBLE_HOLD).await;
        assert!(health.lines().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn refused_or_missing_is_no_reason() {
        let (health, home) = setting();
        let refused = EngineError::Refused { what: "t".to_owned(), why: "why".to_owned() };
        let missing = EngineError::Missing { what: "t".to_owned(), advice: "create it".to_owned() };
        let began = health.now();
        tokio::time::sleep(STORE_FAILS).await;
        for error in [refused, missing] {
            health.failed(&home, Access::Reads, began, &error);
            assert!(health.lines().is_empty(), "{error}");
        }
    }
}
