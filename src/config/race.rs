//! `[race]`: which regions are asked, and when.

use std::time::Duration;

use super::scope::{Collector, SettingScope};
use super::service::REGION_NAME;
use super::table::{Rows, settings};
use super::value::words;
use crate::config::limits;

settings! {
    /// `[race]`
    #[derive(Clone, Debug)]
    pub struct RaceConfig in Race {
        /// Regions that are asked: every one, or the primary and later the others.
        mode: RaceMode = RACE_MODE(words::<RaceMode>(), Is("all"));
        /// Time that a caller waits at most for the regions.
        deadline: Duration = RACE_DEADLINE(millis(10, 60_000), Is("2s"));
        /// Index of the region that is asked first in `hedge`.
        primary: usize = primary[
            /// Name of the region asked first in `hedge`; none means the first.
            RACE_PRIMARY("primary", Text, Is(""));
        ];
        /// Requests under way at once to one region.
        permits: usize = RACE_PERMITS(Count(1, limits::PERMITS_PER_REGION_AT_MOST as u64), Is("512"));
    }
}

words! {
    /// Regions that are asked, and when.
    pub enum RaceMode {
        /// Every region at once.
        All,
        /// The primary; the others after its p95.
        Hedge,
    }
}

/// The first region where none is named, or none has the name, which the checks then say.
fn primary(collector: &mut Collector, scope: &SettingScope, [setting]: Rows<1>) -> usize {
    let name: Option<String> = scope.get(collector, setting);
    name.and_then(|name| collector.origins.item_of(&REGION_NAME, &name)).unwrap_or_default()
}
