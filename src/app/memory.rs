//! What is remembered across restarts: which regions send heartbeats. From those the next process
//! does not accept weak proof (docs/freshness.md). A missing or broken file costs the memory, never
//! the start.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::config::limits::TOKEN_BYTES;
use crate::core::Core;
use crate::model::ids::RegionId;
use crate::protocol::event::Event;
use crate::protocol::limits::REGIONS;

/// Tells freshness what an earlier process saw.
pub(super) fn recall(sidecar: &Core) {
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

/// Notes in `file` that the region of `topic` sends heartbeats.
pub(super) fn note(file: &Path, topic: &str) {
    if let Err(error) = remember(file, topic) {
        tracing::warn!(file = %file.display(), %error, "freshness.state_file could not be written");
    }
}

/// Adds a topic to the file, unless it is there.
fn remember(file: &Path, topic: &str) -> std::io::Result<()> {
    // The first heartbeats of all regions come together, so reading and rewriting the file must be
    // exclusive.
    static WRITING: Mutex<()> = Mutex::new(());
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut remembered = read(file);
    if !remembered.insert(topic.to_owned()) {
        return Ok(());
    }
    let text: String = remembered.iter().map(|topic| format!("{topic}\n")).collect();
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, file))
}

/// One topic ARN per line.
fn read(file: &Path) -> BTreeSet<String> {
    let bounded = std::fs::metadata(file).is_ok_and(|meta| meta.len() <= TOKEN_BYTES);
    let text = if bounded { std::fs::read_to_string(file).unwrap_or_default() } else { String::new() };
    text.lines().map(str::to_owned).take(REGIONS * 4).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_heartbeats_of_all_regions_are_remembered_though_they_come_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("heartbeats.new");
        let topics: Vec<String> = (0..REGIONS).map(|region| format!("arn:aws:sns:r-{region}:0:t")).collect();
        std::thread::scope(|scope| {
            for topic in &topics {
                scope.spawn(|| remember(&file, topic).unwrap());
            }
        });
        assert_eq!(read(&file), topics.into_iter().collect());
    }

    #[test]
    fn a_file_that_is_missing_or_no_text_remembers_nothing_and_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("heartbeats");
        assert!(read(&file).is_empty());
        std::fs::write(&file, [0xff; 99]).unwrap();
        assert!(read(&file).is_empty());
        remember(&file, "arn:aws:sns:r:0:t").unwrap();
        assert_eq!(read(&file).len(), 1);
    }
}
