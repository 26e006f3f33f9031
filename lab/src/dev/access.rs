//! Rights in the world of `nearside-lab dev`: an issuer of its own, whose keys lie in files as
//! an operator's would, and the grants that the catalogue begins with.

use std::io;
use std::path::PathBuf;

use nearside::config::services::{AccessConfig, AccessMode, AdminConfig, AdminIdentity, IssuerConfig, KeysSource};
use nearside::model::time::Clock;
use serde_json::{Value, json};

use super::contents::{LIMITS, PROFILE, SHARD, TENANT};
use super::folder::Folder;
use crate::issuer::Issuer;

/// `iss` of the world's tokens.
pub(super) const ISS: &str = "https://issuer.dev.invalid";
const KID: &str = "dev";

/// The consumer whose sidecar it is; it has both views.
pub const READER: &str = "jira";
/// A consumer that has one of them.
pub const OTHER: &str = "wiki";
/// The consumer that writes the records.
pub const WRITER: &str = "editor";
/// The principal that may write the grants, and nothing else.
pub const ADMIN: &str = "admin";

/// Those for whom a token is (`aud`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Audience {
    Regions,
    Catalogue,
}

impl Audience {
    const fn claim(self) -> &'static str {
        match self {
            Self::Regions => "https://regions.dev.invalid",
            Self::Catalogue => "https://catalogue.dev.invalid",
        }
    }
}

/// The world's issuer: its private key and its JWK Set are files, which go with it.
pub struct DevIssuer {
    issuer: Issuer,
    clock: Clock,
    key: PathBuf,
    keys: PathBuf,
    _folder: Folder,
}

impl DevIssuer {
    pub(super) fn create(clock: Clock) -> io::Result<Self> {
        let (issuer, folder) = (Issuer::new(ISS, KID), Folder::create()?);
        let pem = issuer.pem().ok_or_else(|| io::Error::other("the issuer's key cannot be written"))?;
        let key = folder.write("issuer.pem", pem.as_bytes())?;
        let keys = folder.write("issuer.json", issuer.jwks().as_bytes())?;
        Ok(Self { issuer, clock, key, keys, _folder: folder })
    }

    /// A token of this subject, for ten minutes.
    pub fn token(&self, sub: &str, audience: Audience) -> String {
        self.issuer.token(sub, audience.claim(), self.clock.wall().as_millis() / 1_000)
    }

    /// `[access]` of the services.
    pub(super) fn config(&self, mode: AccessMode) -> AccessConfig {
        let (iss, keys) = (ISS.to_owned(), KeysSource::File(self.keys.clone()));
        AccessConfig {
            mode,
            catalogue_audience: Audience::Catalogue.claim().to_owned(),
            region_audience: Audience::Regions.claim().to_owned(),
            issuers: vec![IssuerConfig { iss: iss.clone(), keys, ca_file: None, subject: "sub".to_owned() }],
            admins: vec![AdminConfig { who: AdminIdentity::Token { iss, sub: ADMIN.to_owned() } }],
            ..AccessConfig::default()
        }
    }

    /// The lines of a route of the sidecar's: it signs tokens of [`READER`] for itself.
    pub fn route(&self) -> String {
        format!(
            "identity = \"sidecar\"\ncredentials = {{ kind = \"jwt\", key_file = \"{}\", kid = \"{KID}\", iss = \"{ISS}\", \
             sub = \"{READER}\", audience = \"{}\" }}\n",
            self.key.display(),
            Audience::Regions.claim(),
        )
    }
}

fn who_is(sub: &str) -> Value {
    json!([{ "iss": ISS, "sub": sub }])
}

/// The document of grants with which the catalogue begins.
pub(super) fn grants() -> Value {
    json!({
        "format": 1,
        "stopped": [],
        "consumers": {
            READER: { "who": who_is(READER), "views": [LIMITS, PROFILE] },
            OTHER: { "who": who_is(OTHER), "views": [PROFILE] },
            WRITER: { "who": who_is(WRITER), "write": [SHARD, TENANT] },
        },
    })
}

/// Reasons for which there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoToken {
    #[error("no consumer is called {name:?}; write one of: {known}, or {ADMIN}")]
    Unknown { name: String, known: String },
    #[error("{name} is none of this world's issuer, which signs for {ISS}")]
    Foreign { name: String },
}

/// Subject of a consumer by this document, and whom its tokens are for unless somebody says so:
/// what it reads at regions comes first.
pub(super) fn subject(document: &Value, name: &str) -> Result<(String, Audience), NoToken> {
    let consumer = &document["consumers"][name];
    if consumer.is_null() && name == ADMIN {
        return Ok((ADMIN.to_owned(), Audience::Catalogue));
    }
    let Some(consumer) = consumer.as_object() else {
        let known = document["consumers"].as_object().into_iter().flat_map(|all| all.keys());
        let known = known.map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(NoToken::Unknown { name: name.to_owned(), known });
    };
    let own = consumer.get("who").and_then(Value::as_array).into_iter().flatten().find(|who| who["iss"] == ISS);
    let sub = own.and_then(|who| who["sub"].as_str());
    let sub = sub.ok_or_else(|| NoToken::Foreign { name: name.to_owned() })?;
    // Any subject that the pattern covers will do.
    let sub = sub.strip_suffix('*').map_or_else(|| sub.to_owned(), |prefix| format!("{prefix}dev"));
    let reads = consumer.get("views").and_then(Value::as_array).is_some_and(|views| !views.is_empty());
    Ok((sub, if reads { Audience::Regions } else { Audience::Catalogue }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_have_subject_and_audience() {
        let mut document = grants();
        document["consumers"]["ops"] = json!({"who": [{"spiffe": "spiffe://dev/ops"}], "views": [LIMITS]});
        document["consumers"]["shop"] = json!({"who": [{"iss": ISS, "sub": "shop:*"}], "write": [TENANT]});
        for (name, sub, audience) in [
            (READER, READER, Audience::Regions),
            (WRITER, WRITER, Audience::Catalogue),
            ("shop", "shop:dev", Audience::Catalogue),
            (ADMIN, ADMIN, Audience::Catalogue),
        ] {
            assert_eq!(subject(&document, name), Ok((sub.to_owned(), audience)));
        }
        assert_eq!(subject(&document, "ops"), Err(NoToken::Foreign { name: "ops".to_owned() }));
        let unknown = subject(&document, "nobody").unwrap_err().to_string();
        assert!(unknown.contains("one of: editor, jira, ops, shop, wiki, or admin"), "{unknown}");
    }
}
