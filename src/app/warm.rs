//! The task that keeps connections to the regions open.

use std::sync::Arc;

use crate::http::client::attempt::HttpOrigin;
use crate::tasks::Tasks;

/// Keeps connections to those regions for which nobody does so yet.
pub(super) fn keep_warm(origin: &Arc<HttpOrigin>, tasks: &Tasks) {
    let (warm, stopping) = (origin.clone(), tasks.stopping());
    tasks.spawn_service("warm", move || {
        let (warm, stopping) = (warm.clone(), stopping.clone());
        async move { stopping.run_until_cancelled(warm.keep_warm()).await }
    });
}
