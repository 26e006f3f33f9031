//! The nouns of the protocol: region, record, version, generation, epoch. `docs/architecture.md`
//! explains the words.
//!
//! Each is a `Copy` number with a type of its own, so that one cannot be mistaken for another.

use std::fmt;

/// A configured region, by its position in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u8);

impl RegionId {
    /// The position in the configuration, for indexing per-region state.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of regions, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RegionSet(pub u16);

impl RegionSet {
    pub const EMPTY: Self = Self(0);
    /// Every region there can be.
    pub const ALL: Self = Self(u16::MAX);

    /// The first `count` regions.
    pub const fn first(count: usize) -> Self {
        Self(((1u32 << count) - 1) as u16)
    }

    #[must_use]
    pub const fn with(self, region: RegionId) -> Self {
        Self(self.0 | 1 << region.0)
    }

    #[must_use]
    pub const fn without(self, region: RegionId) -> Self {
        Self(self.0 & !(1 << region.0))
    }

    pub const fn contains(self, region: RegionId) -> bool {
        self.0 & 1 << region.0 != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if this set contains every region of `other`.
    pub const fn covers(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The regions in the set, in configuration order.
    pub fn iter(self) -> impl Iterator<Item = RegionId> {
        (0..16).map(RegionId).filter(move |region| self.contains(*region))
    }
}

impl FromIterator<RegionId> for RegionSet {
    fn from_iter<I: IntoIterator<Item = RegionId>>(regions: I) -> Self {
        regions.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// A route, and one upstream of it where there are two: it survives a reload as long as the route
/// shows the same to the same readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub u16);

/// A route's position in one reading of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteIndex(pub usize);

/// A record type that some route names, by its position among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u16);

/// A record: its type, and a keyed 64-bit hash of type and key. Keys themselves are neither kept
/// nor logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    pub record_type: TypeId,
    /// SipHash of type and key, under the process's secret.
    pub hash: u64,
}

/// Number that the source of truth gives each change of a record: positive, and larger is newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// Below every real version: the floor of a record that nobody has mentioned.
    pub const NONE: Self = Self(0);

    /// True if a source of truth may have given this version: it is stated at all, and below 2^62
    /// (R15).
    pub const fn is_credible(self) -> bool {
        self.0 > 0 && self.0 < crate::model::limits::VERSION_CEILING
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A record's counter, moved by announcements and drawn from one process-wide sequence. A fill
/// belongs to one generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// A region's counter, moved when messages may have been lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);
