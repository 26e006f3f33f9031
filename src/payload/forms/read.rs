//! JSON to Protobuf, in one pass: a message's length is put before it when it is written.

mod well_known;

use std::borrow::Cow;
use std::collections::HashSet;

use buffa_descriptor::ScalarType;

use super::converted::Converted;
use super::error::{FormError, Problem};
use super::json::{Json, Token};
use super::print::{below, wire};
use super::scalar::{self, Scalar};
use super::wire::{Wire, put_length, put_tag, put_varint};
use crate::payload::limits::{FORM_BYTES, FORM_DEPTH};
use crate::payload::schema::{Field, Kind, Known, MessageType, Shape, Types};

pub(super) fn read(types: &Types, root: usize, text: &[u8]) -> Result<Converted, FormError> {
    let json = Json::new(text)?;
    let mut reader = Reader { types, json, out: Vec::with_capacity(text.len() / 2), seen: Vec::new(), unknown: 0 };
    let token = reader.json.token()?;
    reader.message(root, token, FORM_DEPTH)?;
    reader.json.finish()?;
    Ok(Converted { body: reader.out, unknown_fields: reader.unknown })
}

struct Reader<'a> {
    types: &'a Types,
    json: Json<'a>,
    out: Vec<u8>,
    /// A bit for each field and oneof of the messages that are being read, the outermost first.
    seen: Vec<u64>,
    unknown: usize,
}

/// Outcome of writing a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrote {
    Value,
    /// The default of its kind.
    Default,
    /// Nothing: an enum value that the schema does not know.
    Nothing,
}

/// Names in one object that the schema does not know.
type Strangers<'a> = HashSet<Cow<'a, str>>;

impl<'a> Reader<'a> {
    fn message(&mut self, index: usize, token: Token<'a>, depth: usize) -> Result<(), FormError> {
        let types = self.types;
        let message = types.message(index);
        match (message.known, token) {
            (Known::No, Token::Object) => self.object(message, false, depth),
            (Known::No, _) => Err(Problem::Not("an object").into()),
            (Known::Any, Token::Object) => self.any(depth),
            (Known::Any, _) => Err(Problem::Not("an object").into()),
            (known, token) => self.well_known(known, message, token, depth),
        }
    }

    /// The fields of an object; `is_any`: it has an `@type`, which was read before.
    fn object(&mut self, message: &'a MessageType, is_any: bool, depth: usize) -> Result<(), FormError> {
        let base = self.seen.len();
        self.seen.resize(base + (message.fields.len() + message.oneofs).div_ceil(64), 0);
        let (mut strangers, mut first) = (Strangers::new(), true);
        while let Some(name) = self.json.name(&mut first)? {
            let found = message.by_name(&name).filter(|_| !(is_any && name == "@type"));
            let Some(index) = found else {
                self.unknown += usize::from(!(is_any && name == "@type"));
                self.stranger(name, &mut strangers, depth)?;
                continue;
            };
            let field = &message.fields[usize::from(index)];
            if !self.mark(base, usize::from(index)) {
                return Err(FormError::from(Problem::Twice).below(&field.printed));
            }
            let is_set = self.field(field, depth).map_err(|error| error.below(&field.printed))?;
            if let Some(oneof) = field.oneof.filter(|_| is_set)
                && !self.mark(base, message.fields.len() + usize::from(oneof))
            {
                return Err(FormError::from(Problem::SecondMember).below(&field.printed));
            }
            if field.is_required && !is_set {
                return Err(Problem::Missing(field.printed.clone()).into());
            }
        }
        if message.required > 0 {
            let mut required = message.fields.iter().enumerate().filter(|(_, it)| it.is_required);
            let missing = required.find(|(index, _)| self.seen[base + index / 64] & 1 << (index % 64) == 0);
            if let Some((_, missing)) = missing {
                return Err(Problem::Missing(missing.printed.clone()).into());
            }
        }
        self.seen.truncate(base);
        Ok(())
    }

    /// Sets a bit; whether it was not set before.
    fn mark(&mut self, base: usize, bit: usize) -> bool {
        let word = &mut self.seen[base + bit / 64];
        let was = *word;
        *word |= 1 << (bit % 64);
        *word != was
    }

    fn stranger(&mut self, name: Cow<'a, str>, strangers: &mut Strangers<'a>, depth: usize) -> Result<(), Problem> {
        if !strangers.insert(name) {
            return Err(Problem::Twice);
        }
        let token = self.json.token()?;
        self.json.skip(&token, depth)
    }

    /// True if it is there: null is not.
    fn field(&mut self, field: &Field, depth: usize) -> Result<bool, FormError> {
        let token = self.json.token()?;
        match (field.shape, token) {
            (Shape::Present | Shape::Implicit, Token::Null) if !self.takes_null(field.kind) => Ok(false),
            (Shape::List { .. } | Shape::Map { .. }, Token::Null) => Ok(false),
            (Shape::List { packed }, Token::List) => {
                self.list(field.number, packed, field.kind, depth).map(|()| true)
            }
            (Shape::List { .. }, _) => Err(Problem::Not("a list").into()),
            (Shape::Map { key }, Token::Object) => self.map(field.number, key, field.kind, depth).map(|()| true),
            (Shape::Map { .. }, _) => Err(Problem::Not("an object").into()),
            (shape, token) => {
                let start = self.out.len();
                let wrote = self.single(field.number, field.kind, token, depth)?;
                if wrote == Wrote::Default && shape == Shape::Implicit {
                    self.out.truncate(start);
                }
                Ok(wrote != Wrote::Nothing)
            }
        }
    }

