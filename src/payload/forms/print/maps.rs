//! Maps: their entries are messages on the wire.

use std::borrow::Cow;
use std::ops::Range;

use buffa_descriptor::ScalarType;

use super::{Printed, Printer, below, wire};
use crate::payload::forms::error::{FormError, Problem};
use crate::payload::forms::scalar::{self, Scalar, print_json};
use crate::payload::forms::wire::{Items, Wire};
use crate::payload::schema::Kind;

/// The key of an entry of a map; in order, so that equal ones meet and the JSON is always the same.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Text(&'a str),
}

impl<'a> Printer<'a> {
    /// Prints a map, in the order of its keys; whether it has entries.
    pub(super) fn map(
        &mut self,
        of: ScalarType,
        kind: Kind,
        held: Range<usize>,
        depth: usize,
    ) -> Result<bool, FormError> {
        let mut entries = Vec::with_capacity(held.len());
        for at in held {
            match self.key(of, kind, at)? {
                Some(key) => entries.push((key, at)),
                None => self.unknown += 1,
            }
        }
        // Of equal keys the last one counts; the sort keeps their order.
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut first = true;
        self.out.push(b'{');
        for (index, (key, at)) in entries.iter().enumerate() {
            if entries.get(index + 1).is_some_and(|(next, _)| next == key) {
                continue;
            }
            self.comma(&mut first)?;
            match key {
                Key::Text(text) => print_json(&mut self.out, text),
                Key::Bool(value) => print_json(&mut self.out, if *value { "true" } else { "false" }),
                Key::Int(value) => Scalar::Int(*value).print(ScalarType::Int64, &mut self.out),
                Key::Uint(value) => Scalar::Uint(*value).print(ScalarType::Uint64, &mut self.out),
            }
            self.out.push(b':');
            self.entry(of, kind, *at, below(depth)?).map_err(|error| error.below("*"))?;
        }
        self.out.push(b'}');
        Ok(!first)
    }

    /// The key of an entry; `None` if the entry is unknown, since its value is.
    fn key(&self, of: ScalarType, kind: Kind, at: usize) -> Result<Option<Key<'a>>, Problem> {
        let mut key = Scalar::default(of);
        let mut items = self.items(self.held[at]);
        while let Some(item) = items.next()? {
            let mut inside = Items { body: self.body, at: item.start, end: item.end };
            if item.number == 1 && item.wire == scalar::wire(of) {
                key = Scalar::decode(of, &mut inside)?;
            }
            if let (2, Wire::Varint, Kind::Enum { index, is_closed: true }) = (item.number, item.wire, kind)
                && self.types.enumeration(index).name(inside.varint()? as i32).is_none()
            {
                return Ok(None);
            }
        }
        Ok(Some(match key {
            Scalar::Bool(it) => Key::Bool(it),
            Scalar::Int(it) => Key::Int(it),
            Scalar::Uint(it) => Key::Uint(it),
            Scalar::Text(Cow::Borrowed(it)) => Key::Text(it),
            _ => return Err(Problem::NotProtobuf),
        }))
    }

    /// The value of an entry.
    fn entry(&mut self, key: ScalarType, kind: Kind, at: usize, depth: usize) -> Printed {
        let base = self.held.len();
        let mut items = self.items(self.held[at]);
        while let Some(item) = items.next()? {
            match (item.number, item.wire) {
                (1, of) if of == scalar::wire(key) => {}
                (2, of) if of == wire(kind) => self.hold_part(0, 0, of, item.start..item.end)?,
                _ => self.unknown += 1,
            }
        }
        match kind {
            Kind::Message { index, .. } => self.message(index, base..self.held.len(), below(depth)?)?,
            _ if self.held.len() == base => self.default(kind),
            _ => self.value(kind, base..self.held.len(), depth)?,
        }
        self.held.truncate(base);
        Ok(())
    }
}
