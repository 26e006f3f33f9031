//! Digests: same content, same digest, whatever its codings.

use std::io::Write;

use flate2::Compression;
use http::HeaderValue;
use proptest::prelude::*;

use super::*;

const CONTENT: &[u8] = b"{\"tenant\":\"t-1\",\"plan\":\"gold\",\"plan again\":\"gold\"}";
/// An uncompressed brotli stream. Compressing `CONTENT` would need the reference encoder; this is
/// enough.
fn brotli_stored(content: &[u8]) -> Vec<u8> {
    // RFC 7932, 9.1 and 9.2: WBITS 16 is one 0 bit; then per meta-block ISLAST=0, MNIBBLES=4 (00),
    // MLEN-1 in 16 bits, ISUNCOMPRESSED=1, padding to a byte; at the end ISLAST=1, ISLASTEMPTY=1.
    let length = (content.len() - 1) as u32;
    let head: u32 = length << 4 | 1 << 20;
    let mut coded = head.to_le_bytes()[..3].to_vec();
    coded.extend_from_slice(content);
    coded.push(0b11);
    coded
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn bare_deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn coded(coding: &str, body: Vec<u8>) -> u128 {
    let mut headers = HeaderMap::new();
    if !coding.is_empty() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_str(coding).unwrap());
    }
    digest(&Bytes::from(body), &headers)
}

#[test]
fn digest_is_independent_of_coding() {
    let plain = coded("", CONTENT.to_vec());
    assert_eq!(coded("identity", CONTENT.to_vec()), plain);
    assert_eq!(coded("gzip", gzip(CONTENT)), plain);
    assert_eq!(coded("X-GZIP", gzip(CONTENT)), plain);
    assert_eq!(coded("deflate", zlib(CONTENT)), plain);
    assert_eq!(coded("deflate", bare_deflate(CONTENT)), plain);
    assert_eq!(coded("br", brotli_stored(CONTENT)), plain);
    assert_eq!(coded("zstd", zstd::encode_all(CONTENT, 1).unwrap()), plain);
    assert_eq!(coded("gzip, zstd", zstd::encode_all(&gzip(CONTENT)[..], 1).unwrap()), plain);
}

#[test]
fn two_gzip_members_are_one_content() {
    let (head, tail) = CONTENT.split_at(10);
    let both = [gzip(head), gzip(tail)].concat();
    assert_eq!(coded("gzip", both), coded("", CONTENT.to_vec()));
}

#[test]
fn different_content_has_a_different_digest() {
    assert_ne!(coded("gzip", gzip(CONTENT)), coded("gzip", gzip(&CONTENT[1..])));
    assert_ne!(coded("", Vec::new()), coded("", vec![0]));
}

#[test]
fn undecodable_body_equals_only_itself() {
    for (coding, body) in [
        ("gzip", cut_short(gzip(CONTENT))),
        ("deflate", cut_short(zlib(CONTENT))),
        ("br", cut_short(brotli_stored(CONTENT))),
        ("zstd", cut_short(zstd::encode_all(CONTENT, 1).unwrap())),
        ("gzip", CONTENT.to_vec()),
        ("compress", CONTENT.to_vec()),
        ("gzip, gzip, gzip, gzip, gzip", gzip(&gzip(&gzip(&gzip(&gzip(CONTENT)))))),
    ] {
        assert_eq!(coded(coding, body.clone()), coded(coding, body.clone()), "{coding}");
        assert_ne!(coded(coding, body.clone()), coded("", body.clone()), "{coding}: not taken for plain content");
        assert_ne!(coded(coding, body), coded("", CONTENT.to_vec()), "{coding}");
    }
}

fn cut_short(body: Vec<u8>) -> Vec<u8> {
    body[..body.len() - 3].to_vec()
}

#[test]
fn bomb_is_hashed_raw_layers_bounded() {
    const LIMIT: u64 = 1 << 18;
    let zeros = vec![0; LIMIT as usize + 1];
    assert!(is_hashed_raw("zstd", zstd::encode_all(&zeros[..], 1).unwrap(), LIMIT));
    assert!(is_hashed_raw("gzip", gzip(&zeros), LIMIT));
    assert!(!is_hashed_raw("gzip", gzip(&zeros[1..]), LIMIT), "exactly the limit is decoded");
    // Thousands of empty gzip members decode to nothing; only a bound on the layer between catches
    // them.
    let member = gzip(b"");
    let members = member.repeat(LIMIT as usize / member.len() + 1);
    assert!(is_hashed_raw("gzip, zstd", zstd::encode_all(&members[..], 1).unwrap(), LIMIT));
}

