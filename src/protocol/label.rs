//! Why an answer cannot be called simply fresh: one word from the decision to `Cache-Status` and
//! the metrics.

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Label {
    /// Something newer was announced or served (R1).
    BelowFloor,
    /// A record's floor was dropped, or its version jumped (R15).
    FloorEscaped,
    /// The previous value, while the announced one is fetched (`freshness.grace`).
    Grace,
    /// Every region failed.
    StaleIfError,
    /// The caller takes stale replies (RFC 9111, 5.2.1.2).
    MaxStale,
    /// It was fresh, and no lease shows that it still is (R9).
    Unproven,
    /// It was fresh, but announcements are seen to miss its record type (R21).
    Unwired,
    /// Within its short TTL, being rechecked (R5).
    Provisional,
    /// No region that knows the newest grants could say whether its caller may still have it (R22).
    GrantsUnproven,
}

impl Label {
    /// Those that a metric counts as stale answers.
    pub const COUNTED: [Self; 5] =
        [Self::BelowFloor, Self::FloorEscaped, Self::Grace, Self::StaleIfError, Self::GrantsUnproven];
}
