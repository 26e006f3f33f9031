//! Attempts that carry a token which the sidecar mints. Without one nothing is sent. One that a region
//! refuses, though no region took it, is replaced, and the attempt sent once more.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use http::StatusCode;
use tokio::time::Instant;

use super::region::Regions;
use crate::config::{RaceConfig, UrlPerRegion};
use crate::credentials::{Credential, MintedCredentials};
use crate::http::exchange::{Failure, Origin, Outgoing, Reply, Streamed};
use crate::model::ids::RegionId;

/// An upstream whose attempts carry a minted token.
struct Authorized {
    inner: Arc<dyn Origin>,
    credentials: MintedCredentials,
}

/// The origin whose attempts carry the token, if it is one that is minted.
pub(crate) fn over(inner: Arc<dyn Origin>, credentials: Option<&MintedCredentials>) -> Arc<dyn Origin> {
    match credentials {
        None => inner,
        Some(credentials) => Arc::new(Authorized { inner, credentials: credentials.clone() }),
    }
}

/// The regions asked with the token, if it is one that is minted.
pub(crate) fn regions(regions: &Arc<Regions>, race: &RaceConfig, with: Option<&MintedCredentials>) -> Arc<Regions> {
    match with {
        None => regions.clone(),
        Some(_) => regions.renewed(race, over(regions.origin().clone(), with)),
    }
}

/// Status of an answer, whole or streamed.
trait Answered {
    fn status(&self) -> StatusCode;
}

impl Answered for Reply {
    fn status(&self) -> StatusCode {
        self.status
    }
}

impl Answered for Streamed {
    fn status(&self) -> StatusCode {
        self.status
    }
}

impl Authorized {
    /// Sends one attempt with the token, and once more with its replacement.
    fn send<T: Answered + Send>(
        &self,
        request: Arc<Outgoing>,
        within: Duration,
        send: impl Fn(Arc<dyn Origin>, Arc<Outgoing>, Duration) -> BoxFuture<'static, Result<T, Failure>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Failure>> {
        let (inner, credentials) = (self.inner.clone(), self.credentials.clone());
        let until = Instant::now() + within;
        let left = move || until.saturating_duration_since(Instant::now());
        async move {
            let MintedCredentials { header, minter } = &credentials;
            let with = |credential: &Credential| {
                let mut request = Outgoing::clone(&request);
                request.headers.insert(header.clone(), credential.value.clone());
                Arc::new(request)
            };
            let credential = minter.usable(left()).await.ok_or(Failure::NoCredential)?;
            let answer = send(inner.clone(), with(&credential), left()).await?;
            match minter.answered(&credential, answer.status(), left()).await {
                None => Ok(answer),
                Some(newer) => {
                    let again = send(inner, with(&newer), left()).await;
                    if let Ok(again) = &again {
                        let _ = minter.answered(&newer, again.status(), Duration::ZERO).await;
                    }
                    again.or(Ok(answer))
                }
            }
        }
        .boxed()
    }
}

impl Origin for Authorized {
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        self.send(request, within, move |origin, request, within| origin.ask(region, request, within))
    }

    fn open(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Streamed, Failure>> {
        self.send(request, within, move |origin, request, within| origin.open(region, request, within))
    }

    /// Another service, which gets no token unless somebody says so.
    fn elsewhere(&self, url: &UrlPerRegion) -> Option<Arc<dyn Origin>> {
        self.inner.elsewhere(url)
    }
}

#[cfg(test)]
mod tests;
