//! Reading TOML and variables: values, places, all errors at once.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::config::{Segment, effective};

const REGION: &str = "[[service.region]]\nname = \"eu-west-1\"\nurl = \"https://eu.example.com\"\n";
const ROUTE: &str = "[[service.route]]\npath = \"/v1/contexts/{key}\"\nrecords = [\"context:{key}\"]\n";

fn at(line: usize, column: usize) -> Place {
    Place::At { file: "nearside.toml".into(), line, column }
}

fn env(pairs: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>().into_iter()
}

/// Loads `text` from a file that is called nearside.toml in a directory of its own.
fn load_text(text: &str, pairs: &[(&str, &str)]) -> Result<(Config, Origins), Vec<ConfigError>> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nearside.toml");
    std::fs::write(&file, text).unwrap();
    load(Some(&file), env(pairs))
}

fn only(mistakes: Result<Config, Vec<ConfigError>>) -> ConfigError {
    let mut mistakes = mistakes.expect_err("a mistake");
    assert_eq!(mistakes.len(), 1, "{mistakes:#?}");
    mistakes.remove(0)
}

#[test]
fn five_mistakes_are_five_errors_with_their_lines() {
    let text = r#"
[[service.region]]
name = "eu-west-1"
url = "ftp://eu.example.com"

[[service.route]]
path = "/v1/contexts/{key}"
records = ["context:{kye}"]

[cache]
ttl = "1 fortnight"
negative_tl = "10s"

[race]
deadline = 2000
"#;
    let mistakes = from_toml(text).unwrap_err();
    let told: Vec<_> = mistakes.iter().map(|mistake| (mistake.place.clone(), mistake.setting.as_str())).collect();
    assert_eq!(
        told,
        vec![
            (at(4, 7), "service.region.url"),
            (at(8, 11), "service.route.records"),
            (at(11, 7), "cache.ttl"),
            (at(12, 1), "cache"),
            (at(15, 12), "race.deadline"),
        ]
    );
    assert_eq!(mistakes[1].instead, "did you mean `{key}`?");
    assert_eq!(mistakes[3].instead, "did you mean negative_ttl?");
}

#[test]
fn mistakes_of_file_and_environment_are_told_together_the_file_first() {
    let text = format!("[cache]\nttl = \"1x\"\n{REGION}");
    let mistakes = load_text(&text, &[("NEARSIDE__RACE__PERMITS", "many"), ("NEARSIDE__NOPE", "1")]).unwrap_err();
    assert!(mistakes[0].place.to_string().ends_with("nearside.toml:2:7"), "{}", mistakes[0]);
    let variables: Vec<_> = mistakes[1..].iter().map(|mistake| mistake.place.to_string()).collect();
    assert_eq!(variables, ["NEARSIDE__NOPE", "NEARSIDE__RACE__PERMITS"]);
}

#[test]
fn a_value_of_the_wrong_type_is_told_what_belongs_there() {
    for (line, expected) in [
        ("[cache]\nttl = true", "a boolean where text belongs"),
        ("[race]\npermits = \"5\"", "a string where a number belongs"),
        ("[race]\npermits = 1.5", "a number with a point where a number belongs"),
        ("[freshness]\nstrict = \"true\"", "\"true\" in quotes"),
        ("[freshness]\nstrict = 1", "a number where true or false belongs"),
        ("[listen]\nallowed_hosts = \"a\"", "a string where a list belongs"),
        ("[listen]\ntcp = true", "a boolean where text belongs"),
        ("[listen]\nunix = 2026-01-01", "a date where text belongs"),
        ("cache = 5", "a number where a table belongs"),
        ("[cache]\nttl = {}", "a table where text belongs"),
    ] {
        let mistake = only(from_toml(&format!("{line}\n{REGION}")));
        assert_eq!(mistake.wrong, expected, "{line}");
        assert!(!mistake.instead.is_empty());
    }
}

