//! The sidecar's own credentials: what it sends regions in place of its callers'.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use url::Url;

use super::loopback::is_loopback;
use super::scope::{Collector, SettingScope};
use super::settings::{Section, Setting};
use super::table::{Rows, Table, settings};
use super::tree::{Raw, TomlTable, Value};
use super::value::words;
use crate::config::error::ConfigProblem;

/// Scheme before a token that the sidecar mints (RFC 6750).
pub const BEARER: &str = "Bearer ";

words! {
    /// Origin of the credentials.
    pub(super) enum CredentialsKind {
        File,
        Sts,
        Jwt,
        Oauth,
        Sigv4,
    }
}

settings! {
    /// A header with what a file holds, or with a token that the sidecar mints for itself.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Credentials in Credentials {
        /// Origin of what is sent.
        source: CredentialSource = source[
            /// With `sidecar`: a `file`, or a token that the sidecar mints: from AWS (`sts`), signed by itself (`jwt`), or from an OAuth server (`oauth`); or a signature of each request with AWS's keys (`sigv4`).
            CREDENTIALS_KIND("kind", words::<CredentialsKind>(), Is("file"));
            /// With `file`: the file that holds what is sent, read again when it changes.
            CREDENTIALS_FILE("file", File, Is(""));
            /// With `file`: text that is put before it, such as `Bearer ` with its space.
            CREDENTIALS_PREFIX("prefix", Text, Is(""));
            /// With `sts`, `jwt` and perhaps `oauth`: the audience (`aud`) that the regions expect.
            CREDENTIALS_AUDIENCE("audience", Text, Is(""));
            /// With `sts` and `jwt`: the life of a token; it is renewed at half of it.
            CREDENTIALS_LIFETIME("lifetime", seconds(MINUTE, HOUR), Is("15m"));
            /// With `sts`: the AWS regions whose STS is asked, the next one when one fails.
            CREDENTIALS_STS_REGIONS("sts_regions", Names, Is(""));
            /// With `jwt`: a PEM file with the private key (RSA for RS256, P-256 for ES256), read again when it changes.
            CREDENTIALS_KEY_FILE("key_file", File, Is(""));
            /// With `jwt`: the key's name in its issuer's JWK Set.
            CREDENTIALS_KID("kid", Text, Is(""));
            /// With `jwt`: the issuer of the tokens.
            CREDENTIALS_ISS("iss", Text, Is(""));
            /// With `jwt`: the subject of the tokens.
            CREDENTIALS_SUB("sub", Text, Is(""));
            /// With `oauth`: the token endpoint (RFC 6749, 4.4); https, or http on loopback.
            CREDENTIALS_TOKEN_URL("token_url", Url, Is(""));
            /// With `oauth`: the client's id.
            CREDENTIALS_CLIENT_ID("client_id", Text, Is(""));
            /// With `oauth`: the file that holds the client's secret, read again when it changes.
            CREDENTIALS_SECRET_FILE("secret_file", File, Is(""));
            /// With `oauth`: the scope that is asked for, words between spaces.
            CREDENTIALS_SCOPE("scope", Text, Is(""));
            /// With `oauth`: a PEM file with the CA certificates that are trusted for the token endpoint instead of the platform's.
            CREDENTIALS_CA_FILE("ca_file", File, Is(""));
            /// With `sigv4`: the AWS service that requests are signed for, such as `execute-api`.
            CREDENTIALS_SERVICE("service", Name, Is(""));
            /// With `sigv4`: the AWS regions of the regions, in their order, or one for all; none where they are their names.
            CREDENTIALS_AWS_REGIONS("aws_regions", Names, Is(""));
        ];
        /// With `sidecar`: the header it is sent in.
        header: HeaderName = CREDENTIALS_HEADER(Header, Is("authorization"));
    }
}

/// Origin of what is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    File(CredentialsFile),
    Minted(Minting),
}

/// A file's (trimmed) content behind a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialsFile {
    pub file: PathBuf,
    pub prefix: String,
}

/// Bearer tokens that the sidecar mints for itself, and keys that it signs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Minting {
    Sts(StsMinting),
    Jwt(JwtMinting),
    Oauth(Box<OauthMinting>),
    Sigv4(Sigv4Signing),
}

/// Tokens of AWS's STS for the role of this process (`GetWebIdentityToken`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StsMinting {
    pub audience: String,
    pub lifetime: Duration,
    /// AWS regions, in the order in which they are asked.
    pub regions: Vec<String>,
}

/// Tokens that the sidecar signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtMinting {
    pub key_file: PathBuf,
    pub kid: String,
    pub iss: String,
    pub sub: String,
    pub audience: String,
    pub lifetime: Duration,
}

