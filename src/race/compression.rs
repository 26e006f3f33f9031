//! Compression between the regions of a route and the sidecar. The sidecar asks for a coding of its
//! own choice and takes it off before anything else sees the reply: races, votes, entries and
//! callers know the bytes as they are, and `Accept-Encoding` is no part of a key.
//!
//! What is compressed together is one record, or records that every caller of the route may read
//! (decision 0024). Requests are never compressed.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderMap, Method, header};

use super::limits::INLINE_DECODE_BYTES;
use super::region::Regions;
use crate::config::{self, Compression, DictionaryFile, Route};
use crate::http::bodies::ByteBudget;
use crate::http::exchange::{Failure, Origin, Outgoing, Reply, Streamed};
use crate::http::limits::REPLY_BODY_BYTES;
use crate::model::ids::RegionId;
use crate::model::time::{Clock, Moment};
use crate::payload::coding::{Coding, CodingError, Codings, Dictionary, DictionaryError, has_body, uncoded};
use crate::tasks::on_blocking_pool;
use crate::telemetry::limits::OBSERVED_NAME_BYTES;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::payload::PayloadWork;
use crate::telemetry::metrics::payload::ReplyCoding;
use crate::telemetry::rate_limiter::RateLimiter;

#[cfg(test)]
mod tests;

/// A dictionary that cannot be used. The operator has to correct it.
#[derive(Debug, thiserror::Error)]
pub enum CompressionError {
    #[error("service.route.dictionary.file: {file} cannot be read: {error}")]
    File { file: String, error: std::io::Error },
    #[error("service.route.dictionary: {file}: {error}")]
    Dictionary { file: String, error: DictionaryError },
}

/// Codings that the regions of this route are asked for; reads the route's dictionary.
pub fn codings(route: &Route) -> Result<Option<Codings>, CompressionError> {
    Ok(match &route.compression {
        None => None,
        Some(Compression::Gzip) => Some(Codings::Gzip),
        Some(Compression::Zstd(None)) => Some(Codings::Zstd),
        Some(Compression::Zstd(Some(named))) => Some(Codings::Dcz(dictionary(named)?)),
    })
}

fn dictionary(named: &DictionaryFile) -> Result<Dictionary, CompressionError> {
    let file = named.file.display();
    let mut content = Vec::new();
    let most = config::limits::DICTIONARY_BYTES + 1;
    std::fs::File::open(&named.file)
        .and_then(|file| file.take(most).read_to_end(&mut content))
        .map_err(|error| CompressionError::File { file: file.to_string(), error })?;
    Dictionary::read(content, &named.hash)
        .map_err(|error| CompressionError::Dictionary { file: file.to_string(), error })
}

/// `origin`, asked for `codings` on behalf of `route`.
pub(crate) fn over(origin: Arc<dyn Origin>, regions: &Regions, route: &Route, codings: Codings) -> Arc<dyn Origin> {
    let of_many = route.identity.is_shared().then(|| codings.without_dictionary());
    Arc::new(Compressing {
        origin,
        of_one: Arc::new(codings),
        of_many: of_many.map(Arc::new),
        outside: Arc::new(Outside {
            clock: regions.clock.clone(),
            metrics: regions.metrics.clone(),
            bodies: regions.bodies().clone(),
            names: (0..regions.count()).map(|at| regions.name(RegionId(at as u8)).to_owned()).collect(),
            path: route.path.text.clone(),
            lines: RateLimiter::new(),
        }),
    })
}

/// Regions that are asked to compress.
struct Compressing {
    origin: Arc<dyn Origin>,
    of_one: Arc<Codings>,
    /// Codings of a batch, whose records are compressed together.
    of_many: Option<Arc<Codings>>,
    outside: Arc<Outside>,
}

struct Outside {
    clock: Clock,
    metrics: Arc<Metrics>,
    bodies: Arc<ByteBudget>,
    /// The regions' names.
    names: Vec<String>,
    /// The route's.
    path: String,
    lines: RateLimiter,
}