#[test]
fn an_unknown_key_or_section_is_refused_with_the_nearest_known_one() {
    for (text, instead) in [
        ("[cahce]\nttl = \"1h\"", "did you mean [cache]?"),
        ("[[region]]\nname = \"a\"", "did you mean [[service.region]]?"),
        ("[routes]\npath = \"/a\"", "did you mean [[service.route]]?"),
        ("[cache]\nttll = \"1h\"", "did you mean ttl?"),
        ("max_bytes = \"1GiB\"", "did you mean cache.max_bytes?"),
        ("[service]\nregions = []", "did you mean region?"),
    ] {
        assert_eq!(only(from_toml(&format!("{text}\n{REGION}"))).instead, instead, "{text}");
    }
    let mistake = only(from_toml(&format!("{REGION}zzzz = 1\n")));
    assert_eq!((mistake.place, mistake.instead.as_str()), (at(4, 1), "known here: name, url, topic, tls"));
}

#[test]
fn one_table_where_a_list_of_tables_belongs_is_told_to_double_its_brackets() {
    let mistakes = from_toml("[service.region]\nname = \"a\"\n").unwrap_err();
    assert!(mistakes.iter().any(|mistake| mistake.instead == "write [[service.region]]"), "{mistakes:?}");
    let mistakes = from_toml(&format!("{REGION}[service]\nroute = [1]\n")).unwrap_err();
    assert!(!mistakes.is_empty());
}

#[test]
fn a_syntax_error_has_its_place_and_other_mistakes_are_told_with_it_while_tables_are_sure() {
    let mistakes = from_toml(&format!("[cache]\nttl = 1h\nsoft_ttl = \"1x\"\n{REGION}")).unwrap_err();
    let places: Vec<_> = mistakes.iter().map(|mistake| mistake.place.clone()).collect();
    assert_eq!(places, vec![at(2, 7), at(3, 12)], "{mistakes:#?}");
    let mistakes = from_toml("[cache\nttl = \"1x\"\n").unwrap_err();
    assert!(mistakes.iter().all(|mistake| mistake.setting.is_empty()), "only the syntax is told: {mistakes:#?}");
    assert!(matches!(mistakes[0].place, Place::At { line: 1, .. }));
}

#[test]
fn a_missing_setting_is_told_at_its_table() {
    let mistake = only(from_toml(&format!("{REGION}[[service.region]]\nname = \"us-east-1\"\n")));
    assert_eq!((mistake.place, mistake.setting.as_str()), (at(4, 1), "service.region.url"));
}

#[test]
fn a_whole_configuration_comes_out_as_it_was_written() {
    let text = r#"
[service]
name = "contexts"
version_header = "X-Version"
[[service.region]]
name = "eu-west-1"
url = "https://eu.example.com/base"
topic = "arn:aws:sns:eu-west-1:123456789012:changes"
[[service.region]]
name = "us-east-1"
url = "https://us.example.com"
[[service.route]]
path = "/v1/contexts/{key}/{view}"
records = ["context:{key}"]
identity = "sidecar"
credentials = { file = "/run/token", prefix = "Bearer " }
forward = ["X-Tenant"]
ttl = "2h"
store_no_store = true
[listen]
tcp = false
unix = "/tmp/nearside.sock"
unix_mode = "0660"
unix_uids = [1000]
[race]
mode = "hedge"
primary = "us-east-1"
[announcements]
transport = "http"
http_listen = "0.0.0.0:9000"
http_public_url = "https://posts.example.com/nearside"
[log]
format = "json"
"#;
    let config = from_toml(text).unwrap();
    let [eu, us] = config.service.regions.as_slice() else { panic!("two regions") };
    assert_eq!((eu.name.as_str(), us.name.as_str()), ("eu-west-1", "us-east-1"));
    assert_eq!(eu.topic.as_ref().unwrap().name, "changes");
    assert_eq!(config.service.version_header, "x-version");
    let route = &config.service.routes[0];
    assert_eq!(route.path.segments[3], Segment::Named("view".to_owned()));
    let credentials =
        Credentials { header: http::header::AUTHORIZATION, prefix: "Bearer ".to_owned(), file: "/run/token".into() };
    assert_eq!(route.identity, IdentityMode::Sidecar(credentials));
    assert_eq!(
        (route.forward[0].as_str(), route.ttl, route.store_no_store),
        ("x-tenant", Duration::from_secs(7200), true)
    );
    assert_eq!(config.listen.tcp, None);
    let socket = UnixSocket { path: "/tmp/nearside.sock".into(), mode: 0o660, uids: vec![1000] };
    assert_eq!(config.listen.unix, Some(socket));
    assert_eq!((config.race.mode, config.race.primary), (RaceMode::Hedge, 1));
    assert!(matches!(config.announcements.transport, Transport::Http { .. }));
    assert!(config.log.json);
}

