//! Headers of a request that are known to change nothing in its answer, one table with the reason
//! for each.
//!
//! A cache that leaves out a header gives every caller the answer to the request without it. That is
//! right only where the header says nothing about what is asked for. Whatever is not in the table
//! may matter. `docs/decisions/0031-inert-headers.md` says how it was drawn up.

use http::header::HeaderName;
use http::{HeaderMap, header};

use crate::config::grants_version::GRANTS_VERSION_NAME;
use crate::config::record_floor::RECORD_FLOOR_NAME;

/// Why a header of a caller need not reach a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inert {
    /// Part of every key already.
    Keyed,
    /// Dealt with by HTTP or by the sidecar itself: framing, one hop, caches, conditions, ranges.
    /// No region gets a caller's through the store.
    Handled,
    /// Describes the caller's software, its traces, or the way to here, not what is asked for.
    Descriptive,
}

use Inert::{Descriptive, Handled, Keyed};

/// A name, or the beginning of names if it ends with `*`; why it changes nothing; and what it is.
type Row = (&'static str, Inert, &'static str);

/// Rows in the order of their names, so that one is found by bisection.
pub const NAMES: &[Row] = &[
    ("accept", Keyed, "content negotiation, part of every key"),
    ("accept-encoding", Keyed, "content negotiation, part of every key"),
    ("amz-sdk-invocation-id", Descriptive, "AWS SDKs: the number of a call"),
    ("amz-sdk-request", Descriptive, "AWS SDKs: the number of a try"),
    ("available-dictionary", Keyed, "RFC 9842: content negotiation, which with regions is the sidecar's own"),
    ("b3", Descriptive, "Zipkin trace"),
    ("baggage", Descriptive, "W3C trace baggage"),
    ("cache-control", Handled, "what the caller asks of caches"),
    ("cdn-loop", Descriptive, "RFC 8586: proxies that were passed"),
    ("cf-ew-via", Descriptive, "Cloudflare: loop detection"),
    ("cf-ray", Descriptive, "Cloudflare: the number of a request"),
    ("client-request-id", Descriptive, "the number of a request"),
    ("connection", Handled, "one hop"),
    ("content-encoding", Handled, "describes a body"),
    ("content-language", Handled, "describes a body"),
    ("content-length", Handled, "describes a body"),
    ("content-type", Handled, "describes a body; requests with one are passed on"),
    ("correlation-context", Descriptive, "Application Insights baggage"),
    ("correlation-id", Descriptive, "the number of a request"),
    ("date", Descriptive, "when it was sent"),
    ("dictionary-id", Keyed, "RFC 9842: content negotiation, which with regions is the sidecar's own"),
    ("dnt", Descriptive, "a wish about tracking"),
    ("elastic-apm-traceparent", Descriptive, "Elastic trace"),
    ("expect", Handled, "one hop"),
    ("from", Descriptive, "RFC 9110, 10.1.2: not for access control"),
    ("grpc-accept-encoding", Handled, "codings of gRPC messages"),
    ("grpc-encoding", Handled, "codings of gRPC messages"),
    ("grpc-tags-bin", Descriptive, "OpenCensus tags"),
    ("grpc-timeout", Descriptive, "how long the caller waits"),
    ("grpc-trace-bin", Descriptive, "OpenCensus trace"),
    ("grpcgateway-accept-encoding", Descriptive, "grpc-gateway: of the request before it"),
    ("grpcgateway-user-agent", Descriptive, "grpc-gateway: of the request before it"),
    ("host", Handled, "a region gets its own"),
    ("http2-settings", Handled, "one hop"),
    ("if-match", Handled, "a condition"),
    ("if-modified-since", Handled, "a condition"),
    ("if-none-match", Handled, "a condition"),
    ("if-range", Handled, "a condition"),
    ("if-unmodified-since", Handled, "a condition"),
    ("jaeger-baggage", Descriptive, "Jaeger trace"),
    ("jaeger-debug-id", Descriptive, "Jaeger trace"),
    ("keep-alive", Handled, "one hop"),
    ("l5d-ctx-deadline", Descriptive, "Linkerd: how long the caller waits"),
    ("l5d-ctx-trace", Descriptive, "Linkerd trace"),
    ("l5d-dst-canonical", Descriptive, "Linkerd: where it was sent"),
    ("l5d-orig-proto", Handled, "Linkerd: the version of HTTP"),
    ("max-forwards", Handled, "one hop; of OPTIONS and TRACE"),
    ("newrelic", Descriptive, "New Relic trace"),
    ("pragma", Handled, "what the caller asks of caches"),
    ("priority", Descriptive, "RFC 9218: the order of replies"),
    ("proxy-authorization", Handled, "one hop"),
    ("proxy-connection", Handled, "one hop"),
    ("range", Handled, "a range is passed on"),
    ("referer", Descriptive, "RFC 9110, 10.1.3: for statistics"),
    ("request-context", Descriptive, "Application Insights trace"),
    ("request-id", Descriptive, "Application Insights trace"),
    ("sec-ch-ua", Descriptive, "the caller's software, as User-Agent"),
    ("sec-gpc", Descriptive, "a wish about tracking"),
    ("sentry-trace", Descriptive, "Sentry trace"),
    ("singularityheader", Descriptive, "AppDynamics trace"),
    ("sw8", Descriptive, "SkyWalking trace"),
    ("sw8-correlation", Descriptive, "SkyWalking trace"),
    ("sw8-x", Descriptive, "SkyWalking trace"),
    ("te", Handled, "one hop"),
    ("traceparent", Descriptive, "W3C trace; goes along"),
    ("tracestate", Descriptive, "W3C trace"),
    ("trailer", Handled, "one hop"),
    ("transfer-encoding", Handled, "one hop"),
    ("uber-trace-id", Descriptive, "Jaeger trace"),
    ("upgrade", Handled, "one hop"),
    ("upgrade-insecure-requests", Descriptive, "a browser's wish for https"),
    ("user-agent", Descriptive, "the caller's software; goes along"),
    ("via", Descriptive, "proxies that were passed"),
    ("x-amz-cf-id", Descriptive, "CloudFront: the number of a request"),
    ("x-amz-user-agent", Descriptive, "the caller's software, as User-Agent"),
    ("x-amzn-requestid", Descriptive, "AWS: the number of a request"),
    ("x-amzn-tls-cipher-suite", Descriptive, "load balancer: the connection to it"),
    ("x-amzn-tls-version", Descriptive, "load balancer: the connection to it"),
    ("x-amzn-trace-id", Descriptive, "X-Ray trace"),
    ("x-client-trace-id", Descriptive, "Envoy trace"),
    ("x-cloud-trace-context", Descriptive, "Google Cloud trace"),
    ("x-correlation-id", Descriptive, "the number of a request"),
    ("x-dynatrace", Descriptive, "Dynatrace trace"),
    ("x-envoy-attempt-count", Descriptive, "Envoy: the number of a try"),
    ("x-envoy-decorator-operation", Descriptive, "Envoy: the name of a span"),
    ("x-envoy-expected-rq-timeout-ms", Descriptive, "Envoy: how long the caller waits"),
    ("x-envoy-force-trace", Descriptive, "Envoy trace"),
    ("x-envoy-hedge-on-per-try-timeout", Handled, "Envoy: how a hop tries again"),
    ("x-envoy-is-timeout-retry", Descriptive, "Envoy: the number of a try"),
    ("x-envoy-max-retries", Handled, "Envoy: how a hop tries again"),
    ("x-envoy-peer-metadata", Descriptive, "Istio: the caller's workload, for metrics"),
    ("x-envoy-peer-metadata-id", Descriptive, "Istio: the caller's workload, for metrics"),
    ("x-envoy-retriable-header-names", Handled, "Envoy: how a hop tries again"),
    ("x-envoy-retriable-status-codes", Handled, "Envoy: how a hop tries again"),
    ("x-envoy-retry-grpc-on", Handled, "Envoy: how a hop tries again"),
    ("x-envoy-retry-on", Handled, "Envoy: how a hop tries again"),
    ("x-envoy-upstream-alt-stat-name", Descriptive, "Envoy: the name of a metric"),
    ("x-envoy-upstream-rq-per-try-timeout-ms", Handled, "Envoy: how a hop tries again"),
    ("x-envoy-upstream-rq-timeout-ms", Handled, "Envoy: how long a hop waits"),
    (GRANTS_VERSION_NAME, Handled, "the sidecar's own"),
    ("x-ms-client-request-id", Descriptive, "Azure: the number of a request"),
    ("x-nearside-token", Handled, "the sidecar's own"),
    ("x-ot-span-context", Descriptive, "OpenTracing trace"),
    ("x-queue-start", Descriptive, "when a proxy took it"),
    (RECORD_FLOOR_NAME, Handled, "the sidecar's own"),
    ("x-request-id", Descriptive, "the number of a request; goes along"),
    ("x-request-start", Descriptive, "when a proxy took it"),
    ("x-trace-id", Descriptive, "the number of a trace"),
    ("x-vcap-request-id", Descriptive, "Cloud Foundry: the number of a request"),
];

