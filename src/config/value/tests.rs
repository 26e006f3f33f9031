//! Values that settings take and refuse.

use std::time::Duration;

use super::*;
use crate::config::error::Place;

fn text_raw(text: &str) -> Raw {
    Raw { value: Value::Text(text.to_owned()), place: Place::Default }
}

fn list_raw(text: &str) -> Raw {
    Raw { value: Value::List(vec![text_raw(text)]), place: Place::Default }
}

fn whole(digits: &str, base: u32) -> Raw {
    Raw { value: Value::Integer { digits: digits.to_owned(), base }, place: Place::Default }
}

const SPAN: SettingKind = SettingKind::Duration(Duration::ZERO, Duration::from_secs(86_400));
const SIZE: SettingKind = SettingKind::Size(0, 1 << 40);

#[test]
fn durations_are_read_in_human_form() {
    for (written, millis) in
        [("1h", 3_600_000), ("90s", 90_000), ("250ms", 250), ("1h 30m", 5_400_000), ("1.5s", 1_500), ("0s", 0)]
    {
        assert_eq!(duration(&text_raw(written), SPAN), Ok(Duration::from_millis(millis)), "{written}");
    }
    for written in ["", "1", "1 hour ago", "-1s", "h", "1x", "∞", "25h", "1M", "99999999999999999999s"] {
        assert!(duration(&text_raw(written), SPAN).is_err(), "{written}");
    }
    assert_eq!(duration(&whole("30", 10), SPAN).unwrap_err().suggestion, "write \"30s\" when seconds are meant");
}

#[test]
fn sizes_are_read_in_human_form() {
    for (written, bytes) in
        [("256MiB", 256 << 20), ("1 GiB", 1 << 30), ("64kB", 64_000), ("4096", 4096), ("1.5KiB", 1536)]
    {
        assert_eq!(size(&text_raw(written), SIZE), Ok(bytes), "{written}");
    }
    assert_eq!(size(&whole("4096", 10), SIZE), Ok(4096));
    for written in ["", "much", "-1MiB", "2TiB", "99999999999999999999GiB"] {
        assert!(size(&text_raw(written), SIZE).is_err(), "{written}");
    }
}

#[test]
fn base_url_rejects_credentials_and_query() {
    assert_eq!(
        url(&text_raw("https://a.example:8443/base"), SettingKind::Url).unwrap().as_str(),
        "https://a.example:8443/base"
    );
    for written in [
        "https://hidden:hidden@a.example",
        "https://hidden@a.example",
        "https://@a.example",
        "https://:@a.example",
        "https://a.example/?token=hidden",
        "https://a.example/?",
        "https://a.example/#hidden",
        "ftp://hidden",
        "http://hidden:0",
        "https://hidden example",
        " https://hidden",
        "hidden",
        "https://",
        "http:/hidden:x@:0/",
        "//hidden",
        "unix:/hidden",
    ] {
        let refused = url(&text_raw(written), SettingKind::Url);
        let Err(wrong) = refused else { panic!("{written} is taken: {refused:?}") };
        assert!(!format!("{wrong:?}").contains("hidden"), "{wrong:?}");
    }
}

#[test]
fn malformed_address_suggests_correct_form() {
    assert_eq!(address_suggestion("localhost:8700"), "write \"127.0.0.1:8700\"");
    assert!(address_suggestion(":8700").contains("127.0.0.1:8700"));
    assert_eq!(address_suggestion("127.0.0.1"), "write the port too");
    assert!(address(&text_raw("[::1]:8700"), SettingKind::Address).is_ok());
}

fn address_suggestion(written: &str) -> String {
    address(&text_raw(written), SettingKind::Address).unwrap_err().suggestion
}

