//! Errors of engines.

/// Why the engine did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum EngineError {
    /// Too many requests at once: later, and slower.
    #[error("{what}: throttled")]
    Throttled { what: String },
    /// It did not answer, or said that it cannot now. A write may have taken place. A retry helps.
    #[error("{what}: {why}")]
    Unavailable { what: String, why: String },
    /// It failed, and nothing of the write has taken place. A retry helps.
    #[error("{what}: {why}")]
    NotWritten { what: String, why: String },
    /// There is no room for the write, and nothing of it has taken place. A retry helps once somebody
    /// has made room.
    #[error("{what}: {why}")]
    Full { what: String, why: String },
    /// A table or stream that does not exist: somebody has to create it.
    #[error("{what} does not exist: {advice}")]
    Missing { what: String, advice: String },
    /// The credentials do not allow this action on this resource: somebody has to grant it.
    #[error("not allowed: {action} on {resource}; grant it to the role that this process runs as")]
    Denied { action: String, resource: String },
    /// The position lies before what the feed still has: read everything anew.
    #[error("{what}: the position is older than what the feed keeps")]
    Trimmed { what: String },
    /// The request cannot be right, however often it is repeated: a fault of this program.
    #[error("{what}: refused: {why}")]
    Refused { what: String, why: String },
}

impl EngineError {
    /// True if it may succeed later without anybody doing anything.
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Throttled { .. } | Self::Unavailable { .. } | Self::NotWritten { .. } | Self::Full { .. }
        )
    }
}

/// Why a transaction did not take place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// These parts' conditions did not hold, by their place in the transaction; or another
    /// transaction touched the same items just then (an empty list). Read again, then decide.
    #[error("a condition did not hold")]
    Conflict(Vec<usize>),
    #[error(transparent)]
    Engine(#[from] EngineError),
}