#[test]
fn a_route_without_a_ttl_takes_the_caches() {
    let config = from_toml(&format!("[cache]\nttl = \"2h\"\n{REGION}{ROUTE}")).unwrap();
    assert_eq!(config.service.routes[0].ttl, Duration::from_secs(7200));
}

#[test]
fn a_variable_wins_over_the_file_for_a_region_by_its_name_and_a_route_by_its_place() {
    let pairs = [
        ("NEARSIDE__CACHE__TTL", "2h"),
        ("NEARSIDE__SERVICE__REGION__EU_WEST_1__URL", "https://other.example.com"),
        ("NEARSIDE__SERVICE__REGION__EU_WEST_1__NAME", "ireland"),
        ("NEARSIDE__SERVICE__ROUTE__0__TTL", "5m"),
        ("NEARSIDE__LISTEN__TCP", ""),
        ("NEARSIDE__LISTEN__UNIX", "/tmp/nearside.sock"),
        ("NEARSIDE_SERVICE_HOST", "10.0.0.1"),
        ("PATH", "/bin"),
    ];
    let (config, origins) = load_text(&format!("[cache]\nttl = \"1h\"\n{REGION}{ROUTE}"), &pairs).unwrap();
    assert_eq!(config.cache.ttl, Duration::from_secs(7200));
    assert_eq!(config.service.regions.len(), 1);
    assert_eq!(config.service.regions[0].name, "ireland");
    assert_eq!(config.service.regions[0].url.host_str(), Some("other.example.com"));
    assert_eq!(config.service.routes[0].ttl, Duration::from_secs(300));
    assert_eq!(config.listen.tcp, None);
    assert_eq!(origins.place(&schema::CACHE_TTL, None), Place::Variable("NEARSIDE__CACHE__TTL".into()));
    assert!(origins.place(&schema::ROUTE_PATH, Some(0)).to_string().ends_with("nearside.toml:7:8"));
    assert_eq!(origins.place(&schema::CACHE_SOFT_TTL, None), Place::Default);
}

#[test]
fn a_variable_for_a_region_or_route_that_the_file_does_not_have_is_a_mistake() {
    for (name, near) in [
        ("NEARSIDE__SERVICE__REGION__EU_WST_1__URL", "NEARSIDE__SERVICE__REGION__EU_WEST_1__URL"),
        ("NEARSIDE__SERVICE__ROUTE__1__TTL", "NEARSIDE__SERVICE__ROUTE__0__TTL"),
        ("NEARSIDE__SERVICE__ROUTE__00__TTL", "NEARSIDE__SERVICE__ROUTE__0__TTL"),
        ("NEARSIDE__CACHE__TTTL", "NEARSIDE__CACHE__TTL"),
        ("NEARSIDE__cache__ttl", "NEARSIDE__"),
        ("NEARSIDE__SERVICE__ROUTE__0__CREDENTIALS__FIEL", "NEARSIDE__SERVICE__ROUTE__0__CREDENTIALS__FILE"),
    ] {
        let mistakes = load_text(&format!("{REGION}{ROUTE}"), &[(name, "5m")]).unwrap_err();
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
        assert_eq!(mistakes[0].place.to_string(), name);
        assert!(mistakes[0].instead.contains(near), "{}", mistakes[0]);
    }
}

#[test]
fn a_variable_with_one_underscore_is_a_warning_that_names_the_one_that_is_meant() {
    let strays = [("NEARSIDE_CACHE_TTL", "2h"), ("NEARSIDE_PYTHON", "python3")];
    let (config, origins) = load_text(&format!("{REGION}{ROUTE}"), &strays).unwrap();
    assert_eq!(config.cache.ttl, Duration::from_secs(3_600));
    let warnings: Vec<_> = origins.warnings.iter().map(ToString::to_string).collect();
    let told = warnings.iter().filter(|line| line.starts_with("NEARSIDE_")).collect::<Vec<_>>();
    assert_eq!(told.len(), 1, "{warnings:?}");
    assert!(told[0].contains("sets nothing") && told[0].ends_with("NEARSIDE__CACHE__TTL"), "{warnings:?}");
}

