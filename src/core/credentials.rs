//! The sidecar's own credentials for a route, read from a file and reread when it changes.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use http::{HeaderName, HeaderValue};

use crate::config::Credentials;
use crate::config::limits::TOKEN_BYTES;
use crate::core::limits;
use crate::model::time::Clock;
use crate::tasks::file_stamp::FileStamp;
use crate::tasks::supervision::pass_panic_on;
use crate::tasks::{Tasks, on_disk};
use crate::telemetry::rate_limiter::RateLimiter;

/// The sidecar's own credentials could not be read. The operator has to fix it; a later try may
/// succeed.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("the credentials file {0} cannot be read: {1}; create it or correct the route's credentials.file")]
    Unreadable(PathBuf, std::io::Error),
    #[error("the credentials file {0} does not hold one line of at most {1} bytes that a header may carry")]
    NotAValue(PathBuf, u64),
}

/// The credentials of one `sidecar` route, reread when the file changes.
#[derive(Clone)]
pub struct HeldCredentials {
    /// The header that carries them.
    pub header: HeaderName,
    value: Arc<ArcSwap<HeaderValue>>,
    stamp: Option<FileStamp>,
}

impl HeldCredentials {
    /// Reads the file once. `run` reports an error, and the sidecar does not start.
    pub fn read(credentials: &Credentials) -> Result<Self, CredentialsError> {
        // Taken before the content, so that a write in between is seen as a change later.
        let stamp = FileStamp::of(&credentials.file);
        let value = Arc::new(ArcSwap::from_pointee(read(credentials)?));
        Ok(Self { header: credentials.header.clone(), value, stamp })
    }

    /// The value to send now.
    pub fn value(&self) -> HeaderValue {
        HeaderValue::clone(&self.value.load())
    }

    /// Watches the file until the process stops or nobody holds these credentials. If the file goes
    /// bad, the last good value stays: tokens are replaced by rename, and the file may be missing
    /// for a moment in between.
    pub fn watch(&self, credentials: Credentials, tasks: &Tasks) {
        let (value, stopping) = (Arc::downgrade(&self.value), tasks.stopping());
        let (seen, credentials) = (self.stamp, Arc::new(credentials));
        tasks.spawn_service("credentials", move || {
            let looks = look(value.clone(), credentials.clone(), seen);
            let stopping = stopping.clone();
            async move { stopping.run_until_cancelled(looks).await }
        });
    }
}

/// Reads the file again whenever it is not as it was `seen`, while somebody holds the value.
async fn look(value: Weak<ArcSwap<HeaderValue>>, credentials: Arc<Credentials>, mut seen: Option<FileStamp>) {
    let lines = RateLimiter::new();
    loop {
        tokio::time::sleep(limits::WATCH_EVERY).await;
        let Some(held) = Weak::upgrade(&value) else { return };
        let (credentials, before) = (credentials.clone(), seen);
        let file = credentials.file.clone();
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
                tracing::info!(file = %file.display(), "credentials were read again");
            }
            Some(Err(error)) => {
                if let Some(left_out) = lines.take(Clock::System.now()) {
                    tracing::warn!(%error, left_out, "the last good credentials stay in use");
                }
            }
        }
    }
}

fn read(credentials: &Credentials) -> Result<HeaderValue, CredentialsError> {
    let file = &credentials.file;
    let unreadable = |error| CredentialsError::Unreadable(file.clone(), error);
    let not_a_value = || CredentialsError::NotAValue(file.clone(), TOKEN_BYTES);
    if std::fs::metadata(file).map_err(unreadable)?.len() > TOKEN_BYTES {
        return Err(not_a_value());
    }
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    if text.trim().is_empty() {
        return Err(not_a_value());
    }
    let mut value =
        HeaderValue::try_from(format!("{}{}", credentials.prefix, text.trim())).map_err(|_| not_a_value())?;
    value.set_sensitive(true);
    Ok(value)
}
