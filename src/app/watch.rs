//! Checks the files of tokens and certificates once a second, and applies what they contain when
//! one has changed. Routes' credentials are watched separately (`core::credentials`).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::reload::Reloader;
use crate::config::Config;
use crate::core::Core;
use crate::core::limits::WATCH_EVERY;
use crate::tasks::on_disk;
use crate::tasks::supervision::pass_panic_on;

/// When each file was last written, and its length: `None` while it is not there.
type Stamps = Vec<(PathBuf, Option<(SystemTime, u64)>)>;

/// Watches until the process stops. If a changed file is wrong, that is reported once, and what
/// held before stays in use: files may be replaced one after the other, so that for a moment they
/// do not match.
pub(super) fn start(sidecar: &Arc<Core>, reloader: &Arc<Reloader>) {
    let (own, reloader, stopping) = (sidecar.clone(), reloader.clone(), sidecar.tasks.stopping());
    // What a run that panicked had seen still holds.
    let seen = Arc::new(Mutex::new(stamps(&own.config)));
    sidecar.tasks.spawn_service("files", move || {
        let looks = look(own.clone(), reloader.clone(), seen.clone());
        let stopping = stopping.clone();
        async move { stopping.run_until_cancelled(looks).await }
    });
}

async fn look(own: Arc<Core>, reloader: Arc<Reloader>, seen: Arc<Mutex<Stamps>>) {
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        let (own, reloader) = (own.clone(), reloader.clone());
        let before = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A mount that stalls holds up only this watch.
        let looked = on_disk(move || {
            let now = stamps(&own.newest().config);
            if now == before || reloader.reload_files() { now } else { before }
        });
        let Some(now) = looked.await else { pass_panic_on() };
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

fn stamps(config: &Config) -> Stamps {
    let tls = config.service.regions.iter().flat_map(|region| {
        let client = region.tls.client.iter().flat_map(|client| [&client.cert, &client.key]);
        region.tls.ca_file.iter().chain(client)
    });
    let files = config.listen.token_file.iter().chain(&config.admin.token_file).chain(tls);
    files.map(|file| (file.clone(), stamp(file))).collect()
}

fn stamp(file: &Path) -> Option<(SystemTime, u64)> {
    let meta = std::fs::metadata(file).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}
