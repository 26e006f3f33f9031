//! The table of settings against variables, documentation, example and reload.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use super::*;
use crate::config::change;
use crate::config::error::{ConfigError, Place};
use crate::config::limits;
use crate::config::read::load;
use crate::config::scope::Origins;
use crate::config::settings::SettingKind::{self, *};
use crate::config::settings::{PresetValue, Reload, Section, Setting};

const EXAMPLE: &str = include_str!("../../../nearside.example.toml");
const DOCUMENTATION: &str = include_str!("../../../docs/configuration.md");

/// Every setting of both files.
fn every() -> impl Iterator<Item = &'static Setting> {
    let of_services = SERVICES.settings().filter(|setting| !SIDECAR.settings().any(|known| known == *setting));
    SIDECAR.settings().chain(of_services)
}

/// The variables of a configuration on which `setting` can be set without breaking a rule between
/// settings.
fn base(setting: &Setting, token: &str) -> Vec<(String, String)> {
    let mut env = vec![
        ("REGION__EU_WEST_1__URL", "https://eu.example.com"),
        ("REGION__US_EAST_1__URL", "https://us.example.com"),
        ("ROUTE__0__PATH", "/v1/contexts/{key}"),
        ("ROUTE__0__RECORDS", "context:{key}"),
    ];
    let [key, secret] = ["signing_key", "second"].map(|name| beside(token, name));
    if setting.section == Section::Credentials {
        env.push(("ROUTE__0__IDENTITY", "sidecar"));
        env.extend(credentials(setting, token, &key, &secret));
    }
    if setting.section == Section::Candidate {
        env.extend([("ROUTE__0__CANDIDATE__PATH", "/v3/contexts/{key}")]);
    }
    let hash = sha256("secret\n");
    if setting.section == Section::Dictionary {
        env.extend([("ROUTE__0__COMPRESSION", "zstd"), ("ROUTE__0__DICTIONARY__FILE", token)]);
        env.extend([("ROUTE__0__DICTIONARY__HASH", hash.as_str())]);
    }
    if setting == &CANDIDATE_CREDENTIALS_FILE {
        env.extend([("ROUTE__0__IDENTITY", "sidecar"), ("ROUTE__0__CREDENTIALS__FILE", token)]);
    }
    if setting == &ROUTE_CLAIMS {
        env.extend([("ROUTE__0__IDENTITY", "verified"), ("ROUTE__0__CLAIMS", "sub")]);
    }
    if setting.section == Section::Tls {
        env.retain(|(name, _)| !name.contains("US_EAST"));
    }
    let mut env: Vec<_> =
        env.into_iter().map(|(name, value)| (format!("NEARSIDE__SERVICE__{name}"), value.to_owned())).collect();
    match setting.key {
        "client_cert" => also(&mut env, "SERVICE__REGION__EU_WEST_1__TLS__CLIENT_KEY", &beside(token, "client_key")),
        "client_key" => also(&mut env, "SERVICE__REGION__EU_WEST_1__TLS__CLIENT_CERT", &beside(token, "client_cert")),
        "identity" => also(&mut env, "SERVICE__ROUTE__0__CREDENTIALS__FILE", token),
        "form" => {
            also(&mut env, "SERVICE__ROUTE__0__SCHEMA", &format!("{token}#acme.v1.Context"));
        }
        "upstream_batch" => also(&mut env, "SERVICE__ROUTE__0__BATCH", "/v1/batch"),
        "transport" => {
            also(&mut env, "ANNOUNCEMENTS__HTTP_LISTEN", "0.0.0.0:9000");
            also(&mut env, "ANNOUNCEMENTS__HTTP_PUBLIC_URL", "https://posts.example.com");
        }
        "claims" => trusting(&mut env, token),
        _ if setting.section == Section::Issuer => trusting(&mut env, token),
        "insecure_sns_signer" => also(&mut env, "ANNOUNCEMENTS__ENDPOINT_URL", "http://127.0.0.1:4566"),
        "unix_mode" | "unix_uids" => also(&mut env, "LISTEN__UNIX", "/tmp/nearside.sock"),
        "worst_lag" => also(&mut env, "CACHE__TTL", "30d"),
        "soft_ttl" => also(&mut env, "CACHE__TTL", "30d"),
        "ttl" if setting.section == Section::Cache => also(&mut env, "FRESHNESS__WORST_LAG", "100ms"),
        "deadline" if setting.section == Section::Race => also(&mut env, "DRAIN__DEADLINE", "60s"),
        "deadline" if setting.section == Section::Drain => also(&mut env, "RACE__DEADLINE", "10ms"),
        _ => {}
    }
    env
}

