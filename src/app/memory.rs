//! Memory across restarts: which regions send heartbeats. which regions send heartbeats. From those
//! the next process does not accept weak proof (docs/freshness.md). A missing or broken file costs
//! the memory, never the start.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;

use crate::config::limits::TOKEN_BYTES;
use crate::model::ids::RegionId;
use crate::protocol::event::Event;
use crate::protocol::limits::REGIONS;
use crate::request::settings::Settings;
use crate::tasks::on_disk;

/// Time after which a note that could not be written is tried again.
const NOTE_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Tells freshness what an earlier process saw.
pub(super) fn recall(sidecar: &Settings) {
    let Some(file) = &sidecar.fill.config.freshness.state_file else { return };
    let remembered = read(file).unwrap_or_else(|error| {
        tracing::warn!(file = %file.display(), %error, "freshness.state_file could not be read: weak proof counts until regions send heartbeats");
        BTreeSet::new()
    });
    for (region, configured) in (0u8..).map(RegionId).zip(&sidecar.fill.config.service.regions) {
        let topic = configured.topic.as_ref().map(|topic| topic.arn.as_str());
        if topic.is_some_and(|topic| remembered.contains(topic)) {
            let (now, wall) = (sidecar.fill.shared.clock.now(), sidecar.fill.shared.clock.wall());
            sidecar.fill.shared.freshness.step(now, wall, Event::HeartbeatRemembered(region));
        }
    }
}

/// Notes in `file` that the region of `topic` sends heartbeats, again and again until it is written:
/// nothing else will say so.
pub(super) async fn note(file: PathBuf, topic: String) {
    loop {
        let (to, topic) = (file.clone(), topic.clone());
        // A disk that stalls must not hold up what announcements are received by.
        match on_disk(move || remember(&to, &topic)).await {
            Some(Err(error)) => {
                tracing::warn!(file = %file.display(), %error, again_in = ?NOTE_AGAIN_AFTER, "freshness.state_file could not be written");
            }
            Some(Ok(())) | None => return,
        }
        tokio::time::sleep(NOTE_AGAIN_AFTER).await;
    }
}

/// Adds a topic to the file, unless it is there.
fn remember(file: &Path, topic: &str) -> std::io::Result<()> {
    // The first heartbeats of all regions come together, so reading and rewriting the file must be
    // exclusive.
    static WRITING: Mutex<()> = Mutex::new(());
    let _writing = WRITING.lock();
    let mut remembered = read(file)?;
    if !remembered.insert(topic.to_owned()) {
        return Ok(());
    }
    let text: String = remembered.iter().map(|topic| format!("{topic}\n")).collect();
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let mut new = std::fs::File::create(&beside)?;
    new.write_all(text.as_bytes())?;
    // Else a power cut could leave an empty one under its name.
    new.sync_all()?;
    std::fs::rename(&beside, file)
}

/// One topic ARN per line; none where there is no such file, or it is no text. What cannot be read may
/// hold some, and must not be replaced.
fn read(file: &Path) -> std::io::Result<BTreeSet<String>> {
    let read = std::fs::File::open(file).and_then(|file| {
        let mut text = Vec::new();
        file.take(TOKEN_BYTES).read_to_end(&mut text).map(|_| text)
    });
    let text = match read {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    let text = String::from_utf8(text).unwrap_or_default();
    Ok(text.lines().map(str::to_owned).take(REGIONS * 4).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_first_heartbeats_are_all_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("heartbeats.new");
        let topics: Vec<String> = (0..REGIONS).map(|region| format!("arn:aws:sns:r-{region}:0:t")).collect();
        std::thread::scope(|scope| {
            for topic in &topics {
                scope.spawn(|| remember(&file, topic).unwrap());
            }
        });
        assert_eq!(read(&file).unwrap(), topics.into_iter().collect());
    }

    #[test]
    fn missing_or_binary_file_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("heartbeats");
        assert!(read(&file).unwrap().is_empty());
        std::fs::write(&file, [0xff; 99]).unwrap();
        assert!(read(&file).unwrap().is_empty());
        remember(&file, "arn:aws:sns:r:0:t").unwrap();
        assert_eq!(read(&file).unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn unreadable_file_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let [file, away] = ["heartbeats", "away"].map(|name| directory.path().join(name));
        remember(&away, "arn:aws:sns:a:0:t").unwrap();
        // As unreadable as a file without permissions is to others than root.
        std::fs::create_dir(&file).unwrap();
        let mended = async {
            tokio::time::sleep(NOTE_AGAIN_AFTER / 2).await;
            assert!(file.is_dir());
            std::fs::remove_dir(&file).unwrap();
            std::fs::rename(&away, &file).unwrap();
        };
        tokio::join!(note(file.clone(), "arn:aws:sns:b:0:t".to_owned()), mended);
        assert_eq!(read(&file).unwrap().len(), 2);
    }
}
