//! Rights that a document of grants gives and takes, beside the one before.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::Grants;

/// A right that somebody gains or loses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub consumer: Arc<str>,
    /// As in `reads limits`.
    pub right: String,
    pub is_gained: bool,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_gained { '+' } else { '-' };
        write!(f, "{sign} {} {}", self.consumer, self.right)
    }
}

/// Changes that a document makes for the consumers of another, or of none.
#[must_use]
pub fn changes(old: Option<&Grants>, new: &Grants) -> Vec<Change> {
    let none = BTreeMap::new();
    let before = old.map_or(&none, |old| &old.consumers);
    let names: BTreeSet<&Arc<str>> = before.keys().chain(new.consumers.keys()).collect();
    let mut changes = Vec::new();
    for name in names {
        let [had, has] = [before, &new.consumers].map(|consumers| consumers.get(name).map(|known| known.words()));
        let (had, has) = (had.unwrap_or_default(), has.unwrap_or_default());
        let lost = had.difference(&has).map(|right| (right, false));
        let gained = has.difference(&had).map(|right| (right, true));
        changes.extend(lost.chain(gained).map(|(right, is_gained)| Change {
            consumer: name.clone(),
            right: right.clone(),
            is_gained,
        }));
    }
    changes
}
