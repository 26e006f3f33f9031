//! Counts of decisions, by consumer and by the name of what was asked for.
//!
//! Both come from documents and settings, never from a caller: a name that is not configured counts as
//! `-`, and so does a caller that belongs to no consumer.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use strum::VariantArray;

use super::denial::Denial;
use super::limits::{COUNTED_PAIRS, SHOWN_REFUSALS};

/// Outcome of a decision, whether or not it was acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum AccessOutcome {
    Granted,
    /// Nothing that a grant is needed for.
    Elsewhere,
    NoCredential,
    BadCredential,
    NotGranted,
    KeysUnknown,
    VerificationBusy,
    GrantsUnknown,
}

impl AccessOutcome {
    /// True if `enforce` refuses the request.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        !matches!(self, Self::Granted | Self::Elsewhere)
    }
}

impl From<Denial> for AccessOutcome {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::NoCredential => Self::NoCredential,
            Denial::BadCredential(_) => Self::BadCredential,
            Denial::NotGranted => Self::NotGranted,
            Denial::KeysUnknown => Self::KeysUnknown,
            Denial::Busy => Self::VerificationBusy,
            Denial::GrantsUnknown => Self::GrantsUnknown,
        }
    }
}

/// Name that stands for none, and for those that are not configured.
pub const NONE: &str = "-";
/// Name of all pairs beyond the bound.
const OTHER: &str = "other";

type Outcomes = [AtomicU64; AccessOutcome::VARIANTS.len()];

/// Counts of a port's decisions.
#[derive(Debug, Default)]
pub struct AccessCounts {
    /// Views or types that are configured.
    names: BTreeSet<String>,
    pairs: RwLock<Pairs>,
    other: Outcomes,
}

#[derive(Debug, Default)]
struct Pairs {
    by_consumer: HashMap<Arc<str>, HashMap<Arc<str>, Outcomes>>,
    count: usize,
}

/// Refused requests of a consumer, or those that `enforce` would refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusals {
    pub consumer: String,
    pub view: String,
    pub outcome: AccessOutcome,
    pub count: u64,
}

impl AccessCounts {
    /// Counts where these views or types are configured.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: names.into_iter().collect(), ..Self::default() }
    }

    /// The name as it is shown: [`NONE`] for one that is not configured, which a caller may have made up.
    #[must_use]
    pub fn shown<'n>(&self, name: Option<&'n str>) -> &'n str {
        name.filter(|name| self.names.contains(*name)).unwrap_or(NONE)
    }

    /// Counts a decision about a request for `name`.
    pub fn decided(&self, consumer: Option<&str>, name: Option<&str>, outcome: AccessOutcome) {
        let (consumer, view) = (consumer.unwrap_or(NONE), self.shown(name));
        if let Some(outcomes) = self.pairs.read().by_consumer.get(consumer).and_then(|views| views.get(view)) {
            outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut pairs = self.pairs.write();
        let Pairs { by_consumer, count } = &mut *pairs;
        let is_known = by_consumer.get(consumer).is_some_and(|views| views.contains_key(view));
        // A consumer and a view may be called so: two series of the same labels would be none.
        let is_other = (consumer, view) == (OTHER, OTHER);
        if is_other || (!is_known && *count == COUNTED_PAIRS) {
            self.other[outcome as usize].fetch_add(1, Ordering::Relaxed);
            return;
        }
        *count += usize::from(!is_known);
        let outcomes = by_consumer.entry(consumer.into()).or_default().entry(view.into()).or_default();
        outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Every count above zero, in order.
    fn all(&self) -> Vec<Refusals> {
        let pairs = self.pairs.read();
        let known = pairs
            .by_consumer
            .iter()
            .flat_map(|(consumer, views)| views.iter().map(move |(view, outcomes)| (&**consumer, &**view, outcomes)));
        let every = known.chain([(OTHER, OTHER, &self.other)]);
        let mut all: Vec<Refusals> = every
            .flat_map(|(consumer, view, outcomes)| {
                AccessOutcome::VARIANTS.iter().zip(outcomes).map(move |(outcome, count)| Refusals {
                    consumer: consumer.to_owned(),
                    view: view.to_owned(),
                    outcome: *outcome,
                    count: count.load(Ordering::Relaxed),
                })
            })
            .filter(|counted| counted.count > 0)
            .collect();
        all.sort_by(|one, other| {
            let name =
                |counted: &Refusals| (counted.consumer.clone(), counted.view.clone(), counted.outcome as usize);
            name(one).cmp(&name(other))
        });
        all
    }

    /// Refusals, or what `enforce` would refuse, the most frequent first.
    #[must_use]
    pub fn refusals(&self) -> Vec<Refusals> {
        let mut refusals = self.all();
        refusals.retain(|counted| counted.outcome.is_refusal());
        refusals.sort_by_key(|counted| std::cmp::Reverse(counted.count));
        refusals.truncate(SHOWN_REFUSALS);
        refusals
    }

    /// Writes the counts onto the page.
    pub(super) fn write(&self, page: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests that were decided about, by outcome; with `observe` all of them are answered.";
        let mut family = page.encode_descriptor("access_requests", help, None, MetricType::Counter)?;
        self.all().into_iter().try_for_each(|counted| {
            let outcome: &'static str = counted.outcome.into();
            let labels = [("consumer", counted.consumer.as_str()), ("view", &counted.view), ("outcome", outcome)];
            ConstCounter::new(counted.count).encode(family.encode_family(&labels)?)
        })
    }

    #[cfg(test)]
    pub(super) fn count(&self, outcome: AccessOutcome) -> u64 {
        self.all().iter().filter(|counted| counted.outcome == outcome).map(|counted| counted.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &[Refusals], consumer: &str, view: &str) -> u64 {
        all.iter().find(|counted| (&*counted.consumer, &*counted.view) == (consumer, view)).unwrap().count
    }

    #[test]
    fn made_up_names_and_many_pairs_share() {
        let counts = AccessCounts::new((0..1_200).map(|number| format!("v{number}")).chain([OTHER.to_owned()]));
        counts.decided(Some(OTHER), Some(OTHER), AccessOutcome::NotGranted);
        for view in ["made-up", "another", "_grants"] {
            counts.decided(None, Some(view), AccessOutcome::NotGranted);
        }
        counts.decided(Some("jira"), Some("v1"), AccessOutcome::Granted);
        for number in 0..1_200 {
            counts.decided(Some("many"), Some(&format!("v{number}")), AccessOutcome::NotGranted);
        }
        counts.decided(Some("jira"), Some("v1"), AccessOutcome::Granted);
        let all = counts.all();
        assert_eq!((of(&all, "-", "-"), of(&all, "jira", "v1"), of(&all, "many", "v7")), (3, 2, 1));
        assert_eq!((all.len(), of(&all, OTHER, OTHER)), (COUNTED_PAIRS + 1, 203));
        let refusals = counts.refusals();
        assert_eq!((refusals.len(), refusals[0].count, refusals[1].count), (SHOWN_REFUSALS, 203, 3));
        assert!(refusals.iter().all(|counted| counted.outcome == AccessOutcome::NotGranted));
    }
}