#[test]
fn variables_alone_make_a_configuration() {
    let pairs = [
        ("NEARSIDE__SERVICE__REGION__EU_WEST_1__URL", "https://eu.example.com"),
        ("NEARSIDE__SERVICE__REGION__US_EAST_1__URL", "https://us.example.com"),
        ("NEARSIDE__SERVICE__ROUTE__0__PATH", "/a/{key}"),
        ("NEARSIDE__SERVICE__ROUTE__0__RECORDS", "a:{key}"),
        ("NEARSIDE__SERVICE__ROUTE__1__PATH", "/b/{key}"),
        ("NEARSIDE__SERVICE__ROUTE__1__RECORDS", "b:{key}, c:{key}"),
    ];
    let (config, _) = load(None, env(&pairs)).unwrap();
    let names: Vec<_> = config.service.regions.iter().map(|region| region.name.as_str()).collect();
    assert_eq!(names, ["eu-west-1", "us-east-1"]);
    assert_eq!(config.service.routes[1].records.len(), 2);
    let mistakes = load(None, env(&pairs[4..])).unwrap_err();
    assert!(mistakes.iter().any(|mistake| mistake.place == Place::Environment), "no region: {mistakes:?}");
}

#[test]
fn the_aws_endpoint_variable_counts_where_the_setting_is_not_written() {
    let aws = ("AWS_ENDPOINT_URL", "http://127.0.0.1:4566");
    let own = ("NEARSIDE__ANNOUNCEMENTS__ENDPOINT_URL", "http://127.0.0.1:5000");
    let file = format!("{REGION}[announcements]\nendpoint_url = \"http://127.0.0.1:6000\"\n");
    let port = |text: &str, pairs: &[(&str, &str)]| {
        let (config, origins) = load_text(text, pairs).unwrap();
        let place = origins.place(&schema::ANNOUNCEMENTS_ENDPOINT_URL, None).to_string();
        (config.announcements.endpoint_url.and_then(|url| url.port()), place)
    };
    assert_eq!(port(REGION, &[aws]), (Some(4566), "AWS_ENDPOINT_URL".to_owned()));
    assert_eq!(port(REGION, &[aws, own]).0, Some(5000));
    assert_eq!(port(&file, &[aws]).0, Some(6000));
    assert_eq!(port(REGION, &[("AWS_ENDPOINT_URL", "")]).0, None);
}

#[test]
fn a_file_that_is_missing_too_large_or_not_utf_8_is_one_clear_mistake() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nearside.toml");
    let one = || {
        let mut mistakes = load(Some(&file), std::iter::empty()).unwrap_err();
        assert_eq!(mistakes.len(), 1);
        mistakes.remove(0)
    };
    assert!(one().wrong.starts_with("cannot be read"));
    std::fs::write(&file, "#".repeat(usize::try_from(limits::CONFIG_BYTES).unwrap() + 1)).unwrap();
    assert!(one().wrong.starts_with("larger than"));
    std::fs::write(&file, b"[cache]\n# \xff\n").unwrap();
    let mistake = one();
    assert_eq!(mistake.wrong, "not UTF-8");
    assert!(mistake.place.to_string().ends_with(":2:3"), "{mistake}");
}

#[test]
fn what_is_printed_as_effective_gives_the_same_settings_when_it_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("to\"ken");
    std::fs::write(&token, "secret").unwrap();
    let text = format!(
        "{REGION}{ROUTE}identity = \"sidecar\"\n[service.route.credentials]\nfile = '{}'\n\
         [freshness]\nmax_jump = 0xffff_ffff\n[listen]\nunix_uids = [1, 2]\ntcp = false\nunix = \"/tmp/x\"\n",
        token.display()
    );
    let (config, origins) = load_text(&text, &[("NEARSIDE__SERVICE__ROUTE__0__FORWARD", "x-a, x-b")]).unwrap();
    let mut printed = Vec::new();
    effective::print(&mut printed, &origins, effective::TomlStyles::default()).unwrap();
    let (again, _) = load_text(&String::from_utf8(printed).unwrap(), &[]).unwrap();
    assert_eq!(format!("{again:?}"), format!("{config:?}"));
}

