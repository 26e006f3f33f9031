//! Signatures as botocore makes them, refusals of AWS's gateways, and regions' clocks.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use bytes::Bytes;
use http::Method;

use super::*;
use crate::credentials::keys::of_keys;
use crate::credentials::limits::UNSTATED_LIFE_OF_KEYS;
use crate::credentials::token::{Secret, Token};

/// 2015-08-30T12:36:00Z, the time of AWS's own examples.
const AT: Wall = Wall::from_millis(1_440_938_160_000);
const SCOPE: Scope<'_> =
    Scope { service: "execute-api", aws_region: "us-east-1", base: "https://api.example.com/live" };

fn keys(session: Option<&str>, expiry: Option<SystemTime>) -> Token {
    let (id, secret) = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    of_keys(Credentials::new(id, secret, session.map(str::to_owned), expiry, "test"), AT)
}

fn request(method: Method, target: &str, headers: &[(&str, &str)], body: &'static [u8]) -> Outgoing {
    let headers = headers
        .iter()
        .map(|(name, value)| (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap()));
    let (path_and_query, body) = (target.to_owned(), Bytes::from_static(body));
    Outgoing { method, path_and_query, headers: headers.collect(), body }
}

fn signed(mut request: Outgoing, session: Option<&str>, scope: &Scope<'_>) -> Outgoing {
    let Secret::Keys(keys) = keys(session, None).secret else { panic!("they are keys") };
    keys.sign(&mut request, scope, AT).unwrap();
    request
}

fn signature(request: &Outgoing) -> (&str, &str) {
    let value = request.headers[header::AUTHORIZATION].to_str().unwrap();
    let (signed, signature) = value.split_once(", Signature=").unwrap();
    (signed.split_once("SignedHeaders=").unwrap().1, signature)
}

/// The signatures are botocore's for the same requests.
#[test]
fn signatures_are_those_of_botocore() {
    let get = request(Method::GET, "/v1/contexts/a%20b?fields=b&fields=a&x", &[("accept", "*/*")], b"");
    let lines = [("content-type", "application/json"), ("x-amz-target", "one")];
    let post = request(Method::POST, "/batch", &lines, b"{\"keys\": [1]}");
    let get = signed(get, None, &SCOPE);
    assert_eq!(signature(&get), ("host;x-amz-content-sha256;x-amz-date", GET));
    let post = signed(post, Some("session"), &SCOPE);
    let all = "content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token;x-amz-target";
    assert_eq!(signature(&post), (all, POST));
    assert_eq!(post.headers["x-amz-security-token"], "session");
    assert_eq!(post.headers["x-amz-date"], "20150830T123600Z");
    for name in ["authorization", "x-amz-security-token"] {
        assert!(post.headers[name].is_sensitive(), "{name}");
    }
}

const GET: &str = "4c585a48545c6c4df2ae85d698183f55b77d8dfeca39bdc884a01e7a280ccb9f";
const POST: &str = "62d38c46685f91459685f9fc15c611cd6f3dd3e0e76d28378e99ec5aec995caa";

#[test]
fn callers_signatures_are_replaced() {
    let lines = [("authorization", "AWS4 theirs"), ("x-amz-date", "then"), ("x-amz-security-token", "theirs")];
    let with = signed(request(Method::GET, "/a", &lines, b""), None, &SCOPE);
    let without = signed(request(Method::GET, "/a", &[], b""), None, &SCOPE);
    assert_eq!(with.headers, without.headers);
}

#[test]
fn lattice_is_sent_unsigned_bodies() {
    let scope = Scope { service: LATTICE, ..SCOPE };
    let signed = signed(request(Method::POST, "/batch", &[], b"body"), None, &scope);
    assert_eq!(signed.headers["x-amz-content-sha256"], "UNSIGNED-PAYLOAD");
}

#[test]
fn unusable_target_is_not_signed() {
    let Secret::Keys(keys) = keys(None, None).secret else { panic!("they are keys") };
    assert!(keys.sign(&mut request(Method::GET, "/a b", &[], b""), &SCOPE, AT).is_none());
}

#[test]
fn keys_live_until_their_end() {
    let end = AT.to_system_time() + Duration::from_mins(20);
    assert_eq!(keys(None, Some(end)).life, Duration::from_mins(20));
    assert_eq!(keys(None, None).life, UNSTATED_LIFE_OF_KEYS);
    let shown = keys(None, Some(end)).claims.to_string();
    assert_eq!(shown, "requests are signed with the AWS keys AKIDEXAMPLE, exp 2015-08-30T12:56:00Z");
}

/// The status that an answer of this type counts as.
fn counted(status: u16, kind: &'static str) -> u16 {
    let headers = HeaderMap::from_iter([(ERROR_TYPE, HeaderValue::from_static(kind))]);
    refusal(StatusCode::from_u16(status).unwrap(), &headers).as_u16()
}

#[test]
fn refused_keys_count_as_refused() {
    for kind in ["ExpiredTokenException", "UnrecognizedClientException", "InvalidSignatureException:x"] {
        assert_eq!([counted(403, kind), counted(400, kind)], [401, 400], "{kind}");
    }
    assert_eq!([counted(403, "AccessDeniedException"), counted(403, ""), counted(401, "")], [403, 403, 401]);
}

/// Answers with this `Date`, so many seconds from [`AT`].
fn learnt(clocks: &Clocks, status: u16, seconds: i64) -> bool {
    let there = Wall::from_millis(AT.as_millis().checked_add_signed(seconds * 1_000).unwrap());
    let date = HeaderValue::try_from(httpdate::fmt_http_date(there.to_system_time())).unwrap();
    let status = StatusCode::from_u16(status).unwrap();
    clocks.learn(RegionId(0), status, &HeaderMap::from_iter([(header::DATE, date)]), AT)
}

#[test]
fn refusals_show_a_regions_clock() {
    let clocks = Clocks::default();
    assert!(!learnt(&clocks, 200, 900) && !learnt(&clocks, 403, 200) && !learnt(&clocks, 403, -200));
    assert_eq!(clocks.at(RegionId(0), AT), AT);
    assert!(learnt(&clocks, 403, -900));
    assert_eq!(clocks.at(RegionId(0), AT).since(Wall::from_millis(0)).as_secs(), AT.as_millis() / 1_000 - 900);
    assert_eq!(clocks.at(RegionId(1), AT), AT, "another region's");
    assert!(!learnt(&clocks, 403, -905), "it is known");
    assert!(learnt(&clocks, 401, 0));
    assert_eq!(clocks.at(RegionId(0), AT), AT);
}
