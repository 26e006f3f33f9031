//! Why the catalogue did not do what it was asked: whose fault it is, and whether a retry helps.
//! Nothing in here shows a key or what a body holds.

use serde::Serialize;

use crate::engine::EngineError;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// The configuration lists the types there are.
    #[error("there is no such record type{}; GET /v1/types lists them", .nearest.as_ref().map_or_else(
        String::new, |name| format!(" (the nearest is `{name}`)")))]
    UnknownType { nearest: Option<String> },
    #[error("{0}")]
    BadKey(&'static str),
    #[error("the body is larger than {} bytes", super::limits::RECORD_BYTES)]
    LargeBody,
    /// It is no JSON, not an object, or an object that readers would not agree on.
    #[error("{0}")]
    BadJson(String),
    /// Without violations, there are too many branches to list them.
    #[error(
        "the body does not fit the schema of its type; {}",
        if .0.is_empty() { "its branches are too many to list where" } else { "`violations` lists where" }
    )]
    Schema(Vec<SchemaViolation>),
    /// Each is one problem with its place.
    #[error("the document of grants is not right; `problems` lists what to change")]
    Grants(Vec<String>),
    /// Too many steps to know if it fits: sending it again does not help.
    #[error(
        "checking the body against the schema of its type takes too many steps (more than {}); nothing was written. \
         Nest the body less deep, or have the schema's owner tell its branches apart by a `const`",
        super::limits::CHECK_STEPS
    )]
    SchemaCost,
    /// Others' bodies are being checked.
    #[error("too many bodies are being checked against costly schemas; nothing was written, send it again")]
    ChecksBusy,
    #[error("{0}")]
    BadBatch(String),
    #[error("`after` is not what an earlier page of this gave as `next`")]
    BadCursor,
    /// `version` is that of the deletion, if there ever was such a record.
    #[error("there is no such record")]
    NotFound { version: Option<u64> },
    #[error("If-Match or If-None-Match does not hold; read the record again and decide anew")]
    PreconditionFailed { version: Option<u64> },
    #[error("the Idempotency-Key must be 1 to {} visible ASCII characters", super::limits::IDEMPOTENCY_KEY_BYTES)]
    BadIdempotencyKey,
    /// Sending it again does not help: the caller confused two requests.
    #[error("this Idempotency-Key belongs to another request of the last 24 hours; take a new key")]
    KeyReused,
    #[error("others kept changing the same record; nothing was written, send it again")]
    Contended,
    /// The store did not answer a write.
    #[error(
        "nobody knows whether this was written: the store did not answer; \
         read the record, or send the request again if it has an Idempotency-Key"
    )]
    OutcomeUnknown,
    /// Nothing was written. A retry helps if it is transient; else an operator has to act.
    #[error("the store did not do it: {}; nothing was written", .0.into_str())]
    Store(EngineError),
    /// A read. A retry helps if it is transient; else an operator has to act.
    #[error(
        "the store could not be read: {}; {}", .0.into_str(),
        if .0.is_transient() { "send it again" } else { "an operator has to act, the log says on what" }
    )]
    Unread(EngineError),
    /// Somebody else wrote it, or a disk lost it: nobody may be given it as a record.
    #[error("the record is damaged: what is stored as version {version} is no JSON object; write it again")]
    Damaged { version: u64 },
    /// One part of a batch is why nothing of it was written.
    #[error("part {at} (from 0): {why}")]
    Part { at: usize, why: Box<CatalogueError> },
}

/// One place where a body does not fit: JSON Pointers into the body and into the schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SchemaViolation {
    pub pointer: String,
    pub rule: String,
}

impl From<EngineError> for CatalogueError {
    fn from(error: EngineError) -> Self {
        Self::Store(error)
    }
}

impl CatalogueError {
    /// Error behind it, without the place in a batch.
    pub fn root(&self) -> &Self {
        match self {
            Self::Part { why, .. } => why.root(),
            other => other,
        }
    }
}
