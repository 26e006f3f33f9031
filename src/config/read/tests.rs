//! Reading TOML and variables: values, places, all errors at once.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::config::{
    Credentials, IdentityMode, LogFormat, RaceMode, Segment, Transport, UnixSocket, effective, schema,
};

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

fn only(errors: Result<Config, Vec<ConfigError>>) -> ConfigError {
    let mut errors = errors.expect_err("an error");
    assert_eq!(errors.len(), 1, "{errors:#?}");
    errors.remove(0)
}

#[test]
fn five_errors_report_five_lines() {
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
    let errors = from_toml(text).unwrap_err();
    let found: Vec<_> = errors.iter().map(|error| (error.place.clone(), error.setting.as_str())).collect();
    assert_eq!(
        found,
        vec![
            (at(4, 7), "service.region.url"),
            (at(8, 11), "service.route.records"),
            (at(11, 7), "cache.ttl"),
            (at(12, 1), "cache"),
            (at(15, 12), "race.deadline"),
        ]
    );
    assert_eq!(errors[1].suggestion, "did you mean `{key}`?");
    assert_eq!(errors[3].suggestion, "did you mean negative_ttl?");
}

#[test]
fn file_errors_precede_environment_errors() {
    let text = format!("[cache]\nttl = \"1x\"\n{REGION}");
    let errors = load_text(&text, &[("NEARSIDE__RACE__PERMITS", "many"), ("NEARSIDE__NOPE", "1")]).unwrap_err();
    assert!(errors[0].place.to_string().ends_with("nearside.toml:2:7"), "{}", errors[0]);
    let variables: Vec<_> = errors[1..].iter().map(|error| error.place.to_string()).collect();
    assert_eq!(variables, ["NEARSIDE__NOPE", "NEARSIDE__RACE__PERMITS"]);
}

#[test]
fn wrong_type_names_expected_type() {
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
        let error = only(from_toml(&format!("{line}\n{REGION}")));
        assert_eq!(error.wrong, expected, "{line}");
        assert!(!error.suggestion.is_empty());
    }
}

#[test]
fn unknown_key_suggests_nearest() {
    for (text, suggestion) in [
        ("[cahce]\nttl = \"1h\"", "did you mean [cache]?"),
        ("[[region]]\nname = \"a\"", "did you mean [[service.region]]?"),
        ("[routes]\npath = \"/a\"", "did you mean [[service.route]]?"),
        ("[cache]\nttll = \"1h\"", "did you mean ttl?"),
        ("max_bytes = \"1GiB\"", "did you mean cache.max_bytes?"),
        ("[service]\nregions = []", "did you mean region?"),
    ] {
        assert_eq!(only(from_toml(&format!("{text}\n{REGION}"))).suggestion, suggestion, "{text}");
    }
    let error = only(from_toml(&format!("{REGION}zzzz = 1\n")));
    assert_eq!((error.place, error.suggestion.as_str()), (at(4, 1), "known here: name, url, topic, tls"));
}

#[test]
fn single_table_suggests_double_brackets() {
    let errors = from_toml("[service.region]\nname = \"a\"\n").unwrap_err();
    assert!(errors.iter().any(|error| error.suggestion == "write [[service.region]]"), "{errors:?}");
    let errors = from_toml(&format!("{REGION}[service]\nroute = [1]\n")).unwrap_err();
    assert!(!errors.is_empty());
}

#[test]
fn syntax_error_is_reported_beside_others() {
    let errors = from_toml(&format!("[cache]\nttl = 1h\nsoft_ttl = \"1x\"\n{REGION}")).unwrap_err();
    let places: Vec<_> = errors.iter().map(|error| error.place.clone()).collect();
    assert_eq!(places, vec![at(2, 7), at(3, 12)], "{errors:#?}");
    let errors = from_toml("[cache\nttl = \"1x\"\n").unwrap_err();
    assert!(errors.iter().all(|error| error.setting.is_empty()), "only the syntax is found: {errors:#?}");
    assert!(matches!(errors[0].place, Place::At { line: 1, .. }));
}