/// Beginnings of names that belong to one maker, who says that they are for this alone.
pub const PREFIXES: &[Row] = &[
    ("ot-baggage-*", Descriptive, "OpenTracing trace"),
    ("ot-tracer-*", Descriptive, "OpenTracing trace"),
    ("sec-ch-ua-*", Descriptive, "the caller's software, as User-Agent"),
    ("sec-fetch-*", Descriptive, "a browser's reason to ask; other sites are refused by it"),
    ("uberctx-*", Descriptive, "Jaeger baggage"),
    ("x-b3-*", Descriptive, "Zipkin trace"),
    ("x-datadog-*", Descriptive, "Datadog trace"),
    ("x-instana-*", Descriptive, "Instana trace"),
    ("x-newrelic-*", Descriptive, "New Relic trace"),
];

/// Why a header with this name changes nothing; `None` if it may matter.
pub fn why(name: &HeaderName) -> Option<Inert> {
    let text = name.as_str();
    if let Ok(at) = NAMES.binary_search_by(|(known, ..)| (*known).cmp(text)) {
        return Some(NAMES[at].1);
    }
    PREFIXES
        .iter()
        .find(|(prefix, ..)| text.as_bytes().starts_with(&prefix.as_bytes()[..prefix.len() - 1]))
        .map(|(_, why, _)| *why)
}

