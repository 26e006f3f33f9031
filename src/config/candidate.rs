//! `candidate = { .. }` of a route: another upstream of its records, and who answers meanwhile.

use http::header::AUTHORIZATION;
use url::Url;

use super::credentials::Credentials;
use super::identity::IdentityMode;
use super::payload::{Form, MessageSettings};
use super::scope::{Collector, SettingScope};
use super::settings::{Section, SettingKind};
use super::table::{Rows, inner, settings};
use super::template::PathTemplate;
use super::tree::{Raw, Value};
use super::value::{Read, read_by, text_of, url, words};
use crate::config::error::{ConfigError, ConfigProblem, quoted};

settings! {
    /// `candidate` of a route.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Candidate in Candidate {
        /// The candidate's path, with the same `{named}` segments; none means the route's own.
        path: Option<PathTemplate> = CANDIDATE_PATH(Path, Is(""));
        /// With `schema`: the form that the candidate is asked for; none means the route's own.
        form: Option<Form> = CANDIDATE_FORM(words::<Form>(), Is(""));
        /// URL of another service, `{region}` being the region's name; none means the regions' own.
        url: Option<UrlPerRegion> = CANDIDATE_URL(UrlPerRegion, Is(""));
        /// It has version numbers of its own: nothing is compared with what announcements state.
        has_own_versions: bool = has_own_versions[
            /// Versions of the candidate: the `same` as the announcements', or numbers of its `own`.
            CANDIDATE_VERSIONS("versions", words::<Versions>(), Is("same"));
        ];
        /// Credentials that it is sent instead of the route's own.
        credentials: Option<Credentials> = own_credentials[
            /// With `sidecar`: a file with other credentials, sent in the same header and prefix.
            CANDIDATE_CREDENTIALS_FILE("credentials_file", File, Is(""));
        ];
        /// Upstream that answers: the current one (`old`), the current one while a share is
        /// compared with the candidate (`check`), or the candidate (`new`).
        mode: MigrationMode = CANDIDATE_MODE(words::<MigrationMode>(), Is("old"));
        /// With `check`: the share of stored fills that are compared with the candidate.
        check_share: Share = CANDIDATE_CHECK_SHARE(Share, Is("0.01"));
        /// With `new`: the share of records, always the same, that the candidate answers.
        new_share: Share = CANDIDATE_NEW_SHARE(Share, Is("1"));
    }
}

words! {
    /// Mode of a migration: the upstream that answers.
    #[derive(strum::IntoStaticStr)]
    #[strum(const_into_str)]
    pub enum MigrationMode {
        /// The current one.
        Old,
        /// The current one, and some of its answers are compared with the candidate's.
        Check,
        /// The candidate, for a share of the records.
        New,
    }
}

impl MigrationMode {
    /// Its word in a file.
    pub const fn word(self) -> &'static str {
        self.into_str()
    }
}

words! {
    enum Versions {
        Same,
        Own,
    }
}

read_by! {
    Share => share;
    UrlPerRegion => url_per_region;
}

impl Candidate {
    /// The candidate of a route, if it has one, completed by what the route says.
    pub(super) fn inner(
        collector: &mut Collector,
        route: &SettingScope,
        rows: Rows<0>,
        identity: &IdentityMode,
        message: Option<&MessageSettings>,
    ) -> Option<Self> {
        let raw = route.table.get("candidate")?;
        if matches!(&raw.value, Value::Table(table) if table.entries.is_empty()) {
            let problem = ConfigProblem::new("an empty table", Section::Candidate.example());
            collector.errors.push(ConfigError::new(raw.place.clone(), Section::Candidate.path(), problem));
            return None;
        }
        let mut candidate: Self = inner(collector, route, rows)?;
        candidate.form = candidate.form.filter(|form| message.is_some_and(|message| message.form != *form));
        candidate.credentials = identity.own().and_then(|own| {
            candidate.credentials.and_then(|named| named.file().cloned()).map(|file| own.of_file(file))
        });
        Some(candidate)
    }
}