/// The settings of credentials of a kind that takes `setting`.
fn credentials<'e>(setting: &Setting, token: &'e str, key: &'e str, secret: &'e str) -> Vec<(&'static str, &'e str)> {
    const KIND: &str = "ROUTE__0__CREDENTIALS__KIND";
    let audience = ("ROUTE__0__CREDENTIALS__AUDIENCE", "regions");
    let regions = ("ROUTE__0__CREDENTIALS__STS_REGIONS", "eu-west-1");
    match setting.key {
        "kind" => vec![("ROUTE__0__CREDENTIALS__FILE", token), audience, regions],
        "audience" | "lifetime" | "sts_regions" => vec![(KIND, "sts"), audience, regions],
        "key_file" | "kid" | "iss" | "sub" => vec![
            (KIND, "jwt"),
            audience,
            ("ROUTE__0__CREDENTIALS__KEY_FILE", key),
            ("ROUTE__0__CREDENTIALS__KID", "one"),
            ("ROUTE__0__CREDENTIALS__ISS", "https://issuer.example.com"),
            ("ROUTE__0__CREDENTIALS__SUB", "jira"),
        ],
        "token_url" | "client_id" | "secret_file" | "scope" | "ca_file" => vec![
            (KIND, "oauth"),
            ("ROUTE__0__CREDENTIALS__TOKEN_URL", "https://issuer.example.com/token"),
            ("ROUTE__0__CREDENTIALS__CLIENT_ID", "one"),
            ("ROUTE__0__CREDENTIALS__SECRET_FILE", secret),
        ],
        "service" | "aws_regions" => {
            let regions = ("ROUTE__0__CREDENTIALS__AWS_REGIONS", "eu-west-1,us-east-1");
            vec![(KIND, "sigv4"), ("ROUTE__0__CREDENTIALS__SERVICE", "execute-api"), regions]
        }
        _ => vec![("ROUTE__0__CREDENTIALS__FILE", token)],
    }
}

/// The environment with this value; another kind of credentials has no file.
fn set(env: &mut Vec<(String, String)>, setting: &Setting, value: &str) {
    let has_no_file = setting == &CREDENTIALS_KIND;
    env.retain(|(name, _)| *name != variable(setting) && !(has_no_file && name.ends_with("CREDENTIALS__FILE")));
    env.push((variable(setting), value.to_owned()));
}

/// An issuer whose tokens are verified.
fn trusting(env: &mut Vec<(String, String)>, token: &str) {
    also(env, "ACCESS__AUDIENCE", "https://contexts.example");
    also(env, "ACCESS__ISSUER__0__ISS", "https://issuer.example");
    also(env, "ACCESS__ISSUER__0__KEYS", &beside(token, "keys"));
}

fn also(env: &mut Vec<(String, String)>, name: &str, value: &str) {
    env.push((format!("NEARSIDE__{name}"), value.to_owned()));
}

