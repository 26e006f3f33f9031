//! Protobuf to JSON.
//!
//! A message's fields are found first and then printed slot by slot: on the wire, list elements may be
//! scattered, a message may come in pieces that are merged, and of a oneof only the last member counts.
//! Nothing of the body is copied meanwhile: what is found are places in it.

mod maps;
mod well_known;

use std::ops::Range;

use buffa_descriptor::ScalarType;

use super::converted::Converted;
use super::error::{FormError, Problem};
use super::scalar::{self, Scalar, print_json};
use super::wire::{Item, Items, Wire};
use crate::payload::limits::{FORM_BYTES, FORM_DEPTH, FORM_FIELDS};
use crate::payload::schema::{Field, Kind, Known, MessageType, Shape, Types};

pub(super) fn printed(types: &Types, root: usize, body: &[u8]) -> Result<Converted, FormError> {
    let mut printer = Printer { types, body, out: Vec::new(), held: Vec::new(), unknown: 0 };
    printer.out.reserve(body.len() * 2);
    printer.hold_part(0, 0, Wire::Length, 0..body.len())?;
    printer.message(root, 0..1, FORM_DEPTH)?;
    // `name` checks the size, and nothing follows the last value.
    printer.check_size()?;
    Ok(Converted { body: printer.out, unknown_fields: printer.unknown })
}

struct Printer<'a> {
    types: &'a Types,
    body: &'a [u8],
    out: Vec<u8>,
    /// Fields found of the messages that are being printed, the outermost first.
    held: Vec<Held>,
    unknown: usize,
}

/// A value in the body.
#[derive(Clone, Copy)]
struct Held {
    /// Fields of one oneof share it.
    slot: u16,
    field: u16,
    wire: Wire,
    start: u32,
    end: u32,
}

type Printed = Result<(), FormError>;

impl<'a> Printer<'a> {
    /// Prints a message that lies in these parts of what is held.
    fn message(&mut self, index: usize, parts: Range<usize>, depth: usize) -> Printed {
        let types = self.types;
        let message = types.message(index);
        let base = self.held.len();
        self.hold(message, parts)?;
        match message.known {
            Known::No => {
                self.out.push(b'{');
                self.print_fields(message, base, true, depth)?;
                self.out.push(b'}');
            }
            _ => self.well_known(message, base, depth)?,
        }
        self.held.truncate(base);
        Ok(())
    }

    /// Finds the fields of a message that lies in `parts`.
    fn hold(&mut self, message: &MessageType, parts: Range<usize>) -> Result<(), Problem> {
        let base = self.held.len();
        for part in parts {
            let mut items = self.items(self.held[part]);
            while let Some(item) = items.next()? {
                let found = message.by_number(item.number).filter(|field| self.is_known(message, *field, item));
                let Some(field) = found else {
                    self.unknown += 1;
                    continue;
                };
                let slot = message.fields[usize::from(field)].slot;
                self.hold_part(slot, field, item.wire, item.start..item.end)?;
            }
        }
        if !self.held[base..].is_sorted_by_key(|it| it.slot) {
            self.held[base..].sort_unstable_by_key(|it| (it.slot, it.start));
        }
        Ok(())
    }

    fn hold_part(&mut self, slot: u16, field: u16, wire: Wire, place: Range<usize>) -> Result<(), Problem> {
        if self.held.len() == FORM_FIELDS {
            return Err(Problem::TooMany);
        }
        self.held.push(Held { slot, field, wire, start: narrowed(place.start)?, end: narrowed(place.end)? });
        Ok(())
    }