#[test]
fn permission_bits_are_octal() {
    for raw in [text_raw("0660"), text_raw("660"), text_raw("0o660"), whole("660", 8)] {
        assert_eq!(mode(&raw, SettingKind::Mode), Ok(0o660));
    }
    for raw in [whole("660", 10), text_raw("0888"), text_raw("07777"), text_raw("+660"), text_raw("")] {
        assert!(mode(&raw, SettingKind::Mode).is_err(), "{raw:?}");
    }
}

#[test]
fn reserved_headers_are_refused() {
    for name in [
        "connection",
        "Host",
        "Transfer-Encoding",
        "accept-encoding",
        "If-None-Match",
        "range",
        "x-nearside-token",
        "a b",
        "",
    ] {
        assert!(header(&text_raw(name), SettingKind::Header).is_err(), "{name}");
    }
    assert_eq!(header(&text_raw("X-Tenant"), SettingKind::Header).unwrap().as_str(), "x-tenant");
    let list = Raw { value: Value::List(vec![text_raw("x-a"), text_raw("X-A")]), place: Place::Default };
    assert!(headers(&list, SettingKind::Headers).unwrap_err().what.contains("twice"));
}

#[test]
fn tags_fit_aws_and_avoid_reserved() {
    assert_eq!(
        tags(&list_raw("cost-center = 42"), SettingKind::Tags).unwrap(),
        [("cost-center".to_owned(), "42".to_owned())]
    );
    assert_eq!(tags(&list_raw("empty="), SettingKind::Tags).unwrap()[0].1, "");
    for text in ["team", "=x", "aws:team=x", "alive=1", "nearside=2", "team=a;b", &format!("{}=x", "k".repeat(129))] {
        assert!(tags(&list_raw(text), SettingKind::Tags).is_err(), "{text}");
    }
}

#[test]
fn kms_key_is_alias_or_id() {
    for text in ["alias/queues", "alias/team/queues", "mrk-1234abcd12ab34cd56ef1234567890ab"] {
        assert_eq!(kms_key(&text_raw(text), SettingKind::KmsKey).unwrap(), text);
    }
    assert!(
        kms_key(&text_raw("alias/aws/sqs"), SettingKind::KmsKey)
            .unwrap_err()
            .suggestion
            .contains("sns.amazonaws.com")
    );
    for text in ["alias/", "a/b", "arn:aws:kms:eu-west-1:123456789012:key/1", "a b"] {
        assert!(kms_key(&text_raw(text), SettingKind::KmsKey).is_err(), "{text}");
    }
}

#[test]
fn host_rejects_port_and_wildcard() {
    for (name, host) in [("Contexts.Internal", "contexts.internal"), ("::1", "::1")] {
        assert_eq!(hosts(&list_raw(name), SettingKind::Hosts).unwrap(), [host]);
    }
    for name in ["a:80", "http://a", "*.a", "a/b", "", "a b"] {
        assert!(hosts(&list_raw(name), SettingKind::Hosts).is_err(), "{name}");
    }
}

#[test]
fn mistyped_level_is_no_module() {
    for text in ["info", "warn,nearside::sidecar=debug", "nearside=TRACE", "off"] {
        assert!(filter(&text_raw(text), SettingKind::Filter).is_ok(), "{text}");
    }
    assert_eq!(filter(&text_raw("inof"), SettingKind::Filter).unwrap_err().suggestion, "did you mean \"info\"?");
    for text in ["", "nearside", "nearside=loud", "info,,debug"] {
        assert!(filter(&text_raw(text), SettingKind::Filter).is_err(), "{text}");
    }
}

#[test]
fn empty_text_or_false_means_none() {
    assert!(is_none(&text_raw(""), SettingKind::File) && is_none(&text_raw(""), SettingKind::AddressOrNone));
    assert!(is_none(&flag_raw(false), SettingKind::AddressOrNone));
    assert!(!is_none(&flag_raw(false), SettingKind::File) && !is_none(&flag_raw(true), SettingKind::AddressOrNone));
}

fn flag_raw(flag: bool) -> Raw {
    Raw { value: Value::Flag(flag), place: Place::Default }
}