    /// True if JSON's null is a value for it.
    fn takes_null(&self, kind: Kind) -> bool {
        match kind {
            Kind::Enum { index, .. } => self.types.enumeration(index).is_null,
            Kind::Message { index, .. } => self.types.message(index).known == Known::Value,
            Kind::Scalar(_) => false,
        }
    }

    /// One value with its tag.
    fn single(&mut self, number: u32, kind: Kind, token: Token<'a>, depth: usize) -> Result<Wrote, FormError> {
        if self.out.len() > FORM_BYTES {
            return Err(Problem::TooLarge.into());
        }
        match kind {
            Kind::Message { index, is_delimited: true } => {
                put_tag(&mut self.out, number, 3);
                self.message(index, token, below(depth)?)?;
                put_tag(&mut self.out, number, 4);
                Ok(Wrote::Value)
            }
            Kind::Message { index, .. } => {
                put_tag(&mut self.out, number, 2);
                let start = self.out.len();
                self.message(index, token, below(depth)?)?;
                put_length(&mut self.out, start);
                Ok(Wrote::Value)
            }
            _ => {
                let start = self.out.len();
                put_tag(&mut self.out, number, code(wire(kind)));
                let wrote = self.bare(kind, token)?;
                if wrote == Wrote::Nothing {
                    self.out.truncate(start);
                }
                Ok(wrote)
            }
        }
    }

    /// A scalar or enum without its tag.
    fn bare(&mut self, kind: Kind, token: Token<'a>) -> Result<Wrote, Problem> {
        let is_default = match kind {
            Kind::Scalar(of) => {
                let value = Scalar::parse(of, token)?;
                value.encode(of, &mut self.out);
                value.is_default()
            }
            Kind::Enum { index, is_closed } => {
                let Some(number) = self.enumeration(index, is_closed, &token)? else {
                    self.unknown += 1;
                    return Ok(Wrote::Nothing);
                };
                put_varint(&mut self.out, i64::from(number) as u64);
                number == 0
            }
            Kind::Message { .. } => return Err(Problem::Not("a scalar")),
        };
        Ok(if is_default { Wrote::Default } else { Wrote::Value })
    }

    fn enumeration(&self, index: usize, is_closed: bool, token: &Token<'_>) -> Result<Option<i32>, Problem> {
        let of = self.types.enumeration(index);
        let number = match token {
            Token::Null if of.is_null => return Ok(Some(0)),
            Token::Text(name) => match (of.number(name), scalar::integer(token)) {
                (Some(number), _) => return Ok(Some(number)),
                (None, number @ Some(_)) => number,
                (None, None) => return Ok(None),
            },
            _ => scalar::integer(token),
        };
        let number = number.and_then(|it| i32::try_from(it).ok()).ok_or(Problem::Not("a value of the enum"))?;
        Ok((!is_closed || of.name(number).is_some()).then_some(number))
    }

    fn list(&mut self, number: u32, packed: bool, kind: Kind, depth: usize) -> Result<(), FormError> {
        let packed = packed && matches!(wire(kind), Wire::Varint | Wire::Fixed32 | Wire::Fixed64);
        let before = self.out.len();
        if packed {
            put_tag(&mut self.out, number, 2);
        }
        let (start, mut first) = (self.out.len(), true);
        while self.json.element(&mut first)? {
            let token = self.json.token()?;
            if token == Token::Null && !self.takes_null(kind) {
                return Err(FormError::from(Problem::Null).below("*"));
            }
            let wrote = if packed {
                self.bare(kind, token).map_err(FormError::from)
            } else {
                self.single(number, kind, token, depth)
            };
            wrote.map_err(|error| error.below("*"))?;
        }
        if packed && self.out.len() > start {
            put_length(&mut self.out, start);
        } else if packed {
            self.out.truncate(before);
        }
        Ok(())
    }

    fn map(&mut self, number: u32, of: ScalarType, kind: Kind, depth: usize) -> Result<(), FormError> {
        let (mut keys, mut first) = (HashSet::new(), true);
        while let Some(name) = self.json.name(&mut first)? {
            let before = self.out.len();
            put_tag(&mut self.out, number, 2);
            let start = self.out.len();
            let key = Scalar::parse_key(of, name).map_err(in_entry)?;
            put_tag(&mut self.out, 1, code(scalar::wire(of)));
            key.encode(of, &mut self.out);
            if !keys.insert(self.out[start..].to_vec()) {
                return Err(in_entry(Problem::Twice));
            }
            let token = self.json.token()?;
            if token == Token::Null && !self.takes_null(kind) {
                return Err(in_entry(Problem::Null));
            }
            match self.single(2, kind, token, below(depth)?).map_err(|error| error.below("*"))? {
                Wrote::Nothing => self.out.truncate(before),
                _ => put_length(&mut self.out, start),
            }
        }
        Ok(())
    }
}

/// A problem of a map's entry, whose key is not shown.
fn in_entry(problem: Problem) -> FormError {
    FormError::from(problem).below("*")
}

fn code(wire: Wire) -> u8 {
    match wire {
        Wire::Varint => 0,
        Wire::Fixed64 => 1,
        Wire::Length => 2,
        Wire::Group => 3,
        Wire::Fixed32 => 5,
    }
}
