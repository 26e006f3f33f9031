//! `If-Match` and `If-None-Match`: compared with the version that is read; those of a write are held
//! by the store's condition until it takes place.

use serde::Serialize;

/// Conditions of a caller on the record; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Preconditions {
    pub matches: Option<Tags>,
    pub none_match: Option<Tags>,
}

/// Entity tags of a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Tags {
    /// `*`: that of any record that exists.
    Any,
    These(Vec<u64>),
}

impl Tags {
    /// True if one of them is that of a record of this version (a tombstone has one too), which
    /// `exists` or is deleted.
    fn include(&self, version: Option<u64>, exists: bool) -> bool {
        match self {
            Self::Any => exists,
            Self::These(versions) => version.is_some_and(|version| versions.contains(&version)),
        }
    }
}

impl Preconditions {
    pub const fn none() -> Self {
        Self { matches: None, none_match: None }
    }

    /// Only where there is no record.
    pub const fn absent() -> Self {
        Self { matches: None, none_match: Some(Tags::Any) }
    }

    /// Only where the record, or its tombstone, has this version.
    pub fn version_is(version: u64) -> Self {
        Self { matches: Some(Tags::These(vec![version])), none_match: None }
    }

    pub fn may_replace(&self, version: Option<u64>, exists: bool) -> bool {
        self.admits(version, exists) && !self.is_unchanged(version, exists)
    }

    /// True if the current version is one that `If-Match` demands, which holds for reads too.
    pub fn admits(&self, version: Option<u64>, exists: bool) -> bool {
        self.matches.as_ref().is_none_or(|tags| tags.include(version, exists))
    }

    /// True if `If-None-Match` names the current version: then a read brings nothing new.
    pub fn is_unchanged(&self, version: Option<u64>, exists: bool) -> bool {
        self.none_match.as_ref().is_some_and(|tags| tags.include(version, exists))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preconditions_follow_rfc_9110() {
        let (absent, live, tombstone) = ((None, false), (Some(7), true), (Some(7), false));
        for (conditions, on_absent, on_live, on_tombstone) in [
            (Preconditions::none(), true, true, true),
            (Preconditions::absent(), true, false, true),
            (Preconditions::version_is(7), false, true, true),
            (Preconditions::version_is(6), false, false, false),
            (matches(Tags::Any), false, true, false),
            (matches(these(&[])), false, false, false),
            (matches(these(&[6, 7])), false, true, true),
            (none_match(these(&[6, 7])), true, false, false),
            (none_match(these(&[6])), true, true, true),
            (Preconditions { matches: Some(Tags::Any), none_match: Some(these(&[7])) }, false, false, false),
        ] {
            let held = [absent, live, tombstone].map(|(version, exists)| conditions.may_replace(version, exists));
            assert_eq!(held, [on_absent, on_live, on_tombstone], "{conditions:?}");
        }
    }

    fn matches(tags: Tags) -> Preconditions {
        Preconditions { matches: Some(tags), none_match: None }
    }

    fn none_match(tags: Tags) -> Preconditions {
        Preconditions { matches: None, none_match: Some(tags) }
    }

    fn these(versions: &[u64]) -> Tags {
        Tags::These(versions.to_vec())
    }
}
