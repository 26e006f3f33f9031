//! Content codings: what comes out is what went in, never more than is allowed, and nothing else is
//! taken for it.

use std::io::Write;

use bytes::Bytes;
use http::{HeaderValue, header};
use proptest::prelude::*;

use super::body::stated_by_gzip;
use super::error::CodingError;
use super::*;
use crate::payload::limits::{DICTIONARY_BYTES, ZSTD_WINDOW_LOG};

const CODED: [Coding; 3] = [Coding::Gzip, Coding::Zstd, Coding::Dcz];
const LIMIT: usize = 1 << 20;
const RECORD: &[u8] = br#"{"icao":"ENGM","iata":"OSL","name":"Oslo Gardermoen","city":"Oslo","tz":"Europe/Oslo"}"#;
/// Beginning of a dictionary by `zstd --train`: a decoder that looks for it reads tables behind it.
const TRAINED: &[u8] = &[0x37, 0xa4, 0x30, 0xec, 1, 2, 3, 4];

fn dictionary_of(content: &[u8]) -> Dictionary {
    let wrong = Dictionary::read(content.to_vec(), &"0".repeat(64)).unwrap_err();
    let DictionaryError::OtherHash { found } = wrong else { panic!("{wrong}") };
    Dictionary::read(content.to_vec(), &found).unwrap()
}

