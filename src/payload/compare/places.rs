//! Places of differences between two readings, in names that are no values: those of the schema, or
//! without one those that look like a field's name.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::payload::limits::{COMPARED_POINTERS, POINTER_BYTES, SHOWN_MEMBERS, SHOWN_NAME_BYTES};
use crate::payload::schema::{Kind, Known, Schema, Shape, Types};

/// The whole record, where one is not like the other at all.
pub(crate) const WHOLE: &str = "(record)";
/// The other form would be without fields that this one has.
const UNKNOWN_FIELDS: &str = "(unknown fields)";

/// The places in which two readings differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// JSON Pointers, at most [`COMPARED_POINTERS`].
    pointers: BTreeSet<String>,
    /// There are more.
    has_more: bool,
}

impl Differences {
    pub fn of_the_whole() -> Self {
        Self { pointers: BTreeSet::from([WHOLE.to_owned()]), has_more: false }
    }

    pub fn is_empty(&self) -> bool {
        self.pointers.is_empty() && !self.has_more
    }

    pub fn pointers(&self) -> impl Iterator<Item = &str> {
        self.pointers.iter().map(String::as_str)
    }

    pub const fn has_more(&self) -> bool {
        self.has_more
    }

    /// Places that differ in both.
    pub fn and(&self, other: &Self) -> Self {
        let pointers = self.pointers.intersection(&other.pointers).cloned().collect();
        Self { pointers, has_more: self.has_more && other.has_more }
    }

    pub(super) fn note(&mut self, place: &Place<'_>) {
        let pointer = if place.pointer.is_empty() { WHOLE } else { &place.pointer };
        self.note_pointer(pointer);
    }

    pub(super) fn note_unknown_fields(&mut self) {
        self.note_pointer(UNKNOWN_FIELDS);
    }

    fn note_pointer(&mut self, pointer: &str) {
        if self.pointers.contains(pointer) {
            return;
        }
        if self.pointers.len() < COMPARED_POINTERS {
            self.pointers.insert(pointer.to_owned());
        } else {
            self.has_more = true;
        }
    }
}

/// A value's place, and what the schema says of it.
pub(super) struct Place<'s> {
    pointer: Cow<'s, str>,
    says: Says<'s>,
}

#[derive(Clone, Copy)]
enum Says<'s> {
    /// There is no schema.
    Nothing,
    One(&'s Types, Kind),
    /// Elements of a list, or values of a map.
    Many(&'s Types, Kind),
    /// A `Struct` or an `Any`: its names may be anything.
    Free,
}

impl<'s> Place<'s> {
    /// A whole record without a schema.
    pub(super) const fn unknown() -> Self {
        Self { pointer: Cow::Borrowed(""), says: Says::Nothing }
    }

    pub(super) const fn of(schema: &'s Schema) -> Self {
        let root = Kind::Message { index: schema.root, is_delimited: false };
        Self { pointer: Cow::Borrowed(""), says: Says::One(&schema.types, root) }
    }

    /// A member of the object here, which has so many.
    pub(super) fn member(&self, name: &str, members: usize) -> Place<'_> {
        match self.says {
            Says::Nothing if members <= SHOWN_MEMBERS && looks_like_a_field(name) => self.below(name, Says::Nothing),
            Says::Nothing => self.below("*", Says::Nothing),
            Says::Many(types, kind) => self.below("*", Says::One(types, kind)),
            Says::One(types, Kind::Message { index, .. }) => {
                let message = types.message(index);
                let field = message.by_name(name).filter(|_| message.known == Known::No);
                match field.map(|field| &message.fields[usize::from(field)]) {
                    Some(field) if matches!(field.shape, Shape::List { .. } | Shape::Map { .. }) => {
                        self.below(&field.printed, Says::Many(types, field.kind))
                    }
                    Some(field) => self.below(&field.printed, Says::One(types, field.kind)),
                    None => self.below("*", Says::Free),
                }
            }
            Says::One(..) | Says::Free => self.below("*", Says::Free),
        }
    }

    /// An element of the list here.
    pub(super) fn element(&self) -> Place<'_> {
        let says = match self.says {
            Says::Many(types, kind) => Says::One(types, kind),
            Says::One(..) => Says::Free,
            says => says,
        };
        self.below("*", says)
    }

    fn below<'p>(&'p self, segment: &str, says: Says<'p>) -> Place<'p> {
        let segment = segment.replace('~', "~0").replace('/', "~1");
        let pointer = if self.pointer.len() + 1 + segment.len() <= POINTER_BYTES {
            Cow::Owned(format!("{}/{segment}", self.pointer))
        } else {
            Cow::Borrowed(&*self.pointer)
        };
        Place { pointer, says }
    }
}

/// Without a schema nobody can tell a map's key from a field's name. A key is somebody's data, so
/// what might be one is left out: numbers, mail addresses, anything with a dot or a space.
fn looks_like_a_field(name: &str) -> bool {
    let mut digits = 0;
    let is_plain = name.bytes().all(|byte| {
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        digits < 3 && (byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$'))
    });
    is_plain && name.len() <= SHOWN_NAME_BYTES && name.starts_with(|first: char| !first.is_ascii_digit())
}