fn sha256(text: &str) -> String {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn variable(setting: &Setting) -> String {
    setting.variable().replace("{NAME}", "EU_WEST_1").replace("{N}", "0")
}

fn with(setting: &Setting, value: &str, token: &str) -> Result<Origins, Vec<ConfigError>> {
    let mut env = base(setting, token);
    set(&mut env, setting, value);
    load(None, env.into_iter()).map(|(_, origins)| origins)
}

/// A directory with a token, and with a certificate and its key under the names of the settings
/// that take them.
fn token_file() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let certified = rcgen::generate_simple_self_signed(["sidecar".to_owned()]).unwrap();
    let (certificate, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
    for (name, text) in [
        ("token", "secret\n"),
        ("second", "other"),
        ("keys", "{\"keys\": []}"),
        ("dictionary", "secret\n"),
        ("ca_file", &certificate),
        ("client_cert", &certificate),
        ("client_key", &key),
        ("signing_key", &key),
    ] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let token = directory.path().join("token").display().to_string();
    (directory, token)
}

fn beside(token: &str, name: &str) -> String {
    std::path::Path::new(token).with_file_name(name).display().to_string()
}

/// A value that is not the default.
fn another(setting: &Setting, token: &str) -> String {
    match setting.kind {
        Text if setting.key == "primary" => "us-east-1".to_owned(),
        Text => "Other ".to_owned(),
        RegionName => "EU-west-1".to_owned(),
        Flag => if setting.preset == PresetValue::Is("true") { "false" } else { "true" }.to_owned(),
        Count(from, _) => (from + 7).to_string(),
        SettingKind::Duration(from, _) => humantime::format_duration(from + Duration::from_secs(1)).to_string(),
        Size(from, _) => (from + 1).to_string(),
        Word(words) => words[1].to_owned(),
        Address | AddressOrNone => "127.0.0.1:9100".to_owned(),
        Url => "https://other.example.com".to_owned(),
        Topic => "arn:aws:sns:eu-west-1:123456789012:changes".to_owned(),
        File if setting == &CREDENTIALS_FILE => beside(token, "second"),
        File if setting == &CREDENTIALS_KEY_FILE => beside(token, "client_key"),
        File if setting == &DICTIONARY_FILE => beside(token, "dictionary"),
        File if setting.section == Section::Tls || setting.key == "ca_file" => beside(token, setting.key),
        File => token.to_owned(),
        Mode => "0660".to_owned(),
        Uids => "1000, 1001".to_owned(),
        Header => "x-other".to_owned(),
        Headers => "x-tenant,x-other".to_owned(),
        HeaderPatterns => "x-flags,x-forwarded-*".to_owned(),
        Hosts => "contexts.internal".to_owned(),
        Tags => "team=contexts,cost-center=42".to_owned(),
        KmsKey => "alias/queues".to_owned(),
        Path if setting.key.ends_with("batch") => "/v1/many".to_owned(),
        Path => "/v2/{key}".to_owned(),
        Records => "context:{key},tenant:{key}".to_owned(),
        SettingKind::Name => "tenants".to_owned(),
        SettingKind::Names if setting == &CREDENTIALS_AWS_REGIONS => "eu-west-2,us-gov-east-1".to_owned(),
        SettingKind::Names => "limits,profile".to_owned(),
        SettingKind::Claims => "tenant,scope".to_owned(),
        SettingKind::Audiences => "https://catalogue.example".to_owned(),
        Filter => "warn,nearside=debug".to_owned(),
        SettingKind::Message => format!("{token}#acme.v1.Context"),
        SettingKind::Parameter => "fields".to_owned(),
        SettingKind::Share => "0.25".to_owned(),
        SettingKind::KeysSource => "discovery".to_owned(),
        SettingKind::Hash => sha256("secret\n").to_uppercase(),
        SettingKind::UrlPerRegion => "https://candidate.{region}.example.com".to_owned(),
    }
}

#[test]
fn every_setting_has_variable() {
    let (_kept, token) = token_file();
    for setting in SIDECAR.settings() {
        let value = another(setting, &token);
        let origins = with(setting, &value, &token).unwrap_or_else(|errors| panic!("{}: {errors:?}", setting.path()));
        let found = origins.settings.iter().find(|known| known.setting == setting).unwrap();
        assert_eq!(found.place, Place::Variable(variable(setting).as_str().into()), "{}", setting.path());
        if let PresetValue::Is(default) = setting.preset {
            assert_ne!(default, value, "{}: not another value", setting.path());
        }
        let shown = found.toml.replace(['"', '[', ']', ' '], "");
        assert_eq!(shown, value.replace(' ', ""), "{}", setting.path());
    }
}

#[test]
fn ranges_include_exactly_their_bounds() {
    let (_kept, token) = token_file();
    let step = Duration::from_millis(1);
    for setting in SIDECAR.settings() {
        let (inside, outside) = match setting.kind {
            SettingKind::Duration(from, to) => {
                let below = (from > Duration::ZERO).then(|| time(from.saturating_sub(step)));
                (vec![time(from), time(to)], below.into_iter().chain([time(to + step)]).collect())
            }
            Count(from, to) | Size(from, to) => {
                (vec![from.to_string(), to.to_string()], vec![(from - 1).to_string(), (to + 1).to_string()])
            }
            _ => continue,
        };
        for value in inside {
            assert!(with(setting, &value, &token).is_ok(), "{} = {value} is refused", setting.path());
        }
        for value in outside {
            let errors = with(setting, &value, &token).expect_err(&setting.path());
            assert!(errors[0].wrong.contains("out of range"), "{} = {value}: {errors:?}", setting.path());
        }
    }
}

fn time(span: Duration) -> String {
    humantime::format_duration(span).to_string()
}

#[test]
fn non_text_kinds_reject_other_values() {
    let (_kept, token) = token_file();
    for setting in SIDECAR.settings().filter(|setting| !matches!(setting.kind, Text | File)) {
        for value in ["\u{1}", "no such thing!?"] {
            let errors = with(setting, value, &token).expect_err(&setting.path());
            assert!(errors.iter().any(|error| error.setting == setting.path()), "{}", setting.path());
            assert!(errors.iter().all(|error| !error.suggestion.is_empty()));
        }
    }
}

#[test]
fn settings_have_unique_names_and_descriptions() {
    let count = every().count();
    let names: BTreeSet<_> = every().map(Setting::variable).collect();
    let sentences: BTreeSet<_> = every().map(|setting| setting.about).collect();
    assert_eq!((names.len(), sentences.len()), (count, count));
    assert!(every().all(|setting| setting.about.ends_with('.')));
}

#[test]
fn defaults_match_design() {
    let env = base(&CACHE_TTL, "").into_iter().filter(|(name, _)| name.contains("SERVICE"));
    let (config, _) = load(None, env).unwrap();
    let seconds = Duration::from_secs;
    assert_eq!(config.listen.tcp.unwrap().to_string(), "127.0.0.1:8700");
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:8701");
    assert_eq!((config.cache.ttl, config.cache.negative_ttl), (seconds(3600), seconds(30)));
    assert_eq!((config.cache.soft_ttl, config.cache.stale_if_error), (seconds(30), seconds(86_400)));
    assert_eq!(config.cache.max_bytes, None, "as the cgroup says");
    assert_eq!((config.freshness.worst_lag, config.freshness.grace), (seconds(60), Duration::ZERO));
    assert_eq!(config.freshness.audit_period, seconds(600));
    assert_eq!((config.drain.linger, config.drain.deadline), (seconds(5), seconds(10)));
    assert_eq!((config.race.deadline, config.race.permits), (seconds(2), limits::PERMITS_PER_REGION));
    assert_eq!(config.listen.max_connections, limits::CONNECTIONS);
    assert_eq!(config.service.routes[0].ttl, seconds(3600));
    assert!(config.freshness.max_jump > 1 << 40 && config.freshness.max_jump < 1 << 62);
}

/// The lines of the example that hold a setting: the section, the key, the value, and whether it is
/// a default.
fn example_lines() -> Vec<(String, String, String, bool)> {
    let mut section = String::new();
    let mut lines = Vec::new();
    for line in EXAMPLE.lines() {
        if let Some(heading) = line.strip_prefix('[') {
            section = heading.trim_matches(['[', ']']).to_owned();
            continue;
        }
        let (line, default) = line.strip_prefix('#').map_or((line, false), |rest| (rest, true));
        let Some((key, value)) = line.split_once(" = ").filter(|_| !line.starts_with(' ')) else { continue };
        lines.push((section.clone(), key.to_owned(), value.to_owned(), default));
    }
    lines
}

#[test]
fn example_lists_settings_and_defaults() {
    let lines = example_lines();
    let own = SIDECAR.settings().filter(|setting| setting.section != Section::Issuer);
    for setting in own.filter(|setting| setting.section.inner_key().is_none()) {
        let shown = lines.iter().find(|(section, key, ..)| section == setting.section.path() && key == setting.key);
        assert!(shown.is_some(), "{} is not in the example", setting.path());
    }
    for setting in [Section::Tls, Section::Credentials, Section::Candidate, Section::Dictionary, Section::Issuer]
        .into_iter()
        .flat_map(|section| SIDECAR.settings_of(section))
    {
        assert!(EXAMPLE.contains(&format!("{} = ", setting.key)), "{} is not in the example", setting.path());
    }
    let env = base(&SERVICE_NAME, "").into_iter();
    let (_, origins) = load(None, env).unwrap();
    for (section, key, value, _) in lines.iter().filter(|line| line.3) {
        let known =
            origins.settings.iter().find(|known| known.setting.section.path() == section && known.setting.key == key);
        assert_eq!(known.map(|known| &known.toml), Some(value), "{section}.{key}");
    }
}

#[test]
fn example_loads_without_warnings() {
    let written: String = EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix('#').filter(|rest| rest.contains(" = ") && !rest.starts_with(' ')) {
            Some(setting) => format!("{setting}\n"),
            None => format!("{line}\n"),
        })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let shown: Vec<_> = [EXAMPLE, &written]
        .into_iter()
        .map(|text| {
            let file = directory.path().join("nearside.toml");
            std::fs::write(&file, text).unwrap();
            let (config, origins) = load(Some(&file), std::iter::empty()).unwrap();
            assert_eq!(origins.warnings, vec![]);
            format!("{config:?}")
        })
        .collect();
    assert_eq!(shown[0], shown[1], "a default written out must change nothing");
}