impl Origin for Compressing {
    fn ask(
        &self,
        region: RegionId,
        mut request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        let codings = if request.method == Method::POST { self.of_many.clone() } else { Some(self.of_one.clone()) };
        let Some(codings) = codings else { return self.origin.ask(region, request, within) };
        codings.put(&mut Arc::make_mut(&mut request).headers);
        let (outside, until) = (self.outside.clone(), self.outside.clock.now() + within);
        let reply = self.origin.ask(region, request, within);
        async move {
            let mut reply = reply.await?;
            match codings.of_reply(&mut reply.headers) {
                Ok(Coding::Identity) => Ok(reply),
                _ if !has_body(reply.status) => {
                    uncoded(&mut reply.headers, None);
                    Ok(reply)
                }
                Ok(coding) => outside.plain(reply, codings, coding, within, until).await,
                Err(error) => Err(outside.refused(region, error, &reply.headers)),
            }
        }
        .boxed()
    }

    /// Passes a reply on in its coding, which its caller asked for.
    fn open(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Streamed, Failure>> {
        self.origin.open(region, request, within)
    }
}

impl Outside {
    /// The reply without its coding.
    async fn plain(
        self: &Arc<Self>,
        mut reply: Reply,
        codings: Arc<Codings>,
        coding: Coding,
        within: Duration,
        until: Moment,
    ) -> Result<Reply, Failure> {
        let decoded = match self.at_once(&reply.body, &codings, coding) {
            Some(decoded) => decoded,
            None => {
                let (own, body) = (self.clone(), reply.body.clone());
                let work = on_blocking_pool(move || own.decoded(&body, &codings, coding, REPLY_BODY_BYTES));
                match tokio::time::timeout(until - self.clock.now(), work).await {
                    Ok(decoded) => decoded.unwrap_or(Err(CodingError::Damaged)),
                    Err(_) => return Err(Failure::Deadline { within, head: true }),
                }
            }
        };
        match decoded {
            Ok(body) => {
                uncoded(&mut reply.headers, Some(body.len()));
                reply.body = body;
                Ok(reply)
            }
            Err(error) => Err(self.refused(reply.region, error, &reply.headers)),
        }
    }

    /// Decoded content of a small body; `None` if that may be large.
    fn at_once(&self, body: &Bytes, codings: &Codings, coding: Coding) -> Option<Result<Bytes, CodingError>> {
        if body.len() > INLINE_DECODE_BYTES {
            return None;
        }
        match self.decoded(body, codings, coding, INLINE_DECODE_BYTES) {
            Err(CodingError::TooLarge) => None,
            decoded => Some(decoded),
        }
    }

    /// Within the budget of the bodies that are held.
    fn decoded(&self, body: &Bytes, codings: &Codings, coding: Coding, limit: usize) -> Result<Bytes, CodingError> {
        let began = self.clock.now();
        let mut reserved = self.bodies.reserve(0).ok_or(CodingError::NoRoom)?;
        let decoded = codings.decode(coding, body, limit, |bytes| reserved.grow_to(bytes as u64))?;
        let (work, word) = match coding {
            Coding::Gzip => (PayloadWork::DecompressGzip, ReplyCoding::Gzip),
            Coding::Zstd => (PayloadWork::DecompressZstd, ReplyCoding::Zstd),
            Coding::Dcz => (PayloadWork::DecompressDcz, ReplyCoding::Dcz),
            Coding::Identity => return Ok(decoded),
        };
        self.metrics.payload.payload_work(work, self.clock.now() - began, body.len());
        self.metrics.payload.decompressed(word, decoded.len());
        Ok(decoded)
    }

    /// A reply that cannot be decoded says nothing of its record. One that decodes to too much is too
    /// large to hold like any other: its caller may get it as it comes.
    fn refused(&self, region: RegionId, error: CodingError, headers: &HeaderMap) -> Failure {
        self.metrics.payload.undecodable(error.reason());
        if let Some(suppressed) = self.lines.admit(self.clock.now()) {
            let (region, route) = (&self.names[region.index()], &self.path);
            tracing::warn!(region, route, %error, suppressed, "a region's compressed reply cannot be used");
        }
        match error {
            CodingError::TooLarge => Failure::Oversized { limit: REPLY_BODY_BYTES as u64, announced: true },
            CodingError::NoMemory | CodingError::NoRoom => Failure::NoRoom,
            _ => Failure::Coding { why: error.reason().into_str(), stated: stated(headers) },
        }
    }
}

/// Value of `Content-Encoding` for a message: a region may write anything there.
fn stated(headers: &HeaderMap) -> Box<str> {
    let lines = headers.get_all(header::CONTENT_ENCODING).iter();
    let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
    lines.join(", ").escape_debug().take(OBSERVED_NAME_BYTES).collect::<String>().into()
}