fn has_own_versions(collector: &mut Collector, scope: &SettingScope, [versions]: Rows<1>) -> bool {
    scope.get::<Versions>(collector, versions) == Versions::Own
}

/// Credentials whose header and prefix are still to come from the route.
fn own_credentials(collector: &mut Collector, scope: &SettingScope, [file]: Rows<1>) -> Option<Credentials> {
    let file = scope.get::<Option<_>>(collector, file);
    file.map(|file| Credentials::in_file(AUTHORIZATION, String::new(), file))
}

/// A share, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u32);

/// A base URL in which `{region}` stands for the region's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPerRegion(pub String);

impl Candidate {
    /// Form that it is asked for where the current upstream would be asked for `current`.
    pub fn form_for(&self, current: Form) -> Form {
        self.form.unwrap_or(current)
    }

    /// Returns whether it answers elsewhere: what the regions share with the sidecar is not for it.
    pub const fn is_another_service(&self) -> bool {
        self.url.is_some()
    }

    /// Returns whether both lead to the same place, so that one may serve what the other stored.
    pub fn leads_to_the_same(&self, other: &Self) -> bool {
        self.path == other.path
            && self.form == other.form
            && self.url == other.url
            && self.has_own_versions == other.has_own_versions
            && self.credentials == other.credentials
    }
}

impl Share {
    const ALL: u32 = 1_000_000;

    /// `share` is between 0 and 1.
    pub fn of(share: f64) -> Self {
        Self((share * f64::from(Self::ALL)).round() as u32)
    }

    /// Returns whether it takes what has this hash: always the same ones, and of a larger share more.
    pub const fn takes(self, hash: u64) -> bool {
        hash % (Self::ALL as u64) < self.0 as u64
    }
}

impl UrlPerRegion {
    /// The URL of one region; `None` if its name cannot stand there.
    pub fn of(&self, region: &str) -> Option<Url> {
        Url::parse(&self.0.replace("{region}", region)).ok()
    }
}

/// A share is kept in millionths, so that it can be compared and hashed.
fn share(raw: &Raw, _: SettingKind) -> Read<Share> {
    const SUGGESTION: &str = "write a number from 0 to 1, without quotes, such as 0.05";
    let text = match &raw.value {
        Value::Integer { digits, base: 10 } => digits,
        Value::Float(text) | Value::Untyped(text) => text,
        _ => return Err(ConfigProblem::new(format!("{} where a share belongs", raw.kind()), SUGGESTION)),
    };
    match text.replace('_', "").parse::<f64>() {
        Ok(share) if share > 0.0 && Share::of(share) == Share::of(0.0) => {
            Err(ConfigProblem::new(format!("{} is nothing: shares are millionths", quoted(text)), SUGGESTION))
        }
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(Share::of(share)),
        Ok(_) => Err(ConfigProblem::new(format!("{} is out of range", quoted(text)), SUGGESTION)),
        Err(_) => Err(ConfigProblem::new(format!("{} is not a number", quoted(text)), SUGGESTION)),
    }
}

fn url_per_region(raw: &Raw, kind: SettingKind) -> Read<UrlPerRegion> {
    let written = text_of(raw, "write it between quotes")?;
    let left = written.replace("{region}", "");
    if left.contains(['{', '}']) {
        return Err(ConfigProblem::new("braces around something else than `region`", "write {region}, or no braces"));
    }
    let sample = Raw { value: Value::Text(written.replace("{region}", "region")), place: raw.place.clone() };
    url(&sample, kind)?;
    Ok(UrlPerRegion(written.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(share: f64) -> Vec<u64> {
        (0..1_000_000).step_by(7).filter(|hash| Share::of(share).takes(*hash)).collect()
    }

    #[test]
    fn larger_share_includes_smaller() {
        let (tenth, half) = (taken(0.1), taken(0.5));
        assert!(half.starts_with(&tenth) && tenth.len() < half.len());
        assert_eq!(taken(0.0).len(), 0);
        assert_eq!(taken(1.0).len(), 1_000_000_usize.div_ceil(7));
    }
}
