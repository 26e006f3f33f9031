//! Owns what is remembered across restarts: which regions send heartbeats (FRESHNESS.md, weak proof).
//!
//! Before it: an action says that a region's first heartbeat came. After it: the next process does not accept weak
//! proof from that region. Invariant: a missing or broken file costs the memory, never the start.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::freshness::event::Event;
use crate::freshness::words::RegionId;
use crate::limits;
use crate::serve::Sidecar;

/// Tells freshness what an earlier process saw.
pub(super) fn recall(sidecar: &Sidecar) {
    let Some(file) = &sidecar.config.freshness.state_file else { return };
    let remembered = read(file);
    for (region, configured) in (0u8..).map(RegionId).zip(&sidecar.config.service.regions) {
        let topic = configured.topic.as_ref().map(|topic| topic.arn.as_str());
        if topic.is_some_and(|topic| remembered.contains(topic)) {
            let (now, wall) = (sidecar.clock.now(), sidecar.clock.wall());
            sidecar.freshness.step(now, wall, Event::HeartbeatRemembered(region));
        }
    }
}

/// Notes that `region` sends heartbeats.
pub(super) fn note(sidecar: &Sidecar, region: RegionId) {
    let Some(file) = &sidecar.config.freshness.state_file else { return };
    let Some(topic) = &sidecar.config.service.regions[region.index()].topic else { return };
    // Regions' first heartbeats come together: who reads the file and writes it anew must be alone.
    static WRITING: Mutex<()> = Mutex::new(());
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut remembered = read(file);
    if !remembered.insert(topic.arn.clone()) {
        return;
    }
    let text: String = remembered.iter().map(|topic| format!("{topic}\n")).collect();
    let beside = file.with_extension("new");
    if let Err(error) = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, file)) {
        tracing::warn!(file = %file.display(), %error, "freshness.state_file could not be written");
    }
}

/// One topic ARN a line.
fn read(file: &Path) -> BTreeSet<String> {
    let bounded = std::fs::metadata(file).is_ok_and(|meta| meta.len() <= limits::TOKEN_BYTES);
    let text = if bounded { std::fs::read_to_string(file).unwrap_or_default() } else { String::new() };
    text.lines().map(str::to_owned).take(limits::REGIONS * 4).collect()
}
