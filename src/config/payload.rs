//! The forms of a route's records, and the fields that callers may name.

use std::path::PathBuf;

use super::scope::{Collector, SettingScope};
use super::settings::SettingKind;
use super::table::Rows;
use super::tree::Raw;
use super::value::{Read, read_by, text_of, words};
use crate::config::error::{ConfigProblem, quoted};

/// Payload that a route's callers may ask for besides the regions' own bytes; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutePayload {
    /// The message that its replies are, so that it has two forms.
    pub message: Option<MessageSettings>,
    /// The query parameter that names the fields to answer with.
    pub fields: Option<String>,
    /// A caller that asks for zstd gets it. A region's node says this of itself; no file can.
    pub zstd: bool,
}

impl RoutePayload {
    pub(super) fn read(collector: &mut Collector, scope: &SettingScope, [schema, form, fields]: Rows<3>) -> Self {
        let (schema, form) = (scope.get::<Option<_>>(collector, schema), scope.get(collector, form));
        let message = schema.map(|schema| MessageSettings { schema, form });
        Self { message, fields: scope.get(collector, fields), zstd: false }
    }

    pub const fn is_declared(&self) -> bool {
        self.message.is_some() || self.fields.is_some() || self.zstd
    }
}

/// `schema` of a route, and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSettings {
    pub schema: MessageRef,
    /// The form that regions are asked for.
    pub form: Form,
}

/// A message, and the file with a FileDescriptorSet that describes it: `FILE#MESSAGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRef {
    pub file: PathBuf,
    /// With its package: `acme.v1.Context`.
    pub message: String,
}

words! {
    /// One of the two ways to write a record.
    #[derive(Hash)]
    pub enum Form {
        Json,
        Protobuf,
    }
}

read_by! {
    MessageRef => message;
}

fn message(raw: &Raw, _: SettingKind) -> Read<MessageRef> {
    const SUGGESTION: &str = "write a file with a FileDescriptorSet (`buf build -o contexts.binpb`, or `protoc \
                              --include_imports --descriptor_set_out=...`), `#`, and a message: \
                              \"contexts.binpb#acme.v1.Context\"";
    let text = text_of(raw, SUGGESTION)?;
    match text.rsplit_once('#') {
        Some((file, message)) if !file.is_empty() && message.split('.').all(is_identifier) => {
            Ok(MessageRef { file: file.into(), message: message.to_owned() })
        }
        _ => Err(ConfigProblem::new(format!("{} names no file and message", quoted(text)), SUGGESTION)),
    }
}

fn is_identifier(part: &str) -> bool {
    part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
