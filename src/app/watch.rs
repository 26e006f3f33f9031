//! Looks at the files of tokens and certificates once a second, and takes up what they hold when one has changed. Routes'
//! credentials are watched by themselves ([`crate::core::keyed_hashes`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::reload::Reloader;
use crate::config::Config;
use crate::core::Core;
use crate::core::limits::WATCH_EVERY;

/// When each file was last written, and how long it is: `None` while it is not there.
type Stamps = Vec<(PathBuf, Option<(SystemTime, u64)>)>;

/// Watches until the process stops. What a changed file holds wrongly is told once, and what held before stays in use: files
/// may be replaced one after the other, and be there for a moment without each other.
pub(super) fn start(sidecar: &Arc<Core>, reloader: &Arc<Reloader>) {
    let (own, reloader, stopping) = (sidecar.clone(), reloader.clone(), sidecar.tasks.stopping());
    let mut seen = stamps(&own.config);
    let looks = async move {
        loop {
            tokio::time::sleep(WATCH_EVERY).await;
            let (own, reloader, before) = (own.clone(), reloader.clone(), seen.clone());
            // A mount that stalls holds up this watch, and nothing else.
            let look = tokio::task::spawn_blocking(move || {
                let now = stamps(&own.newest().config);
                if now == before || reloader.reload_files() { now } else { before }
            });
            // A panic, a defect, has been logged: the next look may go well.
            if let Ok(now) = look.await {
                seen = now;
            }
        }
    };
    sidecar.tasks.spawn("files", async move {
        stopping.run_until_cancelled(looks).await;
    });
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
