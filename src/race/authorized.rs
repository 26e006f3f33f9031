//! Attempts that carry a token which the sidecar mints, or a signature by keys that it gets in the same
//! way. Without either nothing is sent. One that a region refuses, though no region took it, is
//! replaced, and the attempt sent once more. This is next to the sockets: a request that is signed gets
//! no other header after it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::region::Regions;
use crate::config::{RaceConfig, UrlPerRegion};
use crate::credentials::{Carried, Credential, MintedCredentials, Scope, refusal};
use crate::http::exchange::{Failure, Origin, Outgoing, Reply, Streamed};
use crate::model::ids::RegionId;

/// An upstream whose attempts carry a minted token, or a signature.
#[derive(Clone)]
struct Authorized {
    inner: Arc<dyn Origin>,
    credentials: MintedCredentials,
    /// AWS regions by the regions' ids, if requests are signed for them.
    aws_regions: Arc<[String]>,
}

/// The origin, one of `regions`, whose attempts carry the token, if it is one that is minted.
pub(crate) fn over(
    inner: Arc<dyn Origin>,
    regions: &Regions,
    credentials: Option<&MintedCredentials>,
) -> Arc<dyn Origin> {
    let Some(credentials) = credentials else { return inner };
    let names = (0..regions.count()).map(|at| regions.name(RegionId(at as u8)));
    let aws_regions = match credentials.minter.signing() {
        Some(signing) => names.map(|name| signing.regions.get(name).cloned().unwrap_or_default()).collect(),
        None => Arc::default(),
    };
    Arc::new(Authorized { inner, credentials: credentials.clone(), aws_regions })
}

/// The regions asked with the token, if it is one that is minted.
pub(crate) fn regions(regions: &Arc<Regions>, race: &RaceConfig, with: Option<&MintedCredentials>) -> Arc<Regions> {
    match with {
        None => regions.clone(),
        Some(_) => regions.renewed(race, over(regions.origin().clone(), regions, with)),
    }
}

/// Status and headers of an answer, whole or streamed.
trait Answered {
    fn head(&self) -> (StatusCode, &HeaderMap);
}

impl Answered for Reply {
    fn head(&self) -> (StatusCode, &HeaderMap) {
        (self.status, &self.headers)
    }
}

impl Answered for Streamed {
    fn head(&self) -> (StatusCode, &HeaderMap) {
        (self.status, &self.headers)
    }
}

impl Authorized {
    /// The request as `region` gets it with these credentials, once all its other headers are there.
    fn with(&self, region: RegionId, request: &Outgoing, credential: &Credential) -> Result<Arc<Outgoing>, Failure> {
        let MintedCredentials { header, minter } = &self.credentials;
        let mut request = Outgoing::clone(request);
        match (&credential.carried, minter.signing()) {
            (Carried::Keys(keys), Some(signing)) => {
                let base = self.inner.base(region).ok_or(Failure::Target)?;
                let aws_region = self.aws_regions.get(region.index()).ok_or(Failure::Target)?;
                let scope = Scope { service: &signing.service, aws_region, base: &base };
                keys.sign(&mut request, &scope, minter.signed_at(region)).ok_or(Failure::Target)?;
            }
            (Carried::Bearer(value), _) => drop(request.headers.insert(header.clone(), value.clone())),
            (Carried::Keys(_), None) => return Err(Failure::NoCredential),
        }
        Ok(Arc::new(request))
    }

    /// Credentials that may be taken where these were refused, `within` the given time: another token, or
    /// the same keys once the region's clock is known.
    async fn newer(
        &self,
        region: RegionId,
        (status, headers): (StatusCode, &HeaderMap),
        sent: &Arc<Credential>,
        within: Duration,
    ) -> Option<Arc<Credential>> {
        let minter = &self.credentials.minter;
        if matches!(sent.carried, Carried::Bearer(_)) {
            return minter.answered(sent, status, within).await;
        }
        if minter.learn_clock(region, status, headers) {
            return Some(sent.clone());
        }
        minter.answered(sent, refusal(status, headers), within).await
    }

    /// Sends one attempt with the token, and once more with its replacement.
    fn send<T: Answered + Send>(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
        send: impl Fn(Arc<dyn Origin>, Arc<Outgoing>, Duration) -> BoxFuture<'static, Result<T, Failure>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Failure>> {
        let own = self.clone();
        let until = Instant::now() + within;
        let left = move || until.saturating_duration_since(Instant::now());
        async move {
            let minter = &own.credentials.minter;
            let credential = minter.usable(left()).await.ok_or(Failure::NoCredential)?;
            let answer = send(own.inner.clone(), own.with(region, &request, &credential)?, left()).await?;
            let Some(newer) = own.newer(region, answer.head(), &credential, left()).await else { return Ok(answer) };
            let request = own.with(region, &request, &newer)?;
            let again = send(own.inner.clone(), request, left()).await;
            if let Ok(again) = &again {
                let _ = own.newer(region, again.head(), &newer, Duration::ZERO).await;
            }
            again.or(Ok(answer))
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
        self.send(region, request, within, move |origin, request, within| origin.ask(region, request, within))
    }

    fn open(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Streamed, Failure>> {
        self.send(region, request, within, move |origin, request, within| origin.open(region, request, within))
    }

    /// Another service, which gets no token unless somebody says so.
    fn elsewhere(&self, url: &UrlPerRegion) -> Option<Arc<dyn Origin>> {
        self.inner.elsewhere(url)
    }
}

#[cfg(test)]
mod signed;
#[cfg(test)]
mod tests;
