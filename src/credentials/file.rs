//! Credentials of a file, reread when it changes.

use std::path::Path;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use http::{HeaderName, HeaderValue};

use super::error::CredentialsError;
use super::limits;
use crate::config::CredentialsFile;
use crate::config::limits::TOKEN_BYTES;
use crate::model::time::Clock;
use crate::tasks::file_stamp::FileStamp;
use crate::tasks::supervision::pass_panic_on;
use crate::tasks::{Tasks, on_disk};
use crate::telemetry::rate_limiter::RateLimiter;

/// Content of one file, reread when it changes.
#[derive(Clone)]
pub struct FileCredentials {
    /// The header that carries them.
    pub header: HeaderName,
    value: Arc<ArcSwap<HeaderValue>>,
    source: Arc<CredentialsFile>,
    stamp: Option<FileStamp>,
}

impl FileCredentials {
    /// Reads the file once. `run` reports an error, and the sidecar does not start.
    pub(super) fn read(header: HeaderName, source: &CredentialsFile) -> Result<Self, CredentialsError> {
        // Taken before the content, so that a write in between is seen as a change later.
        let stamp = FileStamp::of(&source.file);
        let value = Arc::new(ArcSwap::from_pointee(read(source)?));
        Ok(Self { header, value, source: Arc::new(source.clone()), stamp })
    }

    /// The value to send now.
    pub fn value(&self) -> HeaderValue {
        HeaderValue::clone(&self.value.load())
    }

    /// Watches the file until the process stops or nobody holds these credentials. If the file goes
    /// bad, the last good value stays: tokens are replaced by rename, and the file may be missing
    /// for a moment in between.
    pub fn watch(&self, tasks: &Tasks) {
        let (value, stopping) = (Arc::downgrade(&self.value), tasks.stopping());
        let (seen, source) = (self.stamp, self.source.clone());
        tasks.spawn_service("credentials", move || {
            let looks = look(value.clone(), source.clone(), seen);
            let stopping = stopping.clone();
            async move { stopping.run_until_cancelled(looks).await }
        });
    }
}

/// Reads the file again whenever it is not as it was `seen`, while somebody holds the value.
async fn look(value: Weak<ArcSwap<HeaderValue>>, source: Arc<CredentialsFile>, mut seen: Option<FileStamp>) {
    let lines = RateLimiter::new();
    loop {
        tokio::time::sleep(limits::WATCH_EVERY).await;
        let Some(held) = Weak::upgrade(&value) else { return };
        let (credentials, before) = (source.clone(), seen);
        // A mount that stalls holds up only this watch.
        let looked = on_disk(move || {
            let now = FileStamp::of(&credentials.file);
            (now, (now != before).then(|| read(&credentials)))
        });
        let Some((now, changed)) = looked.await else { pass_panic_on() };
        match changed {
            None => {}
            Some(Ok(value)) => {
                held.store(Arc::new(value));
                seen = now;
                tracing::info!(file = %source.file.display(), "credentials were read again");
            }
            Some(Err(error)) => {
                if let Some(suppressed) = lines.admit(Clock::System.now()) {
                    tracing::warn!(%error, suppressed, "the last good credentials stay in use");
                }
            }
        }
    }
}

fn read(credentials: &CredentialsFile) -> Result<HeaderValue, CredentialsError> {
    let file = &credentials.file;
    let token = token_in(file).map_err(|error| CredentialsError::Unreadable(file.clone(), error))?;
    let value = token.and_then(|token| HeaderValue::try_from(format!("{}{token}", credentials.prefix)).ok());
    let mut value = value.ok_or_else(|| CredentialsError::NotAValue(file.clone(), TOKEN_BYTES))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The text of the file without the blanks around it; `None` if that is nothing, or the file is too
/// large.
fn token_in(file: &Path) -> std::io::Result<Option<String>> {
    if std::fs::metadata(file)?.len() > TOKEN_BYTES {
        return Ok(None);
    }
    let text = std::fs::read_to_string(file)?;
    Ok(Some(text.trim().to_owned()).filter(|token| !token.is_empty()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn credentials_reload_and_survive_bad_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let source = CredentialsFile { prefix: "Bearer ".into(), file: file.clone() };
        let read = || FileCredentials::read(http::header::AUTHORIZATION, &source);
        assert!(matches!(read(), Err(CredentialsError::Unreadable(..))));
        std::fs::write(&file, "first\n").unwrap();
        let held = read().unwrap();
        assert_eq!(held.value(), "Bearer first");
        assert!(held.value().is_sensitive());

        let tasks = Tasks::new();
        held.watch(&tasks);
        std::fs::write(&file, "second, longer").unwrap();
        let changed = async {
            while held.value() != "Bearer second, longer" {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), changed).await.unwrap();
        std::fs::write(&file, "").unwrap();
        tokio::time::sleep(limits::WATCH_EVERY * 2).await;
        assert_eq!(held.value(), "Bearer second, longer");
        assert!(tasks.drain(Duration::from_secs(5)).await.is_empty());
    }
}