fn dictionary() -> Dictionary {
    dictionary_of(br#"{"icao":"ENBR","iata":"BGO","name":"Bergen Flesland","city":"Bergen","tz":"Europe/Oslo"}"#)
}

fn coded(coding: Coding, content: &[u8]) -> Bytes {
    encode(coding, &Bytes::copy_from_slice(content), 3, Some(&dictionary())).unwrap()
}

fn decoded(coding: Coding, body: impl Into<Bytes>, limit: usize) -> Result<Bytes, CodingError> {
    decode(coding, &body.into(), limit, Some(&dictionary()))
}

fn of(lines: &[&str]) -> Result<Coding, CodingError> {
    Coding::of(
        &lines
            .iter()
            .map(|line| (header::CONTENT_ENCODING, HeaderValue::from_bytes(line.as_bytes()).unwrap()))
            .collect(),
    )
}

#[test]
fn reply_has_stated_coding_or_identity() {
    for (lines, coding) in [
        (&[][..], Coding::Identity),
        (&["identity"], Coding::Identity),
        (&["", "identity, identity"], Coding::Identity),
        (&["gzip"], Coding::Gzip),
        (&["X-Gzip"], Coding::Gzip),
        (&["identity", "ZSTD"], Coding::Zstd),
        (&["dcz"], Coding::Dcz),
    ] {
        assert_eq!(of(lines), Ok(coding), "{lines:?}");
    }
}

#[test]
fn several_or_unrequested_codings_are_errors() {
    for lines in [&["gzip, zstd"][..], &["zstd", "zstd"], &["gzip, gzip, gzip, gzip, gzip"]] {
        assert_eq!(of(lines), Err(CodingError::Several), "{lines:?}");
    }
    for lines in [&["br"][..], &["deflate"], &["dcb"], &["gzip;q=1"], &["compress, gzip"], &["\u{fc}"]] {
        assert_eq!(of(lines), Err(CodingError::Unknown), "{lines:?}");
    }
}

#[test]
fn one_byte_over_limit_is_refused() {
    let content = RECORD.repeat(1000);
    for coding in [Coding::Identity, Coding::Gzip, Coding::Zstd, Coding::Dcz] {
        let body = coded(coding, &content);
        assert_eq!(decoded(coding, body.clone(), content.len()).unwrap(), content, "{coding:?}");
        assert_eq!(decoded(coding, body, content.len() - 1), Err(CodingError::TooLarge), "{coding:?}");
    }
}

#[test]
fn several_frames_form_one_content() {
    let (head, tail) = RECORD.split_at(30);
    for coding in CODED {
        let mut second = &coded(coding, tail)[..];
        if coding == Coding::Dcz {
            second = &second[dictionary::DCZ_HEADER_BYTES..];
        }
        let both = [&coded(coding, head)[..], second].concat();
        assert_eq!(decoded(coding, both.clone(), RECORD.len()).unwrap(), RECORD, "{coding:?}");
        assert_eq!(decoded(coding, both, RECORD.len() - 1), Err(CodingError::TooLarge), "{coding:?}");
    }
}

#[test]
fn skippable_frames_hold_nothing() {
    let skipped = [&[0x52, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"any"].concat();
    for coding in [Coding::Zstd, Coding::Dcz] {
        let body = coded(coding, RECORD);
        let at = if coding == Coding::Dcz { dictionary::DCZ_HEADER_BYTES } else { 0 };
        let body = [&body[..at], &skipped, &body[at..], &skipped].concat();
        assert_eq!(decoded(coding, body, LIMIT).unwrap(), RECORD, "{coding:?}");
    }
}

#[test]
fn truncated_body_is_error() {
    for coding in CODED {
        let body = coded(coding, RECORD);
        for length in 0..body.len() {
            assert!(decoded(coding, body.slice(..length), LIMIT).is_err(), "{coding:?}, {length} bytes");
        }
    }
}

#[test]
fn trailing_bytes_are_an_error() {
    for coding in CODED {
        for more in [&b"x"[..], b"\0", b"a whole sentence of it", RECORD] {
            let body = [&coded(coding, RECORD), more].concat();
            let error = decoded(coding, body, LIMIT).unwrap_err();
            assert!([CodingError::Damaged, CodingError::TooLarge].contains(&error), "{coding:?}: {error}");
        }
    }
}

#[test]
fn empty_content_must_still_be_coded() {
    assert_eq!(decoded(Coding::Identity, "", 0).unwrap(), "");
    for coding in CODED {
        assert_eq!(decoded(coding, "", LIMIT), Err(CodingError::Damaged), "{coding:?}");
        assert_eq!(decoded(coding, coded(coding, b""), 0).unwrap(), "", "{coding:?}");
    }
}

#[test]
fn decompression_bomb_is_too_large() {
    let zeros = vec![0; 64 << 20];
    for coding in CODED {
        let body = coded(coding, &zeros);
        assert!(body.len() < zeros.len() / 500, "{coding:?}: {} bytes", body.len());
        assert_eq!(decoded(coding, body, LIMIT), Err(CodingError::TooLarge), "{coding:?}");
    }
    let silent = zstd::encode_all(&zeros[..], 1).unwrap();
    assert_eq!(zstd_frames::stated(&silent), Ok(0));
    assert_eq!(decoded(Coding::Zstd, silent, LIMIT), Err(CodingError::TooLarge));
    // The last member states one byte.
    let members = [coded(Coding::Gzip, &zeros), coded(Coding::Gzip, b"x")].concat();
    assert_eq!(decoded(Coding::Gzip, members, LIMIT), Err(CodingError::TooLarge));
}

#[test]
fn impossible_stated_size_is_damage() {
    // One empty block in a frame that states 32 MiB, and four bytes at the end of a gzip member.
    let lie = [&[0x28, 0xb5, 0x2f, 0xfd, 0xa0][..], &(32_u32 << 20).to_le_bytes(), &[1, 0, 0]].concat();
    assert_eq!(zstd_frames::stated(&lie), Err(CodingError::Damaged), "before it is allocated");
    assert_eq!(decoded(Coding::Zstd, lie, usize::MAX), Err(CodingError::Damaged));
    let mut member = coded(Coding::Gzip, RECORD).to_vec();
    let at = member.len() - 4;
    member[at..].copy_from_slice(&(32_u32 << 20).to_le_bytes());
    assert_eq!(stated_by_gzip(&member), Err(CodingError::Damaged));
    assert_eq!(decoded(Coding::Gzip, member, usize::MAX), Err(CodingError::Damaged));
}

#[test]
fn oversized_stated_size_refused_before_decoding() {
    let content: Vec<u8> = (0..40_000_u32).flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for coding in CODED {
        // Nobody could decode this: its middle is gone.
        let mut body = coded(coding, &content).to_vec();
        let (from, to) = (body.len() / 3, body.len() / 2);
        body[from..to].fill(0);
        assert_eq!(decoded(coding, body.clone(), content.len() - 1), Err(CodingError::TooLarge), "{coding:?}");
        if coding == Coding::Gzip {
            assert_eq!(decoded(coding, body, content.len()), Err(CodingError::Damaged), "{coding:?}");
        }
    }
}

#[test]
fn window_beyond_8_mib_is_refused() {
    assert_eq!(decoded(Coding::Zstd, with_window(ZSTD_WINDOW_LOG, None), LIMIT).unwrap(), RECORD);
    assert_eq!(decoded(Coding::Zstd, with_window(ZSTD_WINDOW_LOG + 1, None), LIMIT), Err(CodingError::Window));
    // A frame with a window of its own that states its size: zstd decodes it without looking.
    let mut frame = with_window(ZSTD_WINDOW_LOG + 1, None);
    frame[4] |= 2 << 6;
    frame.splice(6..6, (RECORD.len() as u32).to_le_bytes());
    assert_eq!(decoded(Coding::Zstd, frame, LIMIT), Err(CodingError::Window));
}

fn with_window(log: u32, pledged: Option<u64>) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(log).unwrap();
    encoder.set_pledged_src_size(pledged).unwrap();
    encoder.write_all(RECORD).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn no_level_exceeds_8_mib_window() {
    let content: Vec<u8> = (0..9_u32 << 18).flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let body = encode(Coding::Zstd, &content.clone().into(), 22, None).unwrap();
    assert_eq!(decoded(Coding::Zstd, body, content.len()).unwrap(), content);
}

#[test]
fn dcz_starts_with_dictionary_hash() {
    let body = coded(Coding::Dcz, RECORD);
    let (magic, rest) = body.split_at(8);
    assert_eq!(magic, [0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0]);
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, dictionary().content());
    assert_eq!(&rest[..32], hash.as_ref());
    assert!(rest.len() - 32 < coded(Coding::Zstd, RECORD).len() * 2 / 3, "{} bytes", rest.len() - 32);
}

#[test]
fn wrong_dictionary_is_refused_before_decoding() {
    let other = dictionary_of(b"something else");
    // Nothing behind the header could be decoded.
    let body = Bytes::from([&dictionary().header()[..], b"rubbish"].concat());
    for (dictionary, error) in [
        (Some(&other), CodingError::OtherDictionary),
        (None, CodingError::NoDictionary),
        (Some(&dictionary()), CodingError::Damaged),
    ] {
        assert_eq!(decode(Coding::Dcz, &body, LIMIT, dictionary), Err(error));
    }
    assert_eq!(encode(Coding::Dcz, &body, 3, None), Err(CodingError::NoDictionary));
    assert_eq!(decoded(Coding::Dcz, coded(Coding::Zstd, &RECORD.repeat(9)), LIMIT), Err(CodingError::Damaged));
}

#[test]
fn trained_dictionary_is_raw_content() {
    let trained = dictionary_of(&[TRAINED, RECORD].concat());
    let body = encode(Coding::Dcz, &Bytes::from_static(RECORD), 3, Some(&trained)).unwrap();
    assert!(body.len() < dictionary::DCZ_HEADER_BYTES + 20, "{} bytes", body.len());
    assert_eq!(decode(Coding::Dcz, &body, LIMIT, Some(&trained)).unwrap(), RECORD);
    // What is not meant: a decoder that looks for tables fails on these, or reads another thing.
    assert!(zstd::bulk::Decompressor::with_dictionary(&[TRAINED, RECORD].concat()).is_err());
}

#[test]
fn zstd_patch_from_frame_is_decoded() {
    // printf 'hello from a dictionary, hello' >d; printf 'hello from a dictionary, hello again' >c
    // zstd --patch-from=d c --stdout
    const FRAME: &[u8] = include_bytes!("tests/patch_from.zst");
    let dictionary = dictionary_of(b"hello from a dictionary, hello");
    let body = Bytes::from([&dictionary.header()[..], FRAME].concat());
    let content = decode(Coding::Dcz, &body, LIMIT, Some(&dictionary)).unwrap();
    assert_eq!(content, "hello from a dictionary, hello again");
}

#[test]
fn dictionary_needs_hash_and_size_bound() {
    const HASH: &str = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
    assert!(Dictionary::read("abc", HASH).is_ok() && Dictionary::read("abc", &HASH.to_lowercase()).is_ok());
    assert_eq!(
        Dictionary::read("abd", HASH),
        Err(DictionaryError::OtherHash {
            found: "a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9".into()
        })
    );
    for text in ["", &HASH[1..], &HASH.replace('B', "x"), &format!("{HASH} ")] {
        assert_eq!(Dictionary::read("abc", text), Err(DictionaryError::NotAHash), "{text}");
    }
    for size in [0, DICTIONARY_BYTES + 1] {
        assert_eq!(Dictionary::read(vec![0; size], HASH), Err(DictionaryError::Size(size)));
    }
}

#[test]
fn available_dictionary_is_hash_byte_sequence() {
    // The example of RFC 8941, 3.3.5, is of that form; the hash is that of "abc".
    let value = available_dictionary(&dictionary_of(b"abc"));
    assert_eq!(value, ":ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:");
}

proptest! {
    #[test]
    fn content_survives_every_coding_and_level(
        content in proptest::collection::vec(0_u8..8, 0..4096),
        level in -5..=25_i32,
    ) {
        let content = Bytes::from(content);
        for coding in CODED {
            let body = encode(coding, &content, level, Some(&dictionary())).unwrap();
            prop_assert_eq!(decoded(coding, body, content.len()).unwrap(), &content);
        }
    }

    #[test]
    fn arbitrary_bytes_decode_within_limit(
        mut body in proptest::collection::vec(any::<u8>(), 0..256),
        content in proptest::collection::vec(0_u8..2, 0..2048),
        limit in 0..2048_usize,
    ) {
        for coding in CODED {
            if let Ok(content) = decoded(coding, body.clone(), limit) {
                prop_assert!(content.len() <= limit);
            }
            // The same bytes over a body that is one.
            let mut coded = coded(coding, &content).to_vec();
            let at = body.first().map_or(0, |at| usize::from(*at)) % coded.len();
            coded[at] ^= body.pop().unwrap_or(1);
            if let Ok(content) = decoded(coding, coded, limit) {
                prop_assert!(content.len() <= limit);
            }
        }
    }
}