    fn items(&self, held: Held) -> Items<'a> {
        Items { body: self.body, at: held.start as usize, end: held.end as usize }
    }

    /// True if the field's value is of the schema's type: otherwise it is treated as unknown.
    fn is_known(&self, message: &MessageType, field: u16, item: Item) -> bool {
        let field = &message.fields[usize::from(field)];
        let own = match (field.shape, field.kind) {
            (Shape::Map { .. }, _) => Wire::Length,
            (_, kind) => wire(kind),
        };
        let is_packed = matches!(field.shape, Shape::List { .. }) && own != Wire::Group && item.wire == Wire::Length;
        if item.wire != own {
            return is_packed;
        }
        let mut items = Items { body: self.body, at: item.start, end: item.end };
        match field.kind {
            Kind::Enum { index, is_closed: true } if own == Wire::Varint => {
                items.varint().is_ok_and(|number| self.types.enumeration(index).name(number as i32).is_some())
            }
            _ => true,
        }
    }

    /// Prints the located values from `base` on, without braces; `first` if no member is before them.
    fn print_fields(&mut self, message: &'a MessageType, base: usize, mut first: bool, depth: usize) -> Printed {
        let (mut group_start, end) = (base, self.held.len());
        let mut required_seen = 0;
        while group_start < end {
            let slot = self.held[group_start].slot;
            let group_end = group_start + self.held[group_start..end].iter().take_while(|it| it.slot == slot).count();
            // In a oneof the last member on the wire wins; only its trailing run counts, since an earlier
            // piece was replaced by another member.
            let number = self.held[group_end - 1].field;
            let group = &self.held[group_start..group_end];
            let run_len = group.iter().rev().take_while(|it| it.field == number).count();
            let field = &message.fields[usize::from(number)];
            self.field(field, group_end - run_len..group_end, &mut first, depth)
                .map_err(|error| error.below(&field.printed))?;
            required_seen += usize::from(field.is_required);
            group_start = group_end;
        }
        if required_seen < message.required {
            let values = &self.held[base..end];
            let mut required_fields = message.fields.iter().filter(|it| it.is_required);
            let missing = required_fields.find(|it| values.iter().all(|value| value.slot != it.slot));
            return Err(Problem::Missing(missing.map(|it| it.printed.clone()).unwrap_or_default()).into());
        }
        Ok(())
    }

    fn name(&mut self, field: &Field, first: &mut bool) -> Result<(), Problem> {
        if !std::mem::take(first) {
            self.out.push(b',');
        }
        self.out.extend_from_slice(field.quoted.as_bytes());
        self.check_size()
    }

    fn check_size(&self) -> Result<(), Problem> {
        if self.out.len() > FORM_BYTES { Err(Problem::TooLarge) } else { Ok(()) }
    }

    fn default(&mut self, kind: Kind) {
        match kind {
            Kind::Scalar(of) => Scalar::default(of).print(of, &mut self.out),
            Kind::Enum { index, .. } => self.enumeration(index, self.types.enumeration(index).first),
            Kind::Message { .. } => {}
        }
    }

    fn field(&mut self, field: &Field, held: Range<usize>, first: &mut bool, depth: usize) -> Printed {
        match field.shape {
            Shape::Present | Shape::Implicit => {
                if field.shape == Shape::Implicit && self.is_default(field.kind, held.end - 1)? {
                    return Ok(());
                }
                self.name(field, first)?;
                self.value(field.kind, held, depth)
            }
            Shape::List { .. } => {
                let before = self.out.len();
                let was_first = *first;
                self.name(field, first)?;
                if !self.list(field.kind, held, depth)? {
                    self.out.truncate(before);
                    *first = was_first;
                }
                Ok(())
            }
            Shape::Map { key } => {
                let before = self.out.len();
                let was_first = *first;
                self.name(field, first)?;
                if !self.map(key, field.kind, held, depth)? {
                    self.out.truncate(before);
                    *first = was_first;
                }
                Ok(())
            }
        }
    }

    fn scalar(&self, of: ScalarType, at: usize) -> Result<Scalar<'a>, Problem> {
        Scalar::decode(of, &mut self.items(self.held[at]))
    }

    fn is_default(&self, kind: Kind, at: usize) -> Result<bool, Problem> {
        match kind {
            Kind::Scalar(of) => Ok(self.scalar(of, at)?.is_default()),
            Kind::Enum { .. } => Ok(self.items(self.held[at]).varint()? as i32 == 0),
            Kind::Message { .. } => Ok(false),
        }
    }

    /// One value: the last of these, or the message that all of them are together.
    fn value(&mut self, kind: Kind, held: Range<usize>, depth: usize) -> Printed {
        match kind {
            Kind::Scalar(of) => self.scalar(of, held.end - 1)?.print(of, &mut self.out),
            Kind::Enum { index, .. } => {
                let number = self.items(self.held[held.end - 1]).varint()?;
                self.enumeration(index, number as i32);
            }
            Kind::Message { index, .. } => self.message(index, held, below(depth)?)?,
        }
        Ok(())
    }

    fn enumeration(&mut self, index: usize, number: i32) {
        let of = self.types.enumeration(index);
        match of.name(number) {
            _ if of.is_null && number == 0 => self.out.extend_from_slice(b"null"),
            Some(name) => print_json(&mut self.out, name),
            None => Scalar::Int(number.into()).print(ScalarType::Int32, &mut self.out),
        }
    }

    /// Prints a list, and returns true if it has elements.
    fn list(&mut self, kind: Kind, held: Range<usize>, depth: usize) -> Result<bool, FormError> {
        let mut first = true;
        self.out.push(b'[');
        for at in held {
            if self.held[at].wire == Wire::Length && wire(kind) != Wire::Length {
                let mut items = self.items(self.held[at]);
                while items.at < items.end {
                    self.packed(kind, &mut items, &mut first).map_err(|it| FormError::from(it).below("*"))?;
                }
            } else {
                self.comma(&mut first)?;
                self.value(kind, at..at + 1, depth).map_err(|error| error.below("*"))?;
            }
        }
        self.out.push(b']');
        Ok(!first)
    }

    fn packed(&mut self, kind: Kind, items: &mut Items<'a>, first: &mut bool) -> Result<(), Problem> {
        match kind {
            Kind::Scalar(of) => {
                let value = Scalar::decode(of, items)?;
                self.comma(first)?;
                value.print(of, &mut self.out);
            }
            Kind::Enum { index, is_closed } => {
                let number = items.varint()? as i32;
                if is_closed && self.types.enumeration(index).name(number).is_none() {
                    self.unknown += 1;
                } else {
                    self.comma(first)?;
                    self.enumeration(index, number);
                }
            }
            Kind::Message { .. } => return Err(Problem::NotProtobuf),
        }
        Ok(())
    }

    fn comma(&mut self, first: &mut bool) -> Result<(), Problem> {
        if !std::mem::take(first) {
            self.out.push(b',');
        }
        self.check_size()
    }
}

/// The type that a URL names behind its last slash.
pub(super) fn any_type(types: &Types, url: &str) -> Result<usize, Problem> {
    let name = url.rsplit_once('/').map(|(_, name)| name);
    name.and_then(|name| types.index_of(name)).ok_or(Problem::AnyOfUnknownType)
}

fn narrowed(offset: usize) -> Result<u32, Problem> {
    u32::try_from(offset).map_err(|_| Problem::TooLarge)
}

pub(super) fn below(depth: usize) -> Result<usize, Problem> {
    depth.checked_sub(1).ok_or(Problem::TooDeep)
}

/// Wire type of one value of this kind.
pub(super) fn wire(kind: Kind) -> Wire {
    match kind {
        Kind::Scalar(of) => scalar::wire(of),
        Kind::Enum { .. } => Wire::Varint,
        Kind::Message { is_delimited: true, .. } => Wire::Group,
        Kind::Message { .. } => Wire::Length,
    }
}
