//! One record in two forms: Protobuf to JSON and back, by the rules of Protobuf's JSON mapping, for
//! messages that are known at run time.
//!
//! Both ways are one pass without a tree between. What is read was sent by a region: its size,
//! depth and what is held of it are bounded, and no error shows a value of it.

pub(super) mod json;
mod print;
mod read;
mod scalar;
mod well_known;
mod wire;

use super::limits::{FORM_BYTES, FORM_DEPTH};
use super::schema::Schema;

/// A record in its other form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    pub body: Vec<u8>,
    /// Fields and enum values that the schema does not know: the other form is without them.
    pub unknown_fields: usize,
}

/// Why a record has no other form. It shows where and what, by the schema's names; lists' indices
/// and maps' keys are `*`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at `{place}`: {problem}")]
pub struct FormError {
    place: String,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("not well-formed Protobuf")]
    NotProtobuf,
    #[error("not well-formed JSON")]
    NotJson,
    #[error("text that is not UTF-8")]
    NotUtf8,
    #[error("messages more than {FORM_DEPTH} deep")]
    TooDeep,
    #[error("more than {FORM_BYTES} bytes in one of its forms")]
    TooLarge,
    #[error("too many fields and elements")]
    TooMany,
    #[error("not {0}")]
    Not(&'static str),
    #[error("a name that is there twice")]
    Twice,
    #[error("a second member of a oneof")]
    SecondMember,
    #[error("null in a list or map")]
    Null,
    #[error("an Any whose type the schema does not have")]
    AnyOfUnknownType,
    #[error("a google.protobuf.Value without a value")]
    ValueWithoutKind,
    #[error("the required field {0:?} is missing")]
    Missing(String),
}

impl FormError {
    /// The same, seen from the message above.
    fn below(mut self, name: &str) -> Self {
        self.place.insert_str(0, &format!("/{}", name.replace('~', "~0").replace('/', "~1")));
        self
    }
}

impl From<Problem> for FormError {
    fn from(problem: Problem) -> Self {
        Self { place: String::new(), problem }
    }
}

impl Schema {
    /// The JSON form of a record in Protobuf.
    pub fn to_json(&self, protobuf: &[u8]) -> Result<Converted, FormError> {
        if protobuf.len() > FORM_BYTES {
            return Err(Problem::TooLarge.into());
        }
        print::printed(&self.types, self.root, self.printing.defaults, protobuf)
    }

    /// The Protobuf form of a record in JSON.
    pub fn to_protobuf(&self, json: &[u8]) -> Result<Converted, FormError> {
        if json.len() > FORM_BYTES {
            return Err(Problem::TooLarge.into());
        }
        read::read(&self.types, self.root, json)
    }
}

#[cfg(test)]
mod tests;
