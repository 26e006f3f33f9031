//! Trials of one path: both upstreams of its route, compared in each region
//! ([`crate::migration::trial`]).

use super::lookup::would_ask;
use super::settings::Settings;
use crate::config::MigrationMode;
use crate::fill::ask::Of;
use crate::fill::compare::pair;
use crate::http::admission::Head;
use crate::migration::trial::Trial;
use crate::model::ids::RegionId;

/// A trial for each region; none if the path has no candidate that may be asked, or the sidecar
/// itself refuses the request. `head` says `no-cache`.
pub(crate) fn trials(settings: &Settings, head: Head<'_>) -> Vec<Trial> {
    let matched = settings.fill.router.find(head.path());
    let matched = matched.filter(|it| {
        it.route
            .candidate
            .as_ref()
            .is_some_and(|candidate| matches!(candidate.mode, MigrationMode::Check | MigrationMode::New))
    });
    let Some(matched) = matched else { return Vec::new() };
    let Some(ask) = would_ask(settings, head, &matched) else { return Vec::new() };
    let Of::Route(routing) = &ask.of else { return Vec::new() };
    let regions = (0..settings.fill.regions.count() as u8).map(RegionId);
    regions.map(|region| Trial::new(pair(&settings.fill, &ask, routing, matched.index, region))).collect()
}
