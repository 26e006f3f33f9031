//! Announcements in JSON and Protobuf, both ways, and what is refused.

use proptest::prelude::*;

use super::*;

fn changed(version: Option<u64>) -> Announcement {
    Announcement {
        record_type: "context".into(),
        key: "acme".into(),
        kind: AnnouncementKind::Changed { version },
        numbered: None,
        ingested_at: None,
    }
}

#[test]
fn type_key_and_version_suffice() {
    let plain = decode(r#"{"recordType":"context","key":"acme","version":7}"#);
    assert_eq!(plain, Ok(changed(Some(7))));
    assert_eq!(decode(r#"{"recordType":"context","key":"acme"}"#), Ok(changed(None)));
}

#[test]
fn both_spellings_and_forms_are_read() {
    let expected = Announcement {
        numbered: Some(Numbered { publisher: "p1".into(), sequence: 12 }),
        ingested_at: Some(Wall::from_millis(1_795_237_200_123)),
        ..changed(Some(9_007_199_254_740_993))
    };
    let camel = r#"{"recordType":"context","key":"acme","version":"9007199254740993","kind":"CHANGED",
        "publisher":"p1","sequence":"12","ingestedAt":"2026-11-21T05:00:00.123Z","somethingNew":{"a":[1]}}"#;
    let snake = r#" {"record_type":"context","key":"acme","version":9007199254740993,"kind":1,
        "publisher":"p1","sequence":12.0,"ingested_at":"2026-11-21T06:00:00.123456+01:00"} "#;
    assert_eq!(decode(camel), Ok(expected.clone()));
    assert_eq!(decode(snake), Ok(expected));
}

#[test]
fn version_is_exact_and_never_fractional() {
    for (text, version) in [
        ("9007199254740993.0", 9_007_199_254_740_993),
        ("9007199254740993e0", 9_007_199_254_740_993),
        ("9223372036854775807.0", i64::MAX as u64),
        ("1e18", 1_000_000_000_000_000_000),
        ("12.0", 12),
        (r#""1\u0032""#, 12),
    ] {
        assert_eq!(decode_version(text), Ok(changed(Some(version))), "{text}");
    }
    for zero in ["0", "-0", "0.0", "0e999999999", r#""0""#] {
        assert_eq!(decode_version(zero), Ok(changed(None)), "{zero}");
    }
    for text in [
        "9007199254740992.5",
        "4503599627370496.25",
        "1.0000000000000000001",
        "1e-400",
        "9223372036854775808.0",
        "1e19",
        "1e999999999",
        "1e99999999999999999999",
        r#""1e3""#,
        r#""1.0""#,
        r#""""#,
        "true",
        "[1]",
        "{}",
    ] {
        assert_eq!(decode_version(text), Err(Undecodable::WrongType("version")), "{text}");
    }
    for text in ["01", "+1", "1.", "1e", "\"1", "[1}", ""] {
        assert_eq!(decode_version(text), Err(Undecodable::NotJson), "{text}");
    }
}

/// Decodes an announcement whose version is written like this.
fn decode_version(version: &str) -> Result<Announcement, Undecodable> {
    decode(&format!(r#"{{"recordType":"context","key":"acme","version": {version} }}"#))
}

#[test]
fn null_is_default_of_every_field() {
    let text = r#"{"recordType":"context","key":"acme","version":null,"kind":null,"publisher":null,
        "sequence":null,"ingestedAt":null,"ingestedThrough":null,"signingOff":null}"#;
    assert_eq!(decode(text), Ok(changed(None)));
}

#[test]
fn negative_versions_mean_deleted_reload_reset() {
    assert_eq!(decode_version("-1").unwrap().kind, AnnouncementKind::Deleted { version: None });
    assert_eq!(decode_version("-2").unwrap().kind, AnnouncementKind::Reload);
    assert_eq!(decode_version("-3").unwrap().kind, AnnouncementKind::Reset);
    assert_eq!(decode_version("-4"), Err(Undecodable::NegativeVersion));
}

#[test]
fn a_tombstone_keeps_its_version() {
    let text = r#"{"recordType":"context","key":"acme","version":8,"kind":"DELETED"}"#;
    assert_eq!(decode(text).unwrap().kind, AnnouncementKind::Deleted { version: Some(8) });
}

#[test]
fn reload_rejects_key_without_type() {
    for text in [r#"{"kind":"RELOAD"}"#, r#"{"kind":3,"recordType":"a"}"#, r#"{"kind":3,"recordType":"a","key":"b"}"#]
    {
        assert_eq!(decode(text).unwrap().kind, AnnouncementKind::Reload, "{text}");
    }
    assert_eq!(decode(r#"{"kind":"RELOAD","key":"b"}"#), Err(Undecodable::NoRecord));
}

#[test]
fn change_without_record_is_undecodable() {
    for text in [r#"{}"#, r#"{"key":"acme","version":1}"#, r#"{"recordType":"a","kind":"DELETED"}"#] {
        assert_eq!(decode(text), Err(Undecodable::NoRecord), "{text}");
    }
}

#[test]
fn heartbeat_needs_no_record_or_number() {
    let text = r#"{"kind":"HEARTBEAT","publisher":"p1","ingestedThrough":"2026-11-21T05:00:00Z","signingOff":true}"#;
    let heartbeat = decode(text).unwrap();
    assert_eq!(heartbeat.numbered, Some(Numbered { publisher: "p1".into(), sequence: 0 }));
    let through = Some(Wall::from_millis(1_795_237_200_000));
    assert_eq!(heartbeat.kind, AnnouncementKind::Heartbeat { ingested_through: through, signing_off: true });
    assert_eq!(decode(r#"{"kind":4}"#).unwrap().numbered, None);
    let unset = decode(r#"{"kind":"HEARTBEAT","ingestedThrough":"1970-01-01T00:00:00Z"}"#).unwrap();
    assert_eq!(unset.kind, AnnouncementKind::Heartbeat { ingested_through: None, signing_off: false });
}

#[test]
fn decode_error_reveals_no_content() {
    let long = "k".repeat(limits::RECORD_KEY_BYTES + 1);
    let cases = [
        ("", Undecodable::NotText),
        ("hello, world", Undecodable::NotText),
        ("[1]", Undecodable::NotText),
        ("{\"recordType\":", Undecodable::NotJson),
        (r#"{"recordType":5}"#, Undecodable::WrongType("recordType")),
        (r#"{"recordType":"s3cret","record_type":"s3cret"}"#, Undecodable::WrongType("a field")),
        (r#"{"recordType":"a","key":"s3cret","version":"s3cret"}"#, Undecodable::WrongType("version")),
        (r#"{"recordType":"a","key":"b","version":1.5}"#, Undecodable::WrongType("version")),
        (r#"{"recordType":"a","key":"b","version":9223372036854775808}"#, Undecodable::WrongType("version")),
        (r#"{"recordType":"a","key":"b","ingestedAt":"s3cret"}"#, Undecodable::WrongType("ingestedAt")),
        (r#"{"recordType":"a","key":"b","ingestedAt":"1969-01-01T00:00:00Z"}"#, Undecodable::Timestamp),
        (r#"{"recordType":"a","key":"b","kind":"MOVED"}"#, Undecodable::UnknownKind),
        (r#"{"recordType":"a","key":"b","kind":9}"#, Undecodable::UnknownKind),
        (r#"{"recordType":"a","key":"b","publisher":"p","sequence":-1}"#, Undecodable::NegativeSequence),
        ("CgV0aGlz/////w==", Undecodable::NotProtobuf),
        (&format!(r#"{{"recordType":"a","key":"{long}"}}"#), Undecodable::TooLong),
    ];
    for (text, expected) in cases {
        let error = decode(text).unwrap_err();
        assert_eq!(error, expected, "{text}");
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
}

#[test]
fn announcement_debug_hides_its_key() {
    let shown = format!("{:?}", Announcement { key: "s3cret".into(), ..changed(None) });
    assert!(!shown.contains("s3cret"));
}

#[test]
fn base64_protobuf_reads_any_padding_alphabet() {
    let wire = wire::Announcement {
        record_type: "context".into(),
        key: "~~~???>>>\u{3bf}\u{3ff}".into(),
        version: 7,
        ..wire::Announcement::default()
    };
    let expected = Announcement { key: wire.key.clone(), ..changed(Some(7)) };
    let padded = LENIENT.encode(wire.encode_to_vec());
    assert!(padded.contains(['+', '/']) && padded.ends_with('='), "or the test shows nothing: {padded}");
    for text in [padded.clone(), padded.trim_end_matches('=').into(), padded.replace('+', "-").replace('/', "_")] {
        assert_eq!(decode(&text), Ok(expected.clone()), "{text}");
    }
}

/// The end of the year 9999 in milliseconds: RFC 3339 has four digits for the year.
const LAST: u64 = 253_402_300_799_999;

fn versions() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(1..=i64::MAX as u64)
}

/// Without the epoch, which counts as unset in a heartbeat.
fn times() -> impl Strategy<Value = Option<Wall>> {
    proptest::option::of((1..=LAST).prop_map(Wall::from_millis))
}

fn announcements() -> impl Strategy<Value = Announcement> {
    let kind = prop_oneof![
        versions().prop_map(|version| AnnouncementKind::Changed { version }),
        versions().prop_map(|version| AnnouncementKind::Deleted { version }),
        Just(AnnouncementKind::Reload),
        (times(), any::<bool>()).prop_map(|(ingested_through, signing_off)| AnnouncementKind::Heartbeat {
            ingested_through,
            signing_off
        }),
    ];
    let numbered = proptest::option::of(("[a-z:]{1,20}", 1..=i64::MAX as u64))
        .prop_map(|numbered| numbered.map(|(publisher, sequence)| Numbered { publisher, sequence }));
    ("\\PC{1,20}", "\\PC{1,20}", kind, numbered, times()).prop_map(
        |(record_type, key, kind, numbered, ingested_at)| Announcement {
            record_type,
            key,
            kind,
            numbered,
            ingested_at,
        },
    )
}

proptest! {
    #[test]
    fn encoded_announcement_round_trips(announcement in announcements()) {
        prop_assert_eq!(decode(&encode_json(&announcement)), Ok(announcement.clone()));
        prop_assert_eq!(decode(&encode_base64(&announcement)), Ok(announcement));
    }

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        let _ = decode(&text);
    }

    #[test]
    fn arbitrary_protobuf_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = decode(&LENIENT.encode(bytes));
    }

    #[test]
    fn arbitrary_field_values_never_panic(field in "(recordType|version|kind|sequence|ingestedAt|signingOff)",
                                          value in "(-?[0-9]{1,25}(\\.[0-9]{1,5})?(e[0-9]{1,4})?|\"\\PC{0,30}\"|null|true|\\[\\]|\\{\\})") {
        let _ = decode(&format!("{{\"recordType\":\"a\",\"key\":\"b\",\"{field}\":{value}}}"));
        let _ = decode(&format!("{{\"{field}\":{value}}}"));
    }

    #[test]
    fn arbitrary_timestamps_never_panic(text in "[0-9T:+Z. -]{0,40}") {
        let _ = decode(&format!("{{\"recordType\":\"a\",\"key\":\"b\",\"ingestedAt\":\"{text}\"}}"));
    }
}
