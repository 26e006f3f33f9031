//! Fault of a coded body, or of a dictionary.

use crate::payload::limits::{DICTIONARY_BYTES, ZSTD_WINDOW_LOG};
use crate::telemetry::metrics::payload::UndecodableReason;

/// Why a body cannot be had from its content coding. All but [`CodingError::NoMemory`],
/// [`CodingError::NoRoom`] and [`CodingError::NoDictionary`] are the fault of who sent it: the same
/// reply would fail again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodingError {
    #[error("the body has a content coding that was not asked for")]
    Unknown,
    #[error("the body has several content codings")]
    Several,
    #[error("the body decodes to more than is allowed")]
    TooLarge,
    #[error("the body is not what its content coding says, or is cut short")]
    Damaged,
    #[error("the body needs a window of more than {} MiB", (1 << ZSTD_WINDOW_LOG) >> 20)]
    Window,
    #[error("the body is compressed with another dictionary than the one that was offered")]
    OtherDictionary,
    #[error("the body is compressed with a dictionary, and there is none here")]
    NoDictionary,
    #[error("the codec could not allocate its memory")]
    NoMemory,
    #[error("too many bytes of bodies are held")]
    NoRoom,
}

impl CodingError {
    /// The reason, in metrics.
    pub const fn reason(self) -> UndecodableReason {
        match self {
            Self::Unknown => UndecodableReason::Unasked,
            Self::Several => UndecodableReason::Several,
            Self::TooLarge => UndecodableReason::TooLarge,
            Self::Damaged => UndecodableReason::Damaged,
            Self::Window => UndecodableReason::Window,
            Self::OtherDictionary | Self::NoDictionary => UndecodableReason::OtherDictionary,
            Self::NoMemory | Self::NoRoom => UndecodableReason::NoRoom,
        }
    }
}

/// Why bytes are not taken for a dictionary: the fault of who configured it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DictionaryError {
    #[error("a dictionary has 1 to {DICTIONARY_BYTES} bytes, and this one has {0}")]
    Size(usize),
    #[error("a SHA-256 hash is written as 64 hexadecimal digits")]
    NotAHash,
    #[error("the dictionary's SHA-256 hash is {found}, and another one is expected")]
    OtherHash { found: String },
}