/// True if a header with this name changes nothing. Of those that most callers send it is known
/// without a look into the table: HTTP/2 asks this of each line of each request.
#[inline]
pub fn is_inert(name: &HeaderName) -> bool {
    match *name {
        header::HOST
        | header::ACCEPT
        | header::ACCEPT_ENCODING
        | header::USER_AGENT
        | header::CONNECTION
        | header::CONTENT_LENGTH
        | header::CONTENT_TYPE
        | header::CACHE_CONTROL
        | header::PRAGMA
        | header::IF_NONE_MATCH
        | header::IF_MODIFIED_SINCE
        | header::REFERER
        | header::VIA
        | header::TE => true,
        header::AUTHORIZATION | header::COOKIE => false,
        _ => why(name).is_some(),
    }
}

/// The names of headers that may matter to a region, whatever its routes say.
///
/// `Accept-Language: *` takes any language, as a request without it does (RFC 9110, 12.5.4): Node's
/// `fetch` sends it always.
pub fn that_matter(headers: &HeaderMap) -> impl Iterator<Item = &HeaderName> {
    headers
        .keys()
        .filter(move |name| !is_inert(name) && (**name != header::ACCEPT_LANGUAGE || !takes_any_language(headers)))
}

fn takes_any_language(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT_LANGUAGE).iter().all(|line| line.as_bytes() == b"*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_for_bisection() {
        assert!(NAMES.is_sorted_by(|one, other| one.0 < other.0));
        assert!(PREFIXES.iter().all(|(prefix, ..)| prefix.ends_with("-*") && prefix.len() > "x-*".len()));
        for (name, kind, _) in NAMES {
            assert_eq!(why(&HeaderName::from_static(name)), Some(*kind), "{name}");
            assert!(is_inert(&HeaderName::from_static(name)), "{name}");
        }
    }

    #[test]
    fn answer_changing_headers_are_not_inert() {
        for name in [
            "x-tenant",
            "x-api-key",
            "authorization",
            "cookie",
            "accept-language",
            "origin",
            "forwarded",
            "x-forwarded-for",
            "x-forwarded-host",
            "x-forwarded-proto",
            "x-forwarded-client-cert",
            "x-real-ip",
            "cf-ipcountry",
            "x-envoy-external-address",
            "x-envoy-internal",
            "l5d-client-id",
            "sec-ch-prefers-color-scheme",
            "save-data",
            "prefer",
            "x-requested-with",
            "x-amz-date",
            "x-b3",
            "x-http-method-override",
        ] {
            assert_eq!(why(&HeaderName::from_static(name)), None, "{name}");
            assert!(!is_inert(&HeaderName::from_static(name)), "{name}");
        }
    }

    #[test]
    fn wildcard_language_equals_none() {
        let cases: [(&[&'static str], usize); 5] =
            [(&[], 0), (&["*"], 0), (&["de"], 1), (&["*", "de"], 1), (&["*;q=0.5"], 1)];
        for (lines, count) in cases {
            let lines = lines.iter().map(|line| (header::ACCEPT_LANGUAGE, http::HeaderValue::from_static(line)));
            assert_eq!(that_matter(&lines.collect()).count(), count);
        }
    }
}
