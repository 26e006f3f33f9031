//! `reset`: forgets floors. What is stored or on its way is asked for again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ActRefused;
use super::target::Target;
use crate::core::Core;
use crate::protocol::event::{Event, OperatorOrder, Scope};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reset {
    /// `record`, `type` or `all`.
    pub target: String,
    /// How many of the records that were reset have an entry.
    pub records: u64,
}

/// Only records have floors; a path has none.
pub(super) fn only_records(target: Target) -> Result<Target, ActRefused> {
    match target {
        Target::Of(_) => Ok(target),
        Target::Paths(_) => {
            Err(ActRefused::Malformed("floors are records': write one of record, type, all".to_owned()))
        }
    }
}

pub(super) fn reset(sidecar: &Arc<Core>, target: &Target) -> Reset {
    let Target::Of(scope) = *target else { return Reset { target: "none".to_owned(), records: 0 } };
    let records = match scope {
        Scope::Record(id) => usize::from(!sidecar.store.entries_of(id).is_empty()),
        Scope::Type(id) => sidecar.store.count_records(Some(id)),
        Scope::All => sidecar.store.count_records(None),
    };
    let (now, wall) = (sidecar.clock.now(), sidecar.clock.wall());
    let actions = sidecar.freshness.step(now, wall, Event::Ordered(OperatorOrder::Reset(scope)));
    sidecar.carry_out(actions);
    let target = match scope {
        Scope::Record(_) => "record",
        Scope::Type(_) => "type",
        Scope::All => "all",
    };
    Reset { target: target.to_owned(), records: records as u64 }
}
