//! Reasons why a message is not an announcement.

/// A verified message that is not an announcement. That is its publisher's fault, and a retry does
/// not help (R14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    #[error("neither a JSON object nor base64")]
    NotText,
    #[error("not valid JSON")]
    NotJson,
    /// Holds the field's name.
    #[error("{0} of the wrong type or range, or given twice")]
    WrongType(&'static str),
    #[error("not a Protobuf message")]
    NotProtobuf,
    #[error("an unknown kind")]
    UnknownKind,
    /// A record type or key is missing that the kind needs.
    #[error("no record type or no key")]
    NoRecord,
    #[error("a record type, key or publisher beyond its bound")]
    TooLong,
    /// Negative, and not -1, -2 or -3, which stand for kinds.
    #[error("a negative version")]
    NegativeVersion,
    #[error("a negative sequence")]
    NegativeSequence,
    /// A time before 1970, or one that is not valid.
    #[error("a time before 1970")]
    Timestamp,
}
