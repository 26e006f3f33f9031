//! The messages that have a JSON form of their own.

use buffa_descriptor::ScalarType;

use super::{Printed, Printer, any_type, below};
use crate::payload::forms::error::Problem;
use crate::payload::forms::scalar::{Scalar, print_json};
use crate::payload::forms::well_known::{print_duration, print_path, print_timestamp};
use crate::payload::forms::wire::Wire;
use crate::payload::schema::{Field, Kind, Known, MessageType, Shape};

impl<'a> Printer<'a> {
    /// Index of the held field with this number, from `base` on.
    fn part(&self, message: &MessageType, base: usize, number: u32) -> Option<usize> {
        let field = message.by_number(number)?;
        (base..self.held.len()).rfind(|at| self.held[*at].field == field)
    }

    /// An integer of a well-known type.
    fn integer(&self, message: &MessageType, base: usize, number: u32) -> Result<i64, Problem> {
        match self.part(message, base, number) {
            Some(at) => Ok(self.items(self.held[at]).varint()? as i64),
            None => Ok(0),
        }
    }

    pub(super) fn well_known(&mut self, message: &'a MessageType, base: usize, depth: usize) -> Printed {
        let held = base..self.held.len();
        match message.known {
            Known::Any => return self.any(message, base, depth),
            Known::Timestamp | Known::Duration => {
                let (seconds, nanos) = (self.integer(message, base, 1)?, self.integer(message, base, 2)? as i32);
                let print = if message.known == Known::Timestamp { print_timestamp } else { print_duration };
                print_json(&mut self.out, &print(seconds, nanos.into())?);
            }
            Known::FieldMask => {
                let mut text = String::new();
                for at in held {
                    if let Scalar::Text(path) = self.scalar(ScalarType::String, at)? {
                        text.push_str(if text.is_empty() { "" } else { "," });
                        print_path(&path, &mut text)?;
                    }
                }
                print_json(&mut self.out, &text);
            }
            Known::Struct | Known::ListValue => match message.fields.first() {
                Some(Field { kind, shape: Shape::Map { key }, .. }) => {
                    self.map(*key, *kind, held, depth).map(drop)?
                }
                Some(Field { kind, .. }) => self.list(*kind, held, depth).map(drop)?,
                None => {}
            },
            Known::Value => {
                let Some(last) = self.held[held.clone()].last().copied() else {
                    return Err(Problem::ValueWithoutKind.into());
                };
                let same = self.held[held.clone()].iter().rev().take_while(|it| it.field == last.field).count();
                let kind = message.fields[usize::from(last.field)].kind;
                if kind == Kind::Scalar(ScalarType::Double)
                    && !matches!(self.scalar(ScalarType::Double, held.end - 1)?, Scalar::Double(it) if it.is_finite())
                {
                    return Err(Problem::Not("a finite number, as a google.protobuf.Value must be").into());
                }
                self.value(kind, held.end - same..held.end, depth)?;
            }
            _ => match message.fields.first() {
                Some(field) if held.is_empty() => self.default(field.kind),
                Some(field) => self.value(field.kind, held, depth)?,
                None => {}
            },
        }
        Ok(())
    }

    fn any(&mut self, message: &MessageType, base: usize, depth: usize) -> Printed {
        let url = self.part(message, base, 1).map(|at| self.scalar(ScalarType::String, at)).transpose()?;
        let value = self.part(message, base, 2).map(|at| self.held[at]);
        let Some(Scalar::Text(url)) = url.filter(|url| !url.is_default()) else {
            if value.is_some_and(|it| it.start < it.end) {
                return Err(Problem::AnyOfUnknownType.into());
            }
            self.out.extend_from_slice(b"{}");
            return Ok(());
        };
        let index = any_type(self.types, &url)?;
        let of = self.types.message(index);
        self.out.extend_from_slice(b"{\"@type\":");
        print_json(&mut self.out, &*url);
        let at = self.held.len();
        let place = value.map_or(0..0, |it| it.start as usize..it.end as usize);
        self.hold_part(0, 0, Wire::Length, place)?;
        if of.known == Known::No {
            self.hold(of, at..at + 1)?;
            self.print_fields(of, at + 1, false, below(depth)?)?;
        } else {
            self.out.extend_from_slice(b",\"value\":");
            self.message(index, at..at + 1, below(depth)?)?;
        }
        self.out.push(b'}');
        Ok(())
    }
}
