//! Differences of a view from its expected state, and of a region's copy from a view. Pure.

use bytes::Bytes;

use super::make::Unmappable;
use super::stored::ViewNote;
use super::vector::ViewVector;
use crate::engine::Item;

/// Difference of a copy from its original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Disagreement {
    /// It is not there.
    Missing,
    /// There is nothing that it could be a copy of.
    Extra,
    /// It was made of an older definition or main record, or has an older version.
    Older,
    /// It was made of what is newer than what there is: the original lost something.
    Newer,
    /// It should be the same, and has another content.
    Different,
    /// Something that it was joined with is newer.
    OldInput,
    /// Its records cannot be made into a view.
    Unmappable,
    /// A part of it cannot be read: Nearside did not write it.
    Unreadable,
}

impl Disagreement {
    /// True if making or copying it again mends it.
    pub const fn is_mendable(self) -> bool {
        matches!(self, Self::Missing | Self::Older | Self::Different | Self::OldInput)
    }
}

/// Expected state of a view; `None` if there is no main record.
pub(super) type Expected = Option<(ViewVector, Result<Option<Bytes>, Unmappable>)>;

/// Disagreement of a view with its expected state, by its note and by what a reader sees.
pub(super) fn of_view(expected: &Expected, note: &ViewNote, shown: Option<&Item>) -> Option<Disagreement> {
    let Some((vector, content)) = expected else { return shown.map(|_| Disagreement::Extra) };
    let Ok(content) = content else { return Some(Disagreement::Unmappable) };
    let Some(shown) = shown else { return Some(Disagreement::Missing) };
    if vector.is_newer_than(&note.vector) {
        let is_own = (vector.definition, vector.main) == (note.vector.definition, note.vector.main);
        return Some(if is_own { Disagreement::OldInput } else { Disagreement::Older });
    }
    if *vector != note.vector {
        return Some(Disagreement::Newer);
    }
    (shown.body != *content || shown.version != note.version).then_some(Disagreement::Different)
}

/// Disagreement of a region's copy with the view.
pub(super) fn of_copy(view: Option<&Item>, copy: Option<&Item>) -> Option<Disagreement> {
    match (view, copy) {
        (None, None) => None,
        (Some(_), None) => Some(Disagreement::Missing),
        (None, Some(_)) => Some(Disagreement::Extra),
        (Some(view), Some(copy)) => match view.version.cmp(&copy.version) {
            std::cmp::Ordering::Greater => Some(Disagreement::Older),
            std::cmp::Ordering::Less => Some(Disagreement::Newer),
            std::cmp::Ordering::Equal => (view.body != copy.body).then_some(Disagreement::Different),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ItemKey;

    fn item(version: u64, body: &'static str) -> Item {
        Item::new(ItemKey::new("p", "k"), version).with_body(Bytes::from_static(body.as_bytes()))
    }

    fn vector(definition: u64, main: u64, input: u64) -> ViewVector {
        let text = format!(r#"{{"definition":{definition},"main":{main},"joined":{{"t/a":{input}}}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn judges_view_by_vector_then_bytes() {
        let right = Some((vector(2, 5, 3), Ok(Some(Bytes::from_static(b"{}")))));
        let shown = item(7, "{}");
        for (vector, shown, how) in [
            (vector(2, 5, 3), Some(&shown), None),
            (vector(2, 5, 3), None, Some(Disagreement::Missing)),
            (vector(1, 5, 3), Some(&shown), Some(Disagreement::Older)),
            (vector(2, 4, 9), Some(&shown), Some(Disagreement::Older)),
            (vector(2, 5, 2), Some(&shown), Some(Disagreement::OldInput)),
            (vector(2, 5, 4), Some(&shown), Some(Disagreement::Newer)),
            (vector(3, 5, 3), Some(&shown), Some(Disagreement::Newer)),
            (vector(2, 5, 3), Some(&item(7, "[]")), Some(Disagreement::Different)),
            (vector(2, 5, 3), Some(&item(6, "{}")), Some(Disagreement::Different)),
        ] {
            let note = ViewNote { vector, version: 7, ..ViewNote::default() };
            assert_eq!(of_view(&right, &note, shown), how, "{note:?} {shown:?}");
        }
        assert_eq!(of_view(&None, &ViewNote::default(), Some(&shown)), Some(Disagreement::Extra));
        assert_eq!(of_view(&None, &ViewNote::default(), None), None);
        let broken = Some((vector(2, 5, 3), Err(Unmappable::Main)));
        assert_eq!(of_view(&broken, &ViewNote::default(), None), Some(Disagreement::Unmappable));
    }

    #[test]
    fn judges_copy_by_version_and_bytes() {
        let view = item(5, "{}");
        for (copy, expected) in [
            (Some(item(5, "{}")), None),
            (None, Some(Disagreement::Missing)),
            (Some(item(4, "{}")), Some(Disagreement::Older)),
            (Some(item(6, "{}")), Some(Disagreement::Newer)),
            (Some(item(5, "[]")), Some(Disagreement::Different)),
            (Some(Item::new(ItemKey::new("p", "k"), 5)), Some(Disagreement::Different)),
        ] {
            assert_eq!(of_copy(Some(&view), copy.as_ref()), expected);
        }
        assert_eq!(of_copy(None, Some(&view)), Some(Disagreement::Extra));
        assert_eq!(of_copy(None, None), None);
    }
}
