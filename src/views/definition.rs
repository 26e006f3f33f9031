//! Definition of a view: [`ViewDefinition`], as [`super::read`] takes it from a file.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::pointer::JsonPointer;

/// A view: made of one main record, under whose key it is kept, and of what that record names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDefinition {
    /// The record type under which regions announce it.
    pub name: String,
    /// Grows with every change of the definition.
    pub number: u64,
    /// The type of its main record.
    pub from: String,
    pub(super) needs: Vec<Need>,
    /// Fields in the order of the file, which is that of the view.
    pub(super) fields: Vec<ViewField>,
}

/// Another record that a view is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) alias: String,
    pub(super) record_type: String,
    pub(super) key: Vec<KeyPart>,
    /// Without it there is no view.
    pub(super) is_required: bool,
}

/// A part of the key of what is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyPart {
    Text(String),
    /// Value of the main record at this pointer.
    Main(JsonPointer),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ViewField {
    pub(super) name: String,
    pub(super) source: FieldSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldSource {
    Main(JsonPointer),
    /// One of the needs, by its place.
    Need(usize, JsonPointer),
    /// JSON.
    Constant(String),
}

impl ViewDefinition {
    /// Stands for everything in the definition but its number: two with the same number and
    /// different digests are an error.
    pub fn digest(&self) -> String {
        let needs: Vec<_> = self
            .needs
            .iter()
            .map(|need| {
                let key: Vec<_> = need
                    .key
                    .iter()
                    .map(|part| match part {
                        KeyPart::Text(text) => json!([text]),
                        KeyPart::Main(pointer) => json!(pointer.to_string()),
                    })
                    .collect();
                json!([need.alias, need.record_type, key, need.is_required])
            })
            .collect();
        let fields: Vec<_> = self
            .fields
            .iter()
            .map(|field| match &field.source {
                FieldSource::Main(pointer) => json!([field.name, "main", pointer.to_string()]),
                FieldSource::Need(at, pointer) => json!([field.name, at, pointer.to_string()]),
                FieldSource::Constant(value) => json!([field.name, "constant", value]),
            })
            .collect();
        short_digest(json!([self.name, self.from, needs, fields]).to_string().as_bytes())
    }
}

/// A record that a view needs besides its main record.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct JoinTarget {
    pub(super) record_type: String,
    pub(super) key: String,
}

/// Keys stay out of logs.
impl fmt::Debug for JoinTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinTarget({})", self.record_type)
    }
}

/// As it is written down.
impl fmt::Display for JoinTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.record_type, self.key)
    }
}

impl From<JoinTarget> for String {
    fn from(target: JoinTarget) -> Self {
        target.to_string()
    }
}

impl TryFrom<String> for JoinTarget {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (record_type, key) = text.split_once('/').ok_or("no type and key")?;
        Ok(Self { record_type: record_type.to_owned(), key: key.to_owned() })
    }
}

/// The first 128 bits of SHA-256, in hex.
pub(super) fn short_digest(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// True if it can be one of [`short_digest`].
pub(super) fn is_digest(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Digest that stands for a key where keys must not be printed.
pub(crate) fn key_digest(key: &str) -> String {
    short_digest(key.as_bytes())[..8].to_owned()
}
