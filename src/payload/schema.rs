//! A message that is known at run time: from a descriptor set and the message's name to the tables
//! that its two forms are made by.

mod types;

use siphasher::sip::SipHasher13;
use std::hash::Hasher;

use buffa::DecodeOptions;
use buffa_descriptor::{DescriptorPool, PoolError};

use super::limits;
pub(super) use types::{Field, Kind, Known, MessageType, Shape, Types};

/// One message of a descriptor set, and how its JSON form is printed.
#[derive(Debug)]
pub struct Schema {
    pub(super) types: Types,
    pub(super) root: usize,
    id: u64,
}

/// Why there is no schema: the operator can mend it. The fault; its remedy.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error(
        "is no descriptor set; make one with `protoc --include_imports --descriptor_set_out=FILE` \
         or `buf build -o FILE`"
    )]
    NotADescriptorSet,
    #[error("has more than {} bytes; leave out what the message does not use", limits::SCHEMA_BYTES)]
    TooLarge,
    #[error("lacks {wanted}, which {field} uses; make it with its imports (`protoc --include_imports`, `buf build`)")]
    ImportsMissing { wanted: String, field: String },
    #[error("contradicts itself ({0}); make it again with `protoc` or `buf build`")]
    Contradicts(String),
    #[error("has no message {wanted:?}{nearest}")]
    NoSuchMessage { wanted: String, nearest: Nearest },
}

/// The existing name that is most like the wanted one.
#[derive(Debug, PartialEq, Eq)]
pub struct Nearest(Option<String>);

impl std::fmt::Display for Nearest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(name) => write!(f, "; did you mean {name:?}?"),
            None => write!(f, ", and no other; make it from the files that define your messages"),
        }
    }
}

impl Schema {
    /// Reads `message` (as in `acme.v1.Context`) from a `FileDescriptorSet`.
    pub fn read(descriptor_set: &[u8], message: &str) -> Result<Self, SchemaError> {
        if descriptor_set.len() > limits::SCHEMA_BYTES {
            return Err(SchemaError::TooLarge);
        }
        let options = DecodeOptions::new().with_element_memory_limit(limits::SCHEMA_MEMORY_BYTES);
        let pool = DescriptorPool::decode_with_options(descriptor_set, &options).map_err(explained)?;
        if pool.files().is_empty() {
            return Err(SchemaError::NotADescriptorSet);
        }
        let extensions = pool.extensions().len();
        if pool.messages().iter().any(|it| it.fields().len() + extensions >= usize::from(u16::MAX)) {
            return Err(SchemaError::TooLarge);
        }
        let types = Types::of(&pool);
        let Some(root) = types.index_of(message) else {
            let wanted = message.to_owned();
            return Err(SchemaError::NoSuchMessage { nearest: nearest(&types, message), wanted });
        };
        Ok(Self { types, root, id: id(descriptor_set, message) })
    }

    /// Identifier that is equal wherever the same descriptor set and message are read:
    /// part of ETags.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The names along `path` as the JSON form prints them; each segment may be the schema's name
    /// or JSON's. It goes through lists element by element, through maps by key, and ends at
    /// scalars. `None`: there is no such path.
    pub fn json_names(&self, path: &[&str]) -> Option<Vec<String>> {
        let mut names = Vec::with_capacity(path.len());
        let mut at = Some(self.root);
        let mut segments = path.iter();
        while let Some(segment) = segments.next() {
            let message = self.types.message(at?);
            match message.known {
                Known::No => {}
                Known::Any | Known::Struct | Known::Value | Known::ListValue => {
                    names.push((*segment).to_owned());
                    names.extend(segments.map(|it| (*it).to_owned()));
                    return Some(names);
                }
                _ => return None,
            }
            let field = &message.fields[usize::from(message.by_name(segment)?)];
            names.push(field.printed.clone());
            if let Shape::Map { .. } = field.shape
                && let Some(key) = segments.next()
            {
                names.push((*key).to_owned());
            }
            at = match field.kind {
                Kind::Message { index, .. } => Some(index),
                _ => None,
            };
        }
        Some(names)
    }
}

/// Level of a path's names in a record.
#[derive(Clone, Copy)]
pub(super) enum Level {
    /// The fields of this message.
    Fields(usize),
    /// The keys of a map whose values are this message, if they are messages.
    Keys(Option<usize>),
    /// Level that the schema has no names for.
    Free,
}

impl Schema {
    pub(super) fn top(&self) -> Level {
        self.level(self.root)
    }

    /// Other spelling of the member `name`, and the level of its value.
    pub(super) fn member(&self, level: Level, name: &str) -> (Option<&str>, Level) {
        match level {
            Level::Fields(message) => {
                let message = self.types.message(message);
                let Some(index) = message.by_name(name) else { return (None, Level::Free) };
                let field = &message.fields[usize::from(index)];
                let value = match field.kind {
                    Kind::Message { index, .. } => Some(index),
                    _ => None,
                };
                let below = match field.shape {
                    Shape::Map { .. } => Level::Keys(value),
                    _ => value.map_or(Level::Free, |index| self.level(index)),
                };
                (field.other.as_deref(), below)
            }
            Level::Keys(value) => (None, value.map_or(Level::Free, |index| self.level(index))),
            Level::Free => (None, Level::Free),
        }
    }

    fn level(&self, message: usize) -> Level {
        match self.types.message(message).known {
            Known::No => Level::Fields(message),
            _ => Level::Free,
        }
    }
}

fn explained(error: PoolError) -> SchemaError {
    match error {
        PoolError::Decode(_) => SchemaError::NotADescriptorSet,
        PoolError::UnresolvedTypeName { type_name, field } => {
            SchemaError::ImportsMissing { wanted: type_name.trim_start_matches('.').to_owned(), field }
        }
        other => SchemaError::Contradicts(other.to_string()),
    }
}

/// The name that is most like `wanted`: the same last part first, then by edits.
fn nearest(types: &Types, wanted: &str) -> Nearest {
    let ours = types.names().filter(|name| !name.starts_with("google.protobuf."));
    let found =
        ours.max_by(|one, other| likeness(one, wanted).total_cmp(&likeness(other, wanted)).then(other.cmp(one)));
    Nearest(found.map(str::to_owned))
}

fn likeness(name: &str, wanted: &str) -> f64 {
    let is_same = last_part(name) == last_part(wanted);
    let distance = strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &wanted.to_lowercase());
    f64::from(u8::from(is_same)) + distance
}

/// The part of a name behind its last dot, in small letters.
fn last_part(name: &str) -> String {
    name.rsplit('.').next().unwrap_or_default().to_lowercase()
}

/// Fixed keys: another process must say the same. The first bytes stand for what the forms look
/// like; they change when those do.
fn id(descriptor_set: &[u8], message: &str) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0x6e65_6172_7369_6465, 0x0066_6f72_6d73);
    hasher.write(&[1, 0, 0]);
    for part in [message.as_bytes(), descriptor_set] {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    hasher.finish()
}

const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Schema>();
};

#[cfg(test)]
mod tests;
