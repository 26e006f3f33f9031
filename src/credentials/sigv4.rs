//! Signatures of AWS (Signature Version 4) on what is sent to a region, for services behind AWS's
//! gateways.
//!
//! `host`, the `x-amz-` headers and `content-type` are signed, as AWS asks for, and the body's hash;
//! other headers are not, since whatever stands in front of a gateway may change them.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::limits::CLOCK_DIFFERENCE;
use crate::http::exchange::Outgoing;
use crate::model::ids::RegionId;
use crate::model::time::Wall;
use crate::protocol::limits::REGIONS;

/// Beginning of the names of AWS's own headers.
const OF_AWS: &str = "x-amz-";
/// Service whose requests are signed without their bodies, which it does not read.
const LATTICE: &str = "vpc-lattice-svcs";
/// Service that takes paths as they are written.
const S3: &str = "s3";
const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");
/// Beginnings of the error types by which AWS refuses keys, and not what they ask for.
const REFUSED_KEYS: [&str; 4] = ["ExpiredToken", "InvalidClientTokenId", "InvalidSignature", "UnrecognizedClient"];

/// AWS keys that sign. They have no `Debug`.
pub struct SigningKeys(pub(super) Identity);

/// Service and place for which a request is signed.
pub struct Scope<'s> {
    pub service: &'s str,
    pub aws_region: &'s str,
    /// The region's own base URL, without a trailing slash.
    pub base: &'s str,
}

impl SigningKeys {
    /// Signs the request as it is. `None` if it cannot be sent at all.
    pub fn sign(&self, request: &mut Outgoing, scope: &Scope<'_>, at: Wall) -> Option<()> {
        let headers = &mut request.headers;
        // A caller's own: they would speak of another signature.
        for name in ["authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"] {
            headers.remove(name);
        }
        let uri = format!("{}{}", scope.base, request.path_and_query);
        let signed =
            headers.iter().filter(|(name, _)| name.as_str().starts_with(OF_AWS) || **name == header::CONTENT_TYPE);
        let signed = signed.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let body = match scope.service {
            LATTICE => SignableBody::UnsignedPayload,
            _ => SignableBody::Bytes(&request.body),
        };
        let params = v4::SigningParams::builder()
            .identity(&self.0)
            .region(scope.aws_region)
            .name(scope.service)
            .time(at.to_system_time())
            .settings(settings(scope.service))
            .build()
            .ok()?
            .into();
        let signable = SignableRequest::new(request.method.as_str(), uri, signed, body).ok()?;
        let (instructions, _) = sign(signable, &params).ok()?.into_parts();
        for added in instructions.into_parts().0 {
            let mut value = HeaderValue::from_str(added.value()).ok()?;
            value.set_sensitive(added.sensitive() || added.name() == header::AUTHORIZATION);
            request.headers.insert(added.name(), value);
        }
        Some(())
    }
}

fn settings(service: &str) -> SigningSettings {
    let mut settings = SigningSettings::default();
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    if service == S3 {
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    }
    settings
}

/// The status by which AWS refuses keys: a 401, which its gateways write as a 403 of a type of its own.
pub fn refusal(status: StatusCode, headers: &HeaderMap) -> StatusCode {
    let kind = headers.get(&ERROR_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_of_keys = REFUSED_KEYS.iter().any(|begins| kind.starts_with(begins));
    if status == StatusCode::FORBIDDEN && is_of_keys { StatusCode::UNAUTHORIZED } else { status }
}

/// Differences between the regions' clocks and this machine's, in milliseconds: AWS takes no signature
/// whose time is off by more than 5 minutes.
#[derive(Default)]
pub(super) struct Clocks([AtomicI64; REGIONS]);

impl Clocks {
    /// The time at the region.
    pub(super) fn at(&self, region: RegionId, now: Wall) -> Wall {
        let ahead = self.0[region.index()].load(Ordering::Relaxed);
        Wall::from_millis(now.as_millis().saturating_add_signed(ahead))
    }

    /// Sets the region's clock by an answer that refuses a signature, if it was far from that; returns
    /// whether it was.
    pub(super) fn learn(&self, region: RegionId, status: StatusCode, headers: &HeaderMap, now: Wall) -> bool {
        let is_refused = matches!(status, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED);
        let date = headers.get(header::DATE).filter(|_| is_refused).and_then(|date| date.to_str().ok());
        let Some(there) = date.and_then(|date| httpdate::parse_http_date(date).ok()) else { return false };
        let (there, signed) = (Wall::from_system_time(there), self.at(region, now));
        if there.since(signed).max(signed.since(there)) < CLOCK_DIFFERENCE {
            return false;
        }
        let ahead = i128::from(there.as_millis()) - i128::from(now.as_millis());
        self.0[region.index()].store(i64::try_from(ahead).unwrap_or_default(), Ordering::Relaxed);
        let seconds = Duration::from_millis(ahead.unsigned_abs() as u64).as_secs();
        tracing::warn!(seconds, "this machine's clock differs from a region's, which signatures go by now; set it");
        true
    }
}

#[cfg(test)]
mod tests;
