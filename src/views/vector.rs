//! Versions that a view was made of, and the order of two views by age. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::definition::JoinTarget;
use crate::switch::{Guard, is_on};

/// The versions of everything that a view was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewVector {
    /// The definition's number.
    pub definition: u64,
    /// The main record's version.
    pub main: u64,
    /// The versions of what it needed; 0 of what did not exist.
    pub(super) joined: BTreeMap<JoinTarget, u64>,
}

/// Why a view is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger<'t> {
    /// Its main record has this version, or a newer one.
    Main(u64),
    /// Record that a view needs, at this version or a newer one.
    Input(&'t JoinTarget, u64),
    /// Nobody knows what happened: everything is looked at, and nothing that was noted is believed.
    Afresh,
}

impl ViewVector {
    /// A greater definition, then a greater version of the main record; when both are equal, no
    /// input smaller and at least one greater.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        let (own, others) = (self.definition_and_main(), other.definition_and_main());
        if own != others {
            return own > others;
        }
        let mut targets = self.joined.keys().chain(other.joined.keys());
        targets.clone().all(|target| self.of(target) >= other.of(target))
            && targets.any(|target| self.of(target) > other.of(target))
    }

    fn definition_and_main(&self) -> (u64, u64) {
        (if is_on(Guard::DefinitionFirst) { self.definition } else { 0 }, self.main)
    }

    fn of(&self, target: &JoinTarget) -> u64 {
        self.joined.get(target).copied().unwrap_or_default()
    }

    /// True if a view with this vector shows the change behind the trigger. A record that it was
    /// not made of may still be one that it needs now.
    pub(super) fn covers(&self, trigger: Trigger<'_>) -> bool {
        match trigger {
            Trigger::Main(version) => self.main >= version,
            Trigger::Input(target, version) => self.joined.get(target).is_some_and(|known| *known >= version),
            Trigger::Afresh => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vector() -> impl Strategy<Value = ViewVector> {
        let target = (0..3u8).prop_map(|n| JoinTarget { record_type: "t".to_owned(), key: n.to_string() });
        // Small numbers, so that parts are often equal.
        (1..3u64, 1..3u64, proptest::collection::btree_map(target, 0..3u64, 0..3))
            .prop_map(|(definition, main, joined)| ViewVector { definition, main, joined })
    }

    proptest! {
        #[test]
        fn newer_is_a_strict_partial_order(a in vector(), b in vector(), c in vector()) {
            prop_assert!(!a.is_newer_than(&a));
            prop_assert!(!(a.is_newer_than(&b) && b.is_newer_than(&a)));
            if a.is_newer_than(&b) && b.is_newer_than(&c) {
                prop_assert!(a.is_newer_than(&c), "{a:?} {b:?} {c:?}");
            }
        }

        #[test]
        fn any_later_part_is_newer(a in vector(), by in 1..3u64, which in 0..5usize) {
            let mut later = a.clone();
            match which {
                0 => later.definition += by,
                1 => later.main += by,
                at => match later.joined.values_mut().nth(at - 2) {
                    Some(version) => *version += by,
                    None => return Ok(()),
                },
            }
            prop_assert!(later.is_newer_than(&a) && !a.is_newer_than(&later));
        }

        #[test]
        fn newer_covers_older_main_record(a in vector(), b in vector(), v in 0..4u64) {
            if a.definition == b.definition && a.is_newer_than(&b) && b.covers(Trigger::Main(v)) {
                prop_assert!(a.covers(Trigger::Main(v)));
            }
        }
    }

    fn read(text: &str) -> ViewVector {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn divergent_vectors_are_incomparable() {
        let one = read(r#"{"definition":1,"main":5,"joined":{"shard/a":2,"plan/x":1}}"#);
        let other = read(r#"{"definition":1,"main":5,"joined":{"shard/a":1,"plan/x":2}}"#);
        assert!(!one.is_newer_than(&other) && !other.is_newer_than(&one));
        let raised = read(r#"{"definition":2,"main":1,"joined":{}}"#);
        assert!(raised.is_newer_than(&one), "the definition's number goes first");
    }

    #[test]
    fn vector_covers_only_its_known_inputs() {
        let vector = read(r#"{"definition":1,"main":5,"joined":{"shard/a/b":2}}"#);
        assert!(vector.covers(Trigger::Main(5)) && !vector.covers(Trigger::Main(6)));
        let [known, unknown] =
            ["a/b", "a"].map(|key| JoinTarget { record_type: "shard".to_owned(), key: key.to_owned() });
        assert!(vector.covers(Trigger::Input(&known, 2)) && !vector.covers(Trigger::Input(&known, 3)));
        assert!(!vector.covers(Trigger::Input(&unknown, 0)));
        assert!(!vector.covers(Trigger::Afresh));
    }
}
