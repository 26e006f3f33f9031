//! Owns the nouns of the protocol (DESIGN.md section 1): region, record, version, generation, epoch.
//!
//! Everything else is written in these. Invariant: each is `Copy`, a number with a meaning, and cannot be mixed
//! up with another.

use std::fmt;

/// A configured region, by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u8);

impl RegionId {
    /// The place in the configuration, for indexing per-region state.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of regions, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RegionSet(pub u16);

impl RegionSet {
    /// No region.
    pub const EMPTY: Self = Self(0);
    /// Every region there can be.
    pub const ALL: Self = Self(u16::MAX);

    /// The first `count` regions: all that are configured.
    pub const fn first(count: usize) -> Self {
        Self(((1u32 << count) - 1) as u16)
    }

    /// This set and `region`.
    #[must_use]
    pub const fn with(self, region: RegionId) -> Self {
        Self(self.0 | 1 << region.0)
    }

    /// This set less `region`.
    #[must_use]
    pub const fn without(self, region: RegionId) -> Self {
        Self(self.0 & !(1 << region.0))
    }

    /// Whether `region` is in it.
    pub const fn contains(self, region: RegionId) -> bool {
        self.0 & 1 << region.0 != 0
    }

    /// How many there are.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether every region of `other` is in this one.
    pub const fn covers(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The regions in it, in order.
    pub fn iter(self) -> impl Iterator<Item = RegionId> {
        (0..16).map(RegionId).filter(move |region| self.contains(*region))
    }
}

impl FromIterator<RegionId> for RegionSet {
    fn from_iter<I: IntoIterator<Item = RegionId>>(regions: I) -> Self {
        regions.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// A record type that some route names, by its place among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u16);

/// A record: its type, and a keyed 64-bit hash over type and key. Keys themselves are not kept or logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    /// Which of the configured record types.
    pub record_type: TypeId,
    /// SipHash of type and key under the process's key.
    pub hash: u64,
}

/// What the source of truth gives each change of a record: positive, larger is newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// Below every real version: the floor of a record nobody has spoken of.
    pub const NONE: Self = Self(0);

    /// Whether a source of truth may have given it: stated at all, and below 2^62 (R15).
    pub const fn is_credible(self) -> bool {
        self.0 > 0 && self.0 < crate::model::limits::VERSION_CEILING
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A record's counter that announcements move, drawn from one process-wide sequence; a fill belongs to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// A region's counter that moves when messages may have been lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);