fn is_hashed_raw(coding: &str, body: Vec<u8>, limit: u64) -> bool {
    let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, HeaderValue::from_str(coding).unwrap())]);
    let body = Bytes::from(body);
    digest_within(&body, &headers, limit) == raw(&body, &headers)
}

#[test]
fn zstd_huge_window_is_refused() {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(limits::ZSTD_WINDOW_LOG + 1).unwrap();
    encoder.write_all(CONTENT).unwrap();
    let body = encoder.finish().unwrap();
    assert_ne!(coded("zstd", body), coded("", CONTENT.to_vec()));
}

proptest! {
    #[test]
    fn arbitrary_bytes_have_one_digest(
        body in proptest::collection::vec(any::<u8>(), 0..512),
        coding in prop_oneof![Just("gzip"), Just("deflate"), Just("br"), Just("zstd"), Just("br, gzip"), Just("x")],
    ) {
        prop_assert_eq!(coded(coding, body.clone()), coded(coding, body));
    }

    #[test]
    fn any_content_survives_every_coding(content in proptest::collection::vec(any::<u8>(), 1..2048)) {
        let plain = coded("", content.clone());
        prop_assert_eq!(coded("gzip", gzip(&content)), plain);
        prop_assert_eq!(coded("deflate", zlib(&content)), plain);
        prop_assert_eq!(coded("br", brotli_stored(&content)), plain);
        prop_assert_eq!(coded("zstd", zstd::encode_all(&content[..], 1).unwrap()), plain);
    }
}

#[test]
fn json_digest_follows_its_value() {
    let one = json_digest("{\"a\":1,\"b\":[true,null]}");
    assert_eq!(json_digest("{ \"b\": [ true, null ],\n\t\"a\": 1 }\n"), one);
    for other in
        ["{\"a\":2,\"b\":[true,null]}", "{\"a\":1,\"b\":[null,true]}", "{\"a\":1}", "{\"a\":1,", "\u{feff}{\"a\":1}"]
    {
        assert_ne!(json_digest(other), one, "{other}");
    }
    let [spaced, dense] = ["{\"a\": 1}", "{\"a\":1}"].map(|text| digest_of_meaning(&text.into(), &HeaderMap::new()));
    assert_ne!(spaced, dense, "nobody says that it is JSON");
}

fn json_digest(text: &'static str) -> Option<u128> {
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    digest_of_meaning(&Bytes::from_static(text.as_bytes()), &headers)
}

/// Digest of the meaning of JSON under this coding.
fn json_under(coding: &str, body: Vec<u8>) -> Option<u128> {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CONTENT_ENCODING, coding)];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_str(value).unwrap()));
    digest_of_meaning(&Bytes::from(body), &HeaderMap::from_iter(headers))
}

#[test]
fn json_meaning_is_independent_of_coding() {
    const REORDERED: &[u8] = b"{ \"plan again\": \"gold\", \"plan\": \"gold\", \"tenant\": \"t-1\" }\n";
    let plain = json_under("identity", CONTENT.to_vec());
    assert!(plain.is_some());
    for (coding, body) in [
        ("gzip", gzip(REORDERED)),
        ("deflate", zlib(REORDERED)),
        ("br", brotli_stored(REORDERED)),
        ("zstd", zstd::encode_all(REORDERED, 1).unwrap()),
        ("gzip, zstd", zstd::encode_all(&gzip(REORDERED)[..], 1).unwrap()),
    ] {
        assert_eq!(json_under(coding, body), plain, "{coding}");
    }
    assert_ne!(json_under("gzip", gzip(b"{\"tenant\":\"t-2\"}")), plain);
}

#[test]
fn json_size_limit_ignores_coding() {
    for (len, is_read) in [(limits::JSON_DIGEST_BYTES, true), (limits::JSON_DIGEST_BYTES + 1, false)] {
        let space = " ".repeat(len - 3);
        let (before, after) = (format!("[{space}1]").into_bytes(), format!("[1{space}]").into_bytes());
        let meant = json_under("identity", before.clone());
        assert_eq!(json_under("gzip", gzip(&before)), meant, "{len}");
        assert_eq!(json_under("identity", after.clone()) == meant, is_read, "{len}");
        assert_eq!(json_under("gzip", gzip(&after)) == meant, is_read, "{len}");
    }
}

#[test]
fn undecodable_json_means_nothing() {
    let cut = gzip(CONTENT)[..20].to_vec();
    for (coding, body) in [("gzip", cut), ("compress", CONTENT.to_vec()), ("dcz", CONTENT.to_vec())] {
        assert_eq!(json_under(coding, body), None, "{coding}");
    }
}