#[test]
fn missing_setting_is_reported_at_table() {
    let error = only(from_toml(&format!("{REGION}[[service.region]]\nname = \"us-east-1\"\n")));
    assert_eq!((error.place, error.setting.as_str()), (at(4, 1), "service.region.url"));
}

#[test]
fn whole_configuration_is_read_as_written() {
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
    let credentials = Credentials::in_file(http::header::AUTHORIZATION, "Bearer ".to_owned(), "/run/token".into());
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
    assert_eq!(config.log.format, LogFormat::Json);
}

#[test]
fn route_inherits_ttl_of_cache() {
    let config = from_toml(&format!("[cache]\nttl = \"2h\"\n{REGION}{ROUTE}")).unwrap();
    assert_eq!(config.service.routes[0].ttl, Duration::from_secs(7200));
}

#[test]
fn variables_override_regions_and_routes() {
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
fn variable_for_unknown_region_is_refused() {
    for (name, near) in [
        ("NEARSIDE__SERVICE__REGION__EU_WST_1__URL", "NEARSIDE__SERVICE__REGION__EU_WEST_1__URL"),
        ("NEARSIDE__SERVICE__ROUTE__1__TTL", "NEARSIDE__SERVICE__ROUTE__0__TTL"),
        ("NEARSIDE__SERVICE__ROUTE__00__TTL", "NEARSIDE__SERVICE__ROUTE__0__TTL"),
        ("NEARSIDE__CACHE__TTTL", "NEARSIDE__CACHE__TTL"),
        ("NEARSIDE__cache__ttl", "NEARSIDE__"),
        ("NEARSIDE__SERVICE__ROUTE__0__CREDENTIALS__FIEL", "NEARSIDE__SERVICE__ROUTE__0__CREDENTIALS__FILE"),
    ] {
        let errors = load_text(&format!("{REGION}{ROUTE}"), &[(name, "5m")]).unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].place.to_string(), name);
        assert!(errors[0].suggestion.contains(near), "{}", errors[0]);
    }
}

#[test]
fn single_underscore_variable_warns_with_suggestion() {
    let strays = [("NEARSIDE_CACHE_TTL", "2h"), ("NEARSIDE_PYTHON", "python3")];
    let (config, origins) = load_text(&format!("{REGION}{ROUTE}"), &strays).unwrap();
    assert_eq!(config.cache.ttl, Duration::from_secs(3_600));
    let warnings: Vec<_> = origins.warnings.iter().map(ToString::to_string).collect();
    let found = warnings.iter().filter(|line| line.starts_with("NEARSIDE_")).collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{warnings:?}");
    assert!(found[0].contains("sets nothing") && found[0].ends_with("NEARSIDE__CACHE__TTL"), "{warnings:?}");
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
    let errors = load(None, env(&pairs[4..])).unwrap_err();
    assert!(errors.iter().any(|error| error.place == Place::Environment), "no region: {errors:?}");
}

#[test]
fn aws_endpoint_variable_is_fallback() {
    let aws = ("AWS_ENDPOINT_URL", "http://127.0.0.1:4566");
    let own = ("NEARSIDE__ANNOUNCEMENTS__ENDPOINT_URL", "http://127.0.0.1:5000");
    let file = format!("{REGION}[announcements]\nendpoint_url = \"http://127.0.0.1:6000\"\n");
    assert_eq!(endpoint_port(REGION, &[aws]), (Some(4566), "AWS_ENDPOINT_URL".to_owned()));
    assert_eq!(endpoint_port(REGION, &[aws, own]).0, Some(5000));
    assert_eq!(endpoint_port(&file, &[aws]).0, Some(6000));
    assert_eq!(endpoint_port(REGION, &[("AWS_ENDPOINT_URL", "")]).0, None);
}

/// Port of `announcements.endpoint_url`, and its place.
fn endpoint_port(text: &str, pairs: &[(&str, &str)]) -> (Option<u16>, String) {
    let (config, origins) = load_text(text, pairs).unwrap();
    let place = origins.place(&schema::ANNOUNCEMENTS_ENDPOINT_URL, None).to_string();
    (config.announcements.endpoint_url.and_then(|url| url.port()), place)
}

