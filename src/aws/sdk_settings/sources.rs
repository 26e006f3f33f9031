//! Source of the SDK's credentials, by its settings: the first of its chain that is configured
//! (`aws_config::default_provider::credentials`). Faults that only a later one would read are
//! harmless.
//!
//! The SDK takes an empty variable of these for a setting and has no option against it, so it is a
//! fault where it would be read.

use crate::aws::profile::{Properties, Sections, merged};

/// A part of the chain that reads variables of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    WebIdentity,
    Container,
    Instance,
}

const TOKEN_FILE: &str = "AWS_WEB_IDENTITY_TOKEN_FILE";
const ROLE: &str = "AWS_ROLE_ARN";
pub(super) const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
pub(super) const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
pub(super) const TOKEN: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
pub(super) const ENDPOINT: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
pub(super) const MODE: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE";

/// Variables that one source alone reads.
pub(super) const OWN: [(&str, Source); 9] = [
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
    ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
        .iter()
        .all(|name| variable(name).is_some_and(|value| !value.trim().is_empty()))
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
pub(super) fn asked(
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
        match value(&properties, "credential_source") {
            Some("EcsContainer") => return vec![Source::Container],
            Some("Ec2InstanceMetadata") => return vec![Source::Instance],
            _ => {}
        }
        is_stated |= ["aws_access_key_id", "role_arn"].iter().any(|key| value(&properties, key).is_some());
        match value(&properties, "source_profile")
            .filter(|source| *source != name && value(&properties, "role_arn").is_some())
        {
            Some(source) => name = source.to_owned(),
            None => break,
        }
    }
    let is_off = variable("AWS_EC2_METADATA_DISABLED").is_some_and(|off| off.eq_ignore_ascii_case("true"));
    match () {
        () if is_stated => Vec::new(),
        // Without a role the SDK goes on; where a file is named, that was not meant.
        () if variable(TOKEN_FILE).is_some() && variable(ROLE).is_some() => vec![Source::WebIdentity],
        () if variable(TOKEN_FILE).is_some_and(|file| !file.is_empty()) => vec![Source::WebIdentity],
        () if variable(RELATIVE).is_some() || variable(FULL).is_some() => vec![Source::Container],
        // It reads the container's token first, whether it is in one or not.
        () if is_off => vec![Source::Container],
        () => vec![Source::Container, Source::Instance],
    }
}

fn value<'a>(properties: &'a Properties, key: &str) -> Option<&'a str> {
    properties.get(key).map(|property| property.value.as_str())
}
