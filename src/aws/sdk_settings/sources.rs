//! Where the SDK looks for credentials, by its settings: the first of its chain that is configured
//! (`aws_config::default_provider::credentials`). What only a later one would read hurts nobody.
//!
//! The SDK takes an empty variable of these for a setting and cannot be told otherwise, so it is a
//! fault where it would be read.

use super::super::profile::Sections;
use super::{SdkSettings, merged};
use crate::config::error::{ConfigProblem, Place};

/// A part of the chain that reads variables of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    WebIdentity,
    Container,
    Instance,
}

const TOKEN_FILE: &str = "AWS_WEB_IDENTITY_TOKEN_FILE";
const ROLE: &str = "AWS_ROLE_ARN";
const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
const TOKEN: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
const ENDPOINT: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
const MODE: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE";

/// Variables that one source alone reads.
const OWN: [(&str, Source); 9] = [
    (TOKEN_FILE, Source::WebIdentity),
    (ROLE, Source::WebIdentity),
    ("AWS_ROLE_SESSION_NAME", Source::WebIdentity),
    (RELATIVE, Source::Container),
    (FULL, Source::Container),
    (TOKEN, Source::Container),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", Source::Container),
    (ENDPOINT, Source::Instance),
    (MODE, Source::Instance),
];

/// Profiles that name one another as sources, at most.
const PROFILES: usize = 8;

/// Returns whether variables hold keys, which go before everything else.
pub(super) fn has_keys(variable: &impl Fn(&str) -> Option<String>) -> bool {
    let is_there = |name: &str| variable(name).is_some_and(|value| !value.trim().is_empty());
    ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].iter().all(|name| is_there(name))
}

/// Returns whether the files hold a profile: not another section, nor one whose name has or lacks the
/// prefix wrongly, which the SDK passes over.
pub(super) fn has_profiles(config: &Sections, credentials: &Sections) -> bool {
    config.keys().any(|name| name == "default" || name.starts_with("profile "))
        || credentials.keys().any(|name| !name.contains(' '))
}

/// Returns whether variables lead to credentials even if the profile is not there.
pub(super) fn does_without_profile(variable: &impl Fn(&str) -> Option<String>) -> bool {
    [TOKEN_FILE, RELATIVE, FULL].iter().any(|name| variable(name).is_some())
}

/// The sources that are asked; none where keys in a variable or a profile are enough.
fn asked(
    profile: &str,
    config: &Sections,
    credentials: &Sections,
    variable: &impl Fn(&str) -> Option<String>,
) -> Vec<Source> {
    if has_keys(variable) {
        return Vec::new();
    }
    let (mut name, mut is_stated) = (profile.to_owned(), false);
    for _ in 0..PROFILES {
        let properties = merged(config, credentials, &name).unwrap_or_default();
        let value = |key: &str| properties.get(key).map(|property| property.value.as_str());
        match value("credential_source") {
            Some("EcsContainer") => return vec![Source::Container],
            Some("Ec2InstanceMetadata") => return vec![Source::Instance],
            _ => {}
        }
        is_stated |= ["aws_access_key_id", "role_arn"].iter().any(|key| value(key).is_some());
        match value("source_profile").filter(|source| *source != name && value("role_arn").is_some()) {
            Some(source) => name = source.to_owned(),
            None => break,
        }
    }
    let is_set = |name: &str| variable(name).is_some();
    let is_off = variable("AWS_EC2_METADATA_DISABLED").is_some_and(|off| off.eq_ignore_ascii_case("true"));
    match () {
        () if is_stated => Vec::new(),
        // Without a role the SDK goes on; where a file is named, that was not meant.
        () if is_set(TOKEN_FILE) && is_set(ROLE) => vec![Source::WebIdentity],
        () if variable(TOKEN_FILE).is_some_and(|file| !file.is_empty()) => vec![Source::WebIdentity],
        () if is_set(RELATIVE) || is_set(FULL) => vec![Source::Container],
        // It reads the container's token first, whether it is in one or not.
        () if is_off => vec![Source::Container],
        () => vec![Source::Container, Source::Instance],
    }
}

impl SdkSettings {
    /// Passes over what no source that is asked reads, and refuses what is empty where one is read.
    pub(super) fn of_sources(
        &mut self,
        config: &Sections,
        credentials: &Sections,
        raw: &impl Fn(&str) -> Option<String>,
    ) {
        let asked = asked(&self.profile, config, credentials, raw);
        let of = |place: &Place| OWN.iter().find(|(name, _)| *place == Place::Variable((*name).into()));
        let is_read = |place: &Place| of(place).is_none_or(|(_, source)| asked.contains(source));
        let (kept, passed) = std::mem::take(&mut self.fatal).into_iter().partition(|wrong| is_read(&wrong.place));
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
}