#[test]
fn unreadable_file_is_one_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nearside.toml");
    assert!(one_error(&file).wrong.starts_with("cannot be read"));
    std::fs::write(&file, "#".repeat(usize::try_from(limits::CONFIG_BYTES).unwrap() + 1)).unwrap();
    assert!(one_error(&file).wrong.starts_with("larger than"));
    std::fs::write(&file, b"[cache]\n# \xff\n").unwrap();
    let error = one_error(&file);
    assert_eq!(error.wrong, "not UTF-8");
    assert!(error.place.to_string().ends_with(":2:3"), "{error}");
}

fn one_error(file: &Path) -> ConfigError {
    let mut errors = load(Some(file), std::iter::empty()).unwrap_err();
    assert_eq!(errors.len(), 1);
    errors.remove(0)
}

#[test]
fn effective_settings_round_trip() {
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
fn token_file_is_checked_up_front() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    let listen = format!("{REGION}[listen]\ntoken_file = \"{}\"\n", file.display());
    let route = format!("{REGION}{ROUTE}identity = \"sidecar\"\ncredentials.file = \"{}\"\n", file.display());
    for (text, setting) in [(listen, "listen.token_file"), (route, "service.route.credentials.file")] {
        let _ = std::fs::remove_file(&file);
        assert!(wrong_in(&text, setting).contains("cannot be read"));
        std::fs::write(&file, " \n").unwrap();
        assert!(wrong_in(&text, setting).contains("is empty"));
        std::fs::write(&file, "x".repeat(usize::try_from(limits::TOKEN_BYTES).unwrap() + 1)).unwrap();
        assert!(wrong_in(&text, setting).contains("larger than"));
        std::fs::write(&file, "hush\nhush").unwrap();
        let found = wrong_in(&text, setting);
        assert!(found.contains("no header can carry") && !found.contains("hush"), "{found}");
        std::fs::write(&file, "hush\n").unwrap();
        assert!(load_text(&text, &[]).is_ok());
        assert!(from_toml(&text).is_ok(), "a text alone does not look at files");
    }
}

/// The fault of this setting, the only one.
fn wrong_in(text: &str, setting: &str) -> String {
    let mut errors = load_text(text, &[]).unwrap_err();
    assert_eq!((errors.len(), errors[0].setting.as_str()), (1, setting));
    errors.remove(0).wrong
}

#[test]
fn parent_directory_must_exist() {
    for (text, setting) in [
        ("[listen]\nunix = \"/no/such/place/nearside.sock\"\n", "listen.unix"),
        ("[freshness]\nstate_file = \"/no/such/place/state\"\n", "freshness.state_file"),
    ] {
        let errors = load_text(&format!("{REGION}{text}"), &[]).unwrap_err();
        assert_eq!((errors.len(), errors[0].setting.as_str()), (1, setting));
    }
}

#[test]
fn admin_address_reads_from_environment_alone() {
    let [valid, wrong] = ["0.0.0.0:9901", "nowhere"]
        .map(|value| admin_alone(env(&[("NEARSIDE__ADMIN__LISTEN", value), ("NEARSIDE__NOPE", "1")])));
    assert_eq!(valid.unwrap().listen.to_string(), "0.0.0.0:9901");
    assert!(wrong.is_err());
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
        if let Err(errors) = from_toml(&text) {
            prop_assert!(!errors.is_empty());
        }
    }

    #[test]
    fn no_environment_makes_the_reading_panic(name in "[A-Z_0-9]{0,30}", section in 0..12usize, value in ".{0,40}") {
        let section = SIDECAR.sections().nth(section).unwrap().path().to_ascii_uppercase().replace('.', "__");
        for name in [format!("NEARSIDE__{name}"), format!("NEARSIDE__{section}__{name}")] {
            let _ = load(None, env(&[(&name, &value)]));
        }
    }
}