/// Tokens of an OAuth server for a client (RFC 6749, 4.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthMinting {
    pub token_url: Url,
    pub client_id: String,
    pub secret_file: PathBuf,
    pub scope: String,
    pub audience: String,
    /// CAs to trust instead of the platform's.
    pub ca_file: Option<PathBuf>,
}

/// Signatures of each request with the AWS keys of this process (Signature Version 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sigv4Signing {
    pub service: String,
    /// AWS regions as they are written: one for all, or one for each region in the file's order.
    pub written: Vec<String>,
    /// Regions by name, with the AWS region that each is in.
    pub regions: BTreeMap<String, String>,
}

impl Credentials {
    /// Credentials that `file` holds, behind `prefix` in `header`.
    pub const fn in_file(header: HeaderName, prefix: String, file: PathBuf) -> Self {
        Self { header, source: CredentialSource::File(CredentialsFile { file, prefix }) }
    }

    /// Credentials with this header and prefix that `file` holds.
    pub fn of_file(&self, file: PathBuf) -> Self {
        let prefix = match &self.source {
            CredentialSource::File(own) => own.prefix.clone(),
            CredentialSource::Minted(_) => BEARER.to_owned(),
        };
        Self::in_file(self.header.clone(), prefix, file)
    }

    /// The file that holds what is sent, if one does.
    pub const fn file(&self) -> Option<&PathBuf> {
        match &self.source {
            CredentialSource::File(source) => Some(&source.file),
            CredentialSource::Minted(_) => None,
        }
    }

    /// Names their origin in a line for people.
    pub fn origin(&self) -> String {
        match &self.source {
            CredentialSource::File(source) => source.file.display().to_string(),
            CredentialSource::Minted(Minting::Sigv4(signing)) => format!("a signature for {}", signing.service),
            CredentialSource::Minted(minting) => format!("a token by {}", minting.kind()),
        }
    }

    /// Gives each region its AWS region: the one that is written, or that of its own name.
    pub(super) fn name_aws_regions(&mut self, names: &[String]) {
        if let CredentialSource::Minted(Minting::Sigv4(signing)) = &mut self.source {
            let for_all = signing.written.first().filter(|_| signing.written.len() == 1);
            for (at, name) in names.iter().enumerate() {
                let aws_region = for_all.or(signing.written.get(at)).unwrap_or(name);
                signing.regions.insert(name.clone(), aws_region.clone());
            }
        }
    }

    /// The credentials of a route that asks with the sidecar's own.
    pub(super) fn of_route(collector: &mut Collector, scope: &SettingScope) -> Self {
        let table = match scope.table.get("credentials") {
            Some(Raw { value: Value::Table(table), .. }) => table.clone(),
            other => {
                let place = other.map_or(&scope.table.place, |raw| &raw.place);
                let problem =
                    ConfigProblem::new("identity = \"sidecar\" without credentials", Section::Credentials.example());
                collector.error(&CREDENTIALS_FILE, scope.item, place.clone(), problem);
                TomlTable::empty(place.clone())
            }
        };
        let inner = collector.checked_scope(table, Section::Credentials, scope.item);
        Self::read(collector, &inner)
    }
}

impl Minting {
    /// The word of its kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Sts(_) => "sts",
            Self::Jwt(_) => "jwt",
            Self::Oauth(_) => "oauth",
            Self::Sigv4(_) => "sigv4",
        }
    }

    /// The file with the secret that it needs.
    pub fn secret_file(&self) -> Option<&PathBuf> {
        match self {
            Self::Sts(_) | Self::Sigv4(_) => None,
            Self::Jwt(jwt) => Some(&jwt.key_file),
            Self::Oauth(oauth) => Some(&oauth.secret_file),
        }
    }
}

/// The table of credentials, whose settings one kind or another needs.
struct Reading<'r> {
    collector: &'r mut Collector,
    scope: &'r SettingScope,
}

impl Reading<'_> {
    /// A setting without which this kind cannot do.
    fn needed<T: Default>(&mut self, setting: &'static Setting, value: Option<T>) -> T {
        value.unwrap_or_else(|| {
            let missing = ConfigProblem::new("missing", format!("write `{} = ..`: {}", setting.key, setting.takes()));
            let Self { collector, scope } = self;
            collector.error(setting, scope.item, scope.table.place.clone(), missing);
            T::default()
        })
    }

    fn refuse(&mut self, setting: &'static Setting, what: String, suggestion: &str) {
        self.collector.refuse(setting, self.scope.item, what, suggestion);
    }

    /// Refuses what is written for another kind.
    fn refuse_others(&mut self, kind: CredentialsKind, rows: &[&'static Setting]) {
        for setting in rows {
            let written = self.collector.origins.is_changed(setting, self.scope.item);
            if written && !takes(kind, setting) {
                let what = format!("it is not for `kind = \"{}\"`", word(kind));
                self.refuse(setting, what, "remove it, or write the `kind` that it is for");
            }
        }
    }
}

