//! Two readings of one record, compared by what they mean: JSON by value, Protobuf through its
//! schema. What comes of it are places, as JSON Pointers in which map keys and list indices are
//! `*`; no value leaves this file.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::forms::json::{Json, Token};
use super::forms::{Converted, FormError, Problem};
use super::limits::{COMPARED_BYTES, COMPARED_VALUES, NESTING};
use super::schema::Schema;
use crate::model::decimal;

mod places;
#[cfg(test)]
mod tests;

pub use places::Differences;
use places::Place;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Protobuf,
    /// Compared byte by byte.
    Otherwise,
}

/// One side of a comparison.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    pub format: Format,
    pub body: &'a [u8],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    Same,
    Differs(Differences),
    /// One of them cannot be read: too large, not well-formed, or not what the schema says.
    Unreadable,
}

/// Compares two bodies. With a schema, what it does not know is compared by its number alone.
pub fn compare(first: Side<'_>, second: Side<'_>, schema: Option<&Schema>) -> Compared {
    if first.format == second.format && first.body == second.body {
        return Compared::Same;
    }
    if first.body.len().max(second.body.len()) > COMPARED_BYTES {
        return Compared::Unreadable;
    }
    let found = match (first.format, second.format, schema) {
        (Format::Otherwise, Format::Otherwise, _) => Some(Differences::of_the_whole()),
        (Format::Otherwise, ..) | (_, Format::Otherwise, _) => None,
        (_, _, Some(schema)) => by_schema(first, second, schema),
        (Format::Json, Format::Json, None) => by_value(first.body, second.body, &Place::unknown()),
        _ => None,
    };
    match found {
        None => Compared::Unreadable,
        Some(differences) if differences.is_empty() => Compared::Same,
        Some(differences) => Compared::Differs(differences),
    }
}

/// Both as the schema's JSON form, in which every value has one spelling and a default without
/// presence is absent.
fn by_schema(first: Side<'_>, second: Side<'_>, schema: &Schema) -> Option<Differences> {
    let (one, other) = (canonical(first, schema).ok()?, canonical(second, schema).ok()?);
    let mut differences = by_value(&one.body, &other.body, &Place::of(schema))?;
    if one.unknown_fields != other.unknown_fields {
        differences.note_unknown_fields();
    }
    Some(differences)
}

fn canonical(side: Side<'_>, schema: &Schema) -> Result<Converted, FormError> {
    if side.format == Format::Protobuf {
        return schema.to_json(side.body);
    }
    let protobuf = schema.to_protobuf(side.body)?;
    let json = schema.to_json(&protobuf.body)?;
    Ok(Converted { unknown_fields: protobuf.unknown_fields, ..json })
}

fn by_value(first: &[u8], second: &[u8], place: &Place<'_>) -> Option<Differences> {
    let (one, other) = (Node::read(first).ok()?, Node::read(second).ok()?);
    let mut differences = Differences::default();
    differ(&one, &other, place, &mut differences);
    Some(differences)
}

/// One value. Of names that are there twice the last counts.
enum Node<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(Cow<'a, str>),
    Object(BTreeMap<Cow<'a, str>, Node<'a>>),
    List(Vec<Node<'a>>),
}

impl<'a> Node<'a> {
    fn read(text: &'a [u8]) -> Result<Self, Problem> {
        let mut json = Json::new(text)?;
        let mut left = COMPARED_VALUES;
        let token = json.token()?;
        let node = Self::behind(token, &mut json, NESTING, &mut left)?;
        json.finish()?;
        Ok(node)
    }

    fn behind(token: Token<'a>, json: &mut Json<'a>, depth: usize, left: &mut usize) -> Result<Self, Problem> {
        *left = left.checked_sub(1).ok_or(Problem::TooMany)?;
        let mut first = true;
        Ok(match token {
            Token::Null => Self::Null,
            Token::Bool(flag) => Self::Bool(flag),
            Token::Number(number) => Self::Number(number),
            Token::Text(text) => Self::Text(text),
            Token::Object => {
                let (mut members, below) = (BTreeMap::new(), below(depth)?);
                while let Some(name) = json.name(&mut first)? {
                    let token = json.token()?;
                    members.insert(name, Self::behind(token, json, below, left)?);
                }
                Self::Object(members)
            }
            Token::List => {
                let (mut elements, below) = (Vec::new(), below(depth)?);
                while json.element(&mut first)? {
                    let token = json.token()?;
                    elements.push(Self::behind(token, json, below, left)?);
                }
                Self::List(elements)
            }
        })
    }
}

fn below(depth: usize) -> Result<usize, Problem> {
    depth.checked_sub(1).ok_or(Problem::TooDeep)
}

fn differ(one: &Node<'_>, other: &Node<'_>, place: &Place<'_>, found: &mut Differences) {
    match (one, other) {
        (Node::Object(one), Node::Object(other)) => {
            let members = one.len().max(other.len());
            for (name, value) in one {
                let place = place.member(name, members);
                match other.get(name) {
                    Some(same) => differ(value, same, &place, found),
                    None => found.note(&place),
                }
            }
            let added = other.keys().filter(|name| !one.contains_key(*name));
            added.for_each(|name| found.note(&place.member(name, members)));
        }
        // Which element is the new one is anybody's guess.
        (Node::List(one), Node::List(other)) if one.len() != other.len() => found.note(place),
        (Node::List(one), Node::List(other)) => {
            let below = place.element();
            one.iter().zip(other).for_each(|(one, other)| differ(one, other, &below, found));
        }
        (Node::Number(one), Node::Number(other)) if decimal::are_equal(one, other) => {}
        (Node::Text(one), Node::Text(other)) if one == other => {}
        (Node::Bool(one), Node::Bool(other)) if one == other => {}
        (Node::Null, Node::Null) => {}
        _ => found.note(place),
    }
}