/// The tables of a program's page, such as `docs/configuration.md`.
fn tables(schema: &Schema) -> String {
    let mut text = String::new();
    for section in schema.sections() {
        let heading = match section {
            Section::Credentials => "credentials = { .. } of a route".to_owned(),
            Section::Candidate => "candidate = { .. } of a route".to_owned(),
            Section::Dictionary => "dictionary = { .. } of a route".to_owned(),
            Section::Tls | Section::ServedRegionTls => "tls = { .. } of a region".to_owned(),
            Section::CatalogueTls => "tls = { .. } of the catalogue".to_owned(),
            Section::ViewsTls => "tls = { .. } of the views service".to_owned(),
            _ => section.heading(),
        };
        writeln!(text, "### `{heading}`\n\n| setting | takes | default | about |\n| --- | --- | --- | --- |")
            .unwrap();
        for setting in schema.settings_of(section) {
            let default = match setting.preset {
                PresetValue::Required(_) => "required".to_owned(),
                PresetValue::Is("")
                    if matches!(
                        setting.kind,
                        HeaderPatterns
                            | Headers
                            | Hosts
                            | SettingKind::Audiences
                            | SettingKind::Claims
                            | SettingKind::Names
                            | Tags
                            | Uids
                    ) =>
                {
                    "`[]`".to_owned()
                }
                PresetValue::Is("") if setting.kind != Text || setting.key == "primary" => "none".to_owned(),
                PresetValue::Is(default) => format!("`{}`", if default.is_empty() { "\"\"" } else { default }),
                PresetValue::Like(other) => format!("`{}`", other.path()),
            };
            // The services take up nothing without a restart, which their page says once.
            let found = std::ptr::eq(schema, &SIDECAR);
            let restart = if found && setting.reload == Reload::Restart { " *Needs a restart.*" } else { "" };
            writeln!(text, "| `{}` | {} | {default} | {}{restart} |", setting.key, setting.takes(), setting.about)
                .unwrap();
        }
        text.push('\n');
    }
    text
}

