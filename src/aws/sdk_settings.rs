//! The SDK's own settings, from its variables and profile files: what it reads of them, and what of
//! that it cannot use. The SDK panics on some of those, hangs on others, and passes over the rest, so
//! all are read here first. An empty variable counts as unset, which is what everybody means, or is
//! refused where the SDK would take it for a setting all the same.
//!
//! A fault without which calls would go elsewhere, or nowhere, keeps AWS from being called
//! ([`SdkSettings::fatal`]); the others change nothing, since Nearside sets those values itself.

mod kind;
mod sources;

use std::path::{Path, PathBuf};

use self::kind::{Kind, NotRead, contents};
use self::sources::{ENDPOINT, FULL, MODE, OWN, RELATIVE, Source, TOKEN};
use super::profile::{self, Properties, Sections, merged};
use crate::config::error::{ConfigError, ConfigProblem, Place};

/// The services that are called, as their variables and `services` sections name them.
pub(super) const SERVICES: [&str; 5] = ["SNS", "SQS", "DYNAMODB", "KINESIS", "STS"];

/// Settings that the SDK is to be given.
#[derive(Clone, Debug, Default)]
pub struct SdkSettings {
    /// Faults that keep AWS from being called.
    pub fatal: Vec<ConfigError>,
    pub ignored: Vec<ConfigError>,
    /// Text of the two profile files.
    pub(super) config: String,
    pub(super) credentials: String,
    pub(super) profile: String,
    endpoints: Vec<(&'static str, String)>,
}

impl SdkSettings {
    /// Text to report in place of a call, if AWS must not be called.
    pub(super) fn unusable(&self) -> Option<String> {
        let first = self.fatal.first()?;
        Some(match self.fatal.len() - 1 {
            0 => first.to_string(),
            more => format!("{first} (and {more} more: nearside check shows all)"),
        })
    }

