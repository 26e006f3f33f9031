//! Reasons why a record has no other form.

use crate::payload::limits::{FORM_BYTES, FORM_DEPTH};

/// Why a record has no other form. It shows where and what, by the schema's names; lists' indices
/// and maps' keys are `*`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at `{place}`: {problem}")]
pub struct FormError {
    place: String,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::payload) enum Problem {
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
    /// Returns the error as seen from the message above.
    pub(super) fn below(mut self, name: &str) -> Self {
        self.place.insert_str(0, &format!("/{}", name.replace('~', "~0").replace('/', "~1")));
        self
    }
}

impl From<Problem> for FormError {
    fn from(problem: Problem) -> Self {
        Self { place: String::new(), problem }
    }
}