#[test]
fn documentation_lists_every_setting() {
    let services = include_str!("../../../docs/service-configuration.md");
    for (page, text, schema) in
        [("configuration.md", DOCUMENTATION, &SIDECAR), ("service-configuration.md", services, &SERVICES)]
    {
        let expected = tables(schema);
        let documented = text.split("<!-- settings -->\n").nth(1).expect("two <!-- settings --> markers");
        assert!(documented.trim() == expected.trim(), "docs/{page} should read:\n\n{expected}");
    }
}

#[test]
fn reload_applies_all_but_restart_settings() {
    let (_kept, token) = token_file();
    for setting in SIDECAR.settings() {
        let mut env = base(setting, &token);
        // What needs another setting beside it needs it only now.
        let needed: &[_] = match setting.key {
            "identity" => &["__CREDENTIALS__"],
            "kind" => &["__AUDIENCE", "__STS_REGIONS"],
            _ => &["__TLS__"],
        };
        let alone = env.clone().into_iter().filter(|(name, _)| !needed.iter().any(|needed| name.contains(needed)));
        let (running, before) = load(None, alone).unwrap();
        set(&mut env, setting, &another(setting, &token));
        let (wanted, after) = load(None, env.into_iter()).unwrap();
        let (changes, _) = change::compare(&before, &after);
        let merged = format!("{:?}", change::merged(&running, &wanted));
        let (holds, found) = match setting.reload {
            Reload::Live => (&wanted, changes.live.len()),
            Reload::Restart => (&running, changes.restart.len()),
        };
        assert_eq!(merged, format!("{holds:?}"), "{}", setting.path());
        assert!(found > 0, "{} is not found: {changes:?}", setting.path());
    }
}
