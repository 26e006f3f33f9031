//! `reset`: forgets floors. What is stored or on its way is asked for again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::refused::CommandRefused;
use super::target::Target;
use crate::fill::effects::apply_actions;
use crate::protocol::event::{Event, OperatorOrder, Scope};
use crate::request::settings::Settings;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reset {
    /// `record`, `type` or `all`.
    pub target: String,
    /// Number of reset records that have an entry.
    pub records: u64,
}

/// Only records have floors; a path has none.
pub(super) fn only_records(target: Target) -> Result<Target, CommandRefused> {
    match target {
        Target::Of(_) => Ok(target),
        Target::Paths(_) => {
            Err(CommandRefused::Malformed("floors are records': write one of record, type, all".to_owned()))
        }
    }
}

pub(super) fn reset(sidecar: &Arc<Settings>, target: &Target) -> Reset {
    let Target::Of(scope) = *target else { return Reset { target: "none".to_owned(), records: 0 } };
    let records = match scope {
        Scope::Record(id) => usize::from(!sidecar.fill.shared.store.entries_of(id).is_empty()),
        Scope::Type(id) => sidecar.fill.shared.store.count_records(Some(id)),
        Scope::All => sidecar.fill.shared.store.count_records(None),
    };
    let (now, wall) = (sidecar.fill.shared.clock.now(), sidecar.fill.shared.clock.wall());
    let actions = sidecar.fill.shared.freshness.step(now, wall, Event::Ordered(OperatorOrder::Reset(scope)));
    apply_actions(&sidecar.fill, actions);
    Reset { target: scope.into_str().to_owned(), records: records as u64 }
}
