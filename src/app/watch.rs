//! Checks the files of tokens and certificates once a second, and applies what they contain when
//! one has changed. Routes' credentials are watched separately (`race::credentials`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::reload::Reloader;
use crate::config::Config;
use crate::credentials::limits::WATCH_EVERY;
use crate::request::settings::Settings;
use crate::tasks::file_stamp::FileStamp;
use crate::tasks::on_disk;
use crate::tasks::supervision::pass_panic_on;

/// Time after which files that could not be used are read again, though none has changed: what kept
/// them from being read (too many open files, a mount that was away) need not show in them.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

type Stamps = Vec<(PathBuf, Option<FileStamp>)>;

/// The files as they were when they were read.
#[derive(Clone, Debug)]
struct Seen {
    stamps: Stamps,
    /// Set while they are of no use.
    again_at: Option<Instant>,
}

/// Watches until the process stops. If a changed file is wrong, that is reported, and what held before
/// stays in use: files may be replaced one after the other, so that for a moment they do not match.
pub(super) fn start(sidecar: &Arc<Settings>, reloader: &Arc<Reloader>) {
    let (own, reloader, stopping) = (sidecar.clone(), reloader.clone(), sidecar.fill.shared.tasks.stopping());
    // What a run that panicked had seen still holds.
    let seen = Arc::new(Mutex::new(Seen { stamps: stamps(&own.fill.config), again_at: None }));
    sidecar.fill.shared.tasks.spawn_service("files", move || {
        let looks = look(own.clone(), reloader.clone(), seen.clone());
        let stopping = stopping.clone();
        async move { stopping.run_until_cancelled(looks).await }
    });
}

async fn look(own: Arc<Settings>, reloader: Arc<Reloader>, seen: Arc<Mutex<Seen>>) {
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        let (own, reloader) = (own.clone(), reloader.clone());
        let before = seen.lock().clone();
        // A mount that stalls holds up only this watch.
        let looked = on_disk(move || {
            let now = stamps(&own.fill.newest().config);
            before.after(now, Instant::now(), || reloader.reload_files())
        });
        let Some(now) = looked.await else { pass_panic_on() };
        *seen.lock() = now;
    }
}

fn stamps(config: &Config) -> Stamps {
    let tls = config.service.regions.iter().flat_map(|region| {
        let client = region.tls.client.iter().flat_map(|client| [&client.cert, &client.key]);
        region.tls.ca_file.iter().chain(client)
    });
    let files = config.listen.token_file.iter().chain(&config.admin.token_file).chain(tls);
    files.map(|file| (file.clone(), FileStamp::of(file))).collect()
}

impl Seen {
    /// State after files with these stamps were looked at. `read` returns whether they are of use;
    /// `None` if they were not read.
    fn after(self, stamps: Stamps, now: Instant, read: impl FnOnce() -> Option<bool>) -> Self {
        if stamps == self.stamps && self.again_at.is_none_or(|at| now < at) {
            return self;
        }
        match read() {
            None => self,
            Some(true) => Self { stamps, again_at: None },
            Some(false) => Self { stamps, again_at: Some(now + AGAIN_AFTER) },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn stamps_of(file: &Path) -> Stamps {
        vec![(file.to_owned(), FileStamp::of(file))]
    }

    #[test]
    fn failed_read_is_retried_without_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let (began, never) = (Instant::now(), || panic!("nothing has changed"));
        let seen = Seen { stamps: stamps_of(&file), again_at: None }.after(stamps_of(&file), began, never);
        std::fs::write(&file, "new").unwrap();
        let seen = seen.after(stamps_of(&file), began, || None).after(stamps_of(&file), began, || Some(false));
        let seen = seen.after(stamps_of(&file), began + AGAIN_AFTER / 2, never);
        let seen = seen.after(stamps_of(&file), began + AGAIN_AFTER, || Some(true));
        seen.after(stamps_of(&file), began + AGAIN_AFTER * 9, never);
    }
}