    /// The endpoint that a variable or the profile gives `service`, if one does.
    pub(super) fn endpoint(&self, service: &str) -> Option<&str> {
        self.endpoints.iter().find(|(of, _)| *of == service).map(|(_, url)| url.as_str())
    }
}

/// A setting: its variable, its name in a profile (or ""), its kind, and whether AWS must not be
/// called while it is wrong.
struct Rule(&'static str, &'static str, Kind, bool);

const WHEN: Kind = Kind::OneOf(&["when_supported", "when_required"]);

const RULES: &[Rule] = &[
    Rule("AWS_ENDPOINT_URL", "endpoint_url", Kind::Url, true),
    Rule("AWS_ENDPOINT_URL_SNS", "", Kind::Url, true),
    Rule("AWS_ENDPOINT_URL_SQS", "", Kind::Url, true),
    Rule("AWS_ENDPOINT_URL_DYNAMODB", "", Kind::Url, true),
    Rule("AWS_ENDPOINT_URL_KINESIS", "", Kind::Url, true),
    Rule("AWS_ENDPOINT_URL_STS", "", Kind::Url, true),
    Rule("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "ignore_configured_endpoint_urls", Kind::Bool, true),
    Rule("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint", Kind::Bool, true),
    Rule("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint", Kind::Bool, true),
    Rule("AWS_ACCESS_KEY_ID", "aws_access_key_id", Kind::Token, true),
    Rule("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key", Kind::Token, true),
    Rule("AWS_SESSION_TOKEN", "aws_session_token", Kind::Token, true),
    Rule("AWS_ROLE_ARN", "role_arn", Kind::Arn, true),
    Rule("AWS_ROLE_SESSION_NAME", "role_session_name", Kind::Session, true),
    Rule("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file", Kind::File, true),
    Rule("AWS_CONTAINER_CREDENTIALS_FULL_URI", "", Kind::Url, true),
    Rule("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "", Kind::Rooted, true),
    Rule("AWS_CONTAINER_AUTHORIZATION_TOKEN", "", Kind::Words, true),
    Rule("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "", Kind::File, true),
    Rule("AWS_EC2_METADATA_SERVICE_ENDPOINT", "ec2_metadata_service_endpoint", Kind::Url, true),
    Rule(
        "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
        "ec2_metadata_service_endpoint_mode",
        Kind::OneOf(&["IPv4", "IPv6"]),
        true,
    ),
    Rule("AWS_EXECUTION_ENV", "", Kind::Words, true),
    Rule("AWS_EC2_METADATA_DISABLED", "", Kind::Bool, false),
    Rule("AWS_MAX_ATTEMPTS", "max_attempts", Kind::From(1), false),
    Rule("AWS_RETRY_MODE", "retry_mode", Kind::OneOf(&["standard", "adaptive", "legacy"]), false),
    Rule("AWS_NEW_RETRIES_2026", "", Kind::Bool, false),
    Rule("AWS_REGION", "region", Kind::Region, false),
    Rule("AWS_DEFAULT_REGION", "", Kind::Region, false),
    Rule("AWS_SDK_UA_APP_ID", "sdk_ua_app_id", Kind::Token, false),
    Rule("AWS_REQUEST_CHECKSUM_CALCULATION", "request_checksum_calculation", WHEN, false),
    Rule("AWS_RESPONSE_CHECKSUM_VALIDATION", "response_checksum_validation", WHEN, false),
    Rule(
        "AWS_ACCOUNT_ID_ENDPOINT_MODE",
        "account_id_endpoint_mode",
        Kind::OneOf(&["preferred", "disabled", "required"]),
        false,
    ),
    Rule("AWS_DISABLE_REQUEST_COMPRESSION", "disable_request_compression", Kind::Bool, false),
    Rule("AWS_DISABLE_CLOCK_SKEW_CORRECTION", "disable_clock_skew_correction", Kind::Bool, false),
    Rule("AWS_REQUEST_MIN_COMPRESSION_SIZE_BYTES", "request_min_compression_size_bytes", Kind::From(0), false),
];

/// Names by which a profile says where calls go.
const LOCATING: [&str; 4] =
    ["endpoint_url", "ignore_configured_endpoint_urls", "use_fips_endpoint", "use_dualstack_endpoint"];

/// A variable of this process. What is not Unicode gets replacement characters, which no setting
/// accepts.
pub fn variable(name: &str) -> Option<String> {
    Some(std::env::var_os(name)?.to_string_lossy().into_owned())
}

/// Reads the settings that `variable` and the files that it leads to hold.
pub fn read(variable: impl Fn(&str) -> Option<String>) -> SdkSettings {
    let raw = variable;
    let variable = |name: &str| raw(name).filter(|value| !value.is_empty());
    let mut settings = SdkSettings::default();
    for Rule(name, _, kind, fatal) in RULES {
        if let Some(value) = variable(name) {
            settings.judge(Place::Variable((*name).into()), "", &value, *kind, *fatal);
        }
    }
    let config = settings.file("AWS_CONFIG_FILE", "config", &variable);
    let credentials = settings.file("AWS_SHARED_CREDENTIALS_FILE", "credentials", &variable);
    let (mut wrong, others) = (Vec::new(), settings.fatal.len());
    let configured = profile::read(&config.0, &config.1, &mut wrong);
    let credited = profile::read(&credentials.0, &credentials.1, &mut wrong);
    settings.fatal.extend(wrong);
    settings.profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
    // Where there is no profile at all, the SDK goes on to the next source. Where there are others, it does
    // so once, and fails from then on.
    let is_passed = !sources::has_profiles(&configured, &credited) && sources::does_without_profile(&variable);
    let is_needed = variable("AWS_PROFILE").is_some() && !is_passed;
    settings.of_profile(&configured, &credited, is_needed);
    if sources::has_keys(&variable) {
        settings.pass_over_credentials(others);
    }
    settings.pair(&variable);
    settings.of_sources(&configured, &credited, &raw);
    settings.locate(&configured, &credited, &variable);
    settings.emptied(&configured, &credited, &raw);
    (settings.config, settings.credentials) = (config.1, credentials.1);
    settings.fatal.sort();
    settings
}

impl SdkSettings {
    fn refuse(&mut self, place: Place, setting: &str, wrong: ConfigProblem, fatal: bool) {
        let list = if fatal { &mut self.fatal } else { &mut self.ignored };
        list.push(ConfigError::new(place, setting, wrong));
    }

    fn judge(&mut self, place: Place, setting: &str, value: &str, kind: Kind, fatal: bool) {
        if let Some(wrong) = kind.wrong(value) {
            // Another container may still write it, and each request for credentials looks again.
            let is_awaited = matches!(kind, Kind::File) && matches!(contents(Path::new(value)), Err(NotRead::Absent));
            let fatal = fatal && !is_awaited;
            self.refuse(place, setting, wrong, fatal);
        }
    }

    /// Path and text of the profile file that the variable `name` names, or else of the usual one.
    fn file(&mut self, name: &str, usual: &str, variable: &impl Fn(&str) -> Option<String>) -> (String, String) {
        let home = variable("HOME");
        let named = variable(name).map(|path| expanded(&path, home.as_deref()));
        let is_named = named.is_some();
        let usual = home.map(|home| Path::new(&home).join(".aws").join(usual));
        let Some(path) = named.or(usual) else { return (String::new(), String::new()) };
        match contents(&path) {
            Ok(text) => (path.display().to_string(), text),
            Err(NotRead::Absent) if !is_named => (String::new(), String::new()),
            Err(why) => {
                let place = if is_named {
                    Place::Variable(name.into())
                } else {
                    Place::File(path.display().to_string().into())
                };
                // One that nobody named counts as empty, as it does with the SDK.
                self.refuse(place, "", why.problem(&path), is_named);
                (String::new(), String::new())
            }
        }
    }

    /// Keys in variables come before every profile: what a profile says of credentials is not used.
    /// `from` is the first fault of the profile files.
    fn pass_over_credentials(&mut self, from: usize) {
        let (kept, passed): (Vec<_>, Vec<_>) =
            self.fatal.drain(from..).partition(|fault| LOCATING.contains(&fault.setting.as_str()));
        self.fatal.extend(kept);
        self.ignored.extend(passed);
    }

    /// Variables that are of use only together.
    fn pair(&mut self, variable: &impl Fn(&str) -> Option<String>) {
        let with = [
            ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
            ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
        ];
        for (set, other) in with {
            if variable(set).is_some() && variable(other).is_none() {
                let wrong = ConfigProblem::new(
                    format!("is set, and {other} is not"),
                    format!("set {other} too, or remove it"),
                );
                self.refuse(Place::Variable(set.into()), "", wrong, true);
            }
        }
    }

    /// The properties of the profile that is used.
    fn of_profile(&mut self, config: &Sections, credentials: &Sections, is_needed: bool) {
        let name = &self.profile.clone();
        let merged = merged(config, credentials, name);
        if merged.is_none() && name != "default" {
            let wrong = ConfigProblem::new(
                "neither profile file has this profile",
                format!("write [profile {name}] into the config file, or correct the name"),
            );
            self.refuse(Place::Variable("AWS_PROFILE".into()), "", wrong, is_needed);
        }
        let properties = merged.unwrap_or_default();
        for Rule(_, key, kind, fatal) in RULES {
            if let Some(property) = properties.get(*key).filter(|property| !property.value.is_empty()) {
                self.judge(property.place.clone(), key, &property.value, *kind, *fatal);
            }
        }
        self.of_role(&properties, config, credentials);
    }

    /// Judges how the profile says that a role is assumed.
    fn of_role(&mut self, properties: &Properties, config: &Sections, credentials: &Sections) {
        for (key, other) in
            [("aws_access_key_id", "aws_secret_access_key"), ("aws_secret_access_key", "aws_access_key_id")]
        {
            if let (Some(property), None) = (properties.get(key), properties.get(other)) {
                let wrong =
                    ConfigProblem::new(format!("is there, and {other} is not"), format!("write {other} below it"));
                self.refuse(property.place.clone(), key, wrong, true);
            }
        }
        for key in ["credential_process", "sso_session", "sso_start_url", "sso_account_id", "login_session"] {
            if let Some(property) = properties.get(key) {
                let wrong = ConfigProblem::new("is not supported here", "use a role, a token file or keys");
                self.refuse(property.place.clone(), key, wrong, true);
            }
        }
        if let Some(role) = properties.get("role_arn")
            && ["source_profile", "credential_source", "web_identity_token_file"]
                .iter()
                .all(|key| properties.get(*key).is_none())
        {
            let wrong = ConfigProblem::new(
                "nothing says who assumes it",
                "write source_profile or credential_source below it",
            );
            self.refuse(role.place.clone(), "role_arn", wrong, true);
        }
        if let Some(source) = properties.get("credential_source") {
            let kind = Kind::OneOf(&["Environment", "Ec2InstanceMetadata", "EcsContainer"]);
            self.judge(source.place.clone(), "credential_source", &source.value, kind, true);
        }
        if let Some(source) = properties.get("source_profile") {
            let name = &source.value;
            if merged(config, credentials, name).is_none() {
                let wrong = ConfigProblem::new(
                    "there is no such profile",
                    format!("write [profile {name}], or correct the name"),
                );
                self.refuse(source.place.clone(), "source_profile", wrong, true);
            }
        }
    }

    /// The endpoints: a service's variable, the variable for all, the service's in the profile, the
    /// profile's own.
    fn locate(&mut self, config: &Sections, credentials: &Sections, variable: &impl Fn(&str) -> Option<String>) {
        let profile = &merged(config, credentials, &self.profile).unwrap_or_default();
        let ignores = variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
            .or_else(|| filled(profile, "ignore_configured_endpoint_urls"));
        if ignores.is_some_and(|ignores| ignores.eq_ignore_ascii_case("true")) {
            return;
        }
        let services = filled(profile, "services").and_then(|services| config.get(&format!("services {services}")));
        let (mut located, mut wrong) = (Vec::new(), Vec::new());
        for service in SERVICES {
            let inner = services.and_then(|services| services.get(&service.to_ascii_lowercase()));
            let inner = inner.and_then(|service| service.inner.get("endpoint_url")).filter(|it| !it.value.is_empty());
            wrong.extend(inner.map(|it| (it.place.clone(), it.value.clone())));
            let found = variable(&format!("AWS_ENDPOINT_URL_{service}"))
                .or_else(|| variable("AWS_ENDPOINT_URL"))
                .or_else(|| inner.map(|it| it.value.clone()))
                .or_else(|| filled(profile, "endpoint_url"));
            located.extend(found.map(|url| (service, url)));
        }
        self.endpoints = located;
        for (place, url) in wrong {
            self.judge(place, "endpoint_url", &url, Kind::Url, true);
        }
    }
}

impl SdkSettings {
    /// Passes over what no source that is asked reads, and refuses what is empty where one is read.
    fn of_sources(&mut self, config: &Sections, credentials: &Sections, raw: &impl Fn(&str) -> Option<String>) {
        let asked = sources::asked(&self.profile, config, credentials, raw);
        let (kept, passed) = std::mem::take(&mut self.fatal)
            .into_iter()
            .partition(|wrong| source_of(&wrong.place).is_none_or(|source| asked.contains(&source)));
        self.fatal = kept;
        self.ignored.extend::<Vec<_>>(passed);
        for (name, source) in OWN {
            let is_empty = raw(name).is_some_and(|value| value.is_empty());
            // What goes before it is set, or an empty one is as good as none.
            let is_hidden = match name {
                FULL => raw(RELATIVE).is_some(),
                MODE => raw(ENDPOINT).is_some(),
                TOKEN => true,
                _ => false,
            };
            if is_empty && asked.contains(&source) && !is_hidden {
                let wrong = ConfigProblem::new("is empty, which the SDK takes for a setting", "remove it");
                self.refuse(Place::Variable(name.into()), "", wrong, true);
            }
        }
    }

    /// A place where an empty variable cannot be made unset: the SDK's own calls to STS.
    fn emptied(&mut self, config: &Sections, credentials: &Sections, raw: &impl Fn(&str) -> Option<String>) {
        let role = ["default", &self.profile].map(|name| merged(config, credentials, name).unwrap_or_default());
        let assumes = raw("AWS_WEB_IDENTITY_TOKEN_FILE").is_some_and(|file| !file.is_empty())
            || role.into_iter().any(|properties| properties.contains_key("role_arn"));
        for name in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS"] {
            if assumes && raw(name).is_some_and(|url| url.is_empty()) {
                let wrong =
                    ConfigProblem::new("is empty, and STS, which gives the role, would be asked there", "remove it");
                self.refuse(Place::Variable(name.into()), "", wrong, true);
            }
        }
    }
}

/// `path` with a leading `~/` replaced.
fn expanded(path: &str, home: Option<&str>) -> PathBuf {
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => Path::new(home).join(rest),
        _ => PathBuf::from(path),
    }
}

/// A property's value, unless it is empty.
fn filled(properties: &Properties, key: &str) -> Option<String> {
    properties.get(key).map(|property| property.value.clone()).filter(|value| !value.is_empty())
}

/// The one source that reads a variable.
fn source_of(place: &Place) -> Option<Source> {
    OWN.iter().find(|(name, _)| *place == Place::Variable((*name).into())).map(|(_, source)| *source)
}

#[cfg(test)]
mod tests;