const fn word(kind: CredentialsKind) -> &'static str {
    match kind {
        CredentialsKind::File => "file",
        CredentialsKind::Sts => "sts",
        CredentialsKind::Jwt => "jwt",
        CredentialsKind::Oauth => "oauth",
        CredentialsKind::Sigv4 => "sigv4",
    }
}

fn takes(kind: CredentialsKind, setting: &Setting) -> bool {
    let keys: &[&str] = match kind {
        CredentialsKind::File => &["file", "prefix"],
        CredentialsKind::Sts => &["audience", "lifetime", "sts_regions"],
        CredentialsKind::Jwt => &["audience", "lifetime", "key_file", "kid", "iss", "sub"],
        CredentialsKind::Oauth => &["audience", "token_url", "client_id", "secret_file", "scope", "ca_file"],
        CredentialsKind::Sigv4 => &["service", "aws_regions"],
    };
    setting.key == "kind" || keys.contains(&setting.key)
}

fn source(collector: &mut Collector, scope: &SettingScope, rows: Rows<17>) -> CredentialSource {
    let of_kind = rows[0];
    let kind = scope.get(collector, of_kind);
    let [_, file, prefix, audience, lifetime, regions, key_file, kid, iss, sub, rest @ ..] = rows;
    let [url, client, secret, oauth_scope, ca_file, service, aws_regions] = rest;
    // All are read, whatever the kind, so that `nearside check` shows all.
    let [file_value, key, secret_value, ca] =
        [file, key_file, secret, ca_file].map(|row| scope.get::<Option<PathBuf>>(collector, row));
    let prefix = scope.get(collector, prefix);
    let life: Duration = scope.get(collector, lifetime);
    let [in_regions, signed_in] = [regions, aws_regions].map(|row| scope.get::<Vec<String>>(collector, row));
    let url_value = scope.get(collector, url);
    let texts = [audience, kid, iss, sub, client, oauth_scope, service]
        .map(|row| scope.get::<Option<String>>(collector, row));
    let [for_audience, named, issuer, subject, client_id, words, for_service] = texts;
    let mut reading = Reading { collector, scope };
    reading.refuse_others(kind, &rows);
    CredentialSource::Minted(match kind {
        CredentialsKind::File => {
            let file = reading.needed(file, file_value);
            return CredentialSource::File(CredentialsFile { file, prefix });
        }
        CredentialsKind::Sts => {
            let in_regions = Some(in_regions).filter(|regions| !regions.is_empty());
            Minting::Sts(StsMinting {
                audience: reading.needed(audience, for_audience),
                lifetime: life,
                regions: reading.needed(regions, in_regions),
            })
        }
        CredentialsKind::Jwt => Minting::Jwt(JwtMinting {
            key_file: reading.needed(key_file, key),
            kid: reading.needed(kid, named),
            iss: reading.needed(iss, issuer),
            sub: reading.needed(sub, subject),
            audience: reading.needed(audience, for_audience),
            lifetime: life,
        }),
        CredentialsKind::Oauth => Minting::Oauth(Box::new(OauthMinting {
            token_url: token_url(&mut reading, url, url_value),
            client_id: reading.needed(client, client_id),
            secret_file: reading.needed(secret, secret_value),
            scope: words.unwrap_or_default(),
            audience: for_audience.unwrap_or_default(),
            ca_file: ca,
        })),
        CredentialsKind::Sigv4 => {
            let service = reading.needed(service, for_service);
            Minting::Sigv4(Sigv4Signing { service, written: signed_in, regions: BTreeMap::new() })
        }
    })
}

/// A secret goes to it, so nobody on the way may read along.
fn token_url(reading: &mut Reading<'_>, setting: &'static Setting, url: Option<Url>) -> Url {
    let url = reading.needed(setting, url.map(Some)).unwrap_or_else(stand_in);
    if url.scheme() != "https" && !is_loopback(&url) {
        let what = "plain http, over which the client's secret could be read on the way".to_owned();
        reading.refuse(setting, what, "write https://");
    }
    url
}

fn stand_in() -> Url {
    Url::parse("https://issuer.invalid/token").expect("it is a URL")
}
