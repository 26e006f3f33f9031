//! The messages that have a JSON form of their own.

use buffa_descriptor::ScalarType;

use super::{Reader, Strangers, Wrote};
use crate::payload::forms::error::{FormError, Problem};
use crate::payload::forms::json::Token;
use crate::payload::forms::print::{any_type, below};
use crate::payload::forms::scalar::Scalar;
use crate::payload::forms::well_known::{parse_duration, parse_path, parse_timestamp};
use crate::payload::forms::wire::{put_length, put_tag, put_varint};
use crate::payload::schema::{Known, MessageType, Shape};

impl<'a> Reader<'a> {
    pub(super) fn any(&mut self, depth: usize) -> Result<(), FormError> {
        let inside = self.json.clone();
        let (mut first, mut is_empty, mut url) = (true, true, None);
        while let Some(name) = self.json.name(&mut first)? {
            is_empty = false;
            let token = self.json.token()?;
            if name != "@type" {
                self.json.skip(&token, depth)?;
                continue;
            }
            let Token::Text(found) = token else { return Err(Problem::Not("the URL of a type").into()) };
            url = Some(found);
            break;
        }
        let Some(url) = url else {
            return if is_empty { Ok(()) } else { Err(Problem::AnyOfUnknownType.into()) };
        };
        self.json = inside;
        let index = any_type(self.types, &url)?;
        put_tag(&mut self.out, 1, 2);
        Scalar::Text(url).encode(ScalarType::String, &mut self.out);
        let before = self.out.len();
        put_tag(&mut self.out, 2, 2);
        let start = self.out.len();
        let (types, depth) = (self.types, below(depth)?);
        match types.message(index) {
            of if of.known == Known::No => self.object(of, true, depth)?,
            _ => self.any_value(index, depth)?,
        }
        if self.out.len() > start {
            put_length(&mut self.out, start);
        } else {
            self.out.truncate(before);
        }
        Ok(())
    }

    /// An `Any` of a well-known type has its JSON under `value`.
    fn any_value(&mut self, index: usize, depth: usize) -> Result<(), FormError> {
        let (mut strangers, mut first, mut found) = (Strangers::new(), true, false);
        while let Some(name) = self.json.name(&mut first)? {
            if name == "value" && !found {
                found = true;
                let token = self.json.token()?;
                self.message(index, token, depth).map_err(|error| error.below("value"))?;
            } else if name == "value" {
                return Err(Problem::Twice.into());
            } else {
                self.unknown += usize::from(name != "@type");
                self.stranger(name, &mut strangers, depth)?;
            }
        }
        if found { Ok(()) } else { Err(Problem::Missing("value".to_owned()).into()) }
    }

    pub(super) fn well_known(
        &mut self,
        known: Known,
        message: &MessageType,
        token: Token<'a>,
        depth: usize,
    ) -> Result<(), FormError> {
        match (known, token) {
            (Known::Timestamp, Token::Text(text)) => {
                let (seconds, nanos) = parse_timestamp(&text).ok_or(Problem::Not("a timestamp (RFC 3339)"))?;
                self.moment(seconds, nanos);
            }
            (Known::Timestamp, _) => return Err(Problem::Not("a timestamp (RFC 3339)").into()),
            (Known::Duration, Token::Text(text)) => {
                let (seconds, nanos) = parse_duration(&text).ok_or(Problem::Not("a duration (as in \"1.5s\")"))?;
                self.moment(seconds, nanos);
            }
            (Known::Duration, _) => return Err(Problem::Not("a duration (as in \"1.5s\")").into()),
            (Known::FieldMask, Token::Text(text)) => {
                for path in text.split(',').filter(|_| !text.is_empty()) {
                    let path = parse_path(path).filter(|it| !it.is_empty()).ok_or(Problem::Not("a field mask"))?;
                    put_tag(&mut self.out, 1, 2);
                    Scalar::Text(path.into()).encode(ScalarType::String, &mut self.out);
                }
            }
            (Known::FieldMask, _) => return Err(Problem::Not("a field mask").into()),
            (Known::Value, token) => {
                let number = match &token {
                    Token::Null => 1,
                    Token::Number(_) => 2,
                    Token::Text(_) => 3,
                    Token::Bool(_) => 4,
                    Token::Object => 5,
                    Token::List => 6,
                };
                self.inner(message, number, token, depth)?;
            }
            (Known::Struct, Token::Object) | (Known::ListValue, Token::List) => {
                if let Some(field) = message.fields.first() {
                    match field.shape {
                        Shape::Map { key } => self.map(field.number, key, field.kind, depth)?,
                        _ => self.list(field.number, false, field.kind, depth)?,
                    }
                }
            }
            (Known::Struct, _) => return Err(Problem::Not("an object").into()),
            (Known::ListValue, _) => return Err(Problem::Not("a list").into()),
            (_, token) => self.inner(message, 1, token, depth)?,
        }
        Ok(())
    }

    /// The one field of a wrapper or of a `Value`; the former's default is not written.
    fn inner(&mut self, message: &MessageType, number: u32, token: Token<'a>, depth: usize) -> Result<(), FormError> {
        let Some(field) = message.by_number(number).map(|it| &message.fields[usize::from(it)]) else {
            return Err(Problem::Not("what the schema's own google.protobuf types can say").into());
        };
        let start = self.out.len();
        let wrote = self.single(number, field.kind, token, depth)?;
        if wrote == Wrote::Default && field.shape == Shape::Implicit {
            self.out.truncate(start);
        }
        Ok(())
    }

    /// The two fields of a timestamp or duration.
    fn moment(&mut self, seconds: i64, nanos: i64) {
        for (number, value) in [(1, seconds), (2, nanos)] {
            if value != 0 {
                put_tag(&mut self.out, number, 0);
                put_varint(&mut self.out, value as u64);
            }
        }
    }
}