#[test]
fn a_token_file_is_looked_at_before_anyone_depends_on_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    let listen = format!("{REGION}[listen]\ntoken_file = \"{}\"\n", file.display());
    let route = format!("{REGION}{ROUTE}identity = \"sidecar\"\ncredentials.file = \"{}\"\n", file.display());
    for (text, setting) in [(listen, "listen.token_file"), (route, "service.route.credentials.file")] {
        let wrong = || {
            let mut mistakes = load_text(&text, &[]).unwrap_err();
            assert_eq!((mistakes.len(), mistakes[0].setting.as_str()), (1, setting));
            mistakes.remove(0).wrong
        };
        let _ = std::fs::remove_file(&file);
        assert!(wrong().contains("cannot be read"));
        std::fs::write(&file, " \n").unwrap();
        assert!(wrong().contains("is empty"));
        std::fs::write(&file, "x".repeat(usize::try_from(limits::TOKEN_BYTES).unwrap() + 1)).unwrap();
        assert!(wrong().contains("larger than"));
        std::fs::write(&file, "hush\nhush").unwrap();
        let told = wrong();
        assert!(told.contains("no header can carry") && !told.contains("hush"), "{told}");
        std::fs::write(&file, "hush\n").unwrap();
        assert!(load_text(&text, &[]).is_ok());
        assert!(from_toml(&text).is_ok(), "a text alone does not look at files");
    }
}

#[test]
fn a_directory_that_a_file_is_made_in_must_be_there() {
    for (text, setting) in [
        ("[listen]\nunix = \"/no/such/place/nearside.sock\"\n", "listen.unix"),
        ("[freshness]\nstate_file = \"/no/such/place/state\"\n", "freshness.state_file"),
    ] {
        let mistakes = load_text(&format!("{REGION}{text}"), &[]).unwrap_err();
        assert_eq!((mistakes.len(), mistakes[0].setting.as_str()), (1, setting));
    }
}

#[test]
fn the_admin_address_can_be_read_from_the_environment_alone() {
    let address = |value| admin_alone(env(&[("NEARSIDE__ADMIN__LISTEN", value), ("NEARSIDE__NOPE", "1")]));
    assert_eq!(address("0.0.0.0:9901").unwrap().listen.to_string(), "0.0.0.0:9901");
    assert!(address("nowhere").is_err());
    assert_eq!(admin_alone(std::iter::empty()).unwrap().listen.to_string(), "127.0.0.1:8701");
    let opened = admin_alone(env(&[("NEARSIDE__ADMIN__UNIX", "/run/nearside/admin.sock")])).unwrap();
    assert_eq!(opened.unix.unwrap().path, std::path::Path::new("/run/nearside/admin.sock"));
}

/// Text that is nearly a configuration.
fn nearly() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        "=",
        ".",
        ",",
        "\"",
        "'",
        "\n",
        " ",
        "#",
        "service",
        "region",
        "route",
        "name",
        "url",
        "topic",
        "path",
        "records",
        "credentials",
        "file",
        "cache",
        "ttl",
        "listen",
        "tcp",
        "unix_mode",
        "true",
        "false",
        "0o9",
        "1h",
        "\"1h\"",
        "5",
        "-1",
        "1e400",
        "nan",
        "2026-01-01",
        "\"/v1/{key}\"",
        "\"context:{key}\"",
        "[[service.region]]\n",
        "[[service.route]]\n",
        "[service.route.credentials]\n",
        "name = \"a\"\n",
        "url = \"http://a\"\n",
        "é",
        "\u{0}",
    ]);
    prop::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn no_text_makes_the_reading_panic(text in prop_oneof![".{0,200}", nearly()]) {
        if let Err(mistakes) = from_toml(&text) {
            prop_assert!(!mistakes.is_empty());
        }
    }

    #[test]
    fn no_environment_makes_the_reading_panic(name in "[A-Z_0-9]{0,30}", section in 0..12usize, value in ".{0,40}") {
        let section = Section::OF_SIDECARS[section].path().to_ascii_uppercase().replace('.', "__");
        for name in [format!("NEARSIDE__{name}"), format!("NEARSIDE__{section}__{name}")] {
            let _ = load(None, env(&[(&name, &value)]));
        }
    }
}
