//! Scalars in both forms.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use buffa_descriptor::ScalarType;

use super::error::Problem;
use super::json::{Json, Token};
use super::wire::{Items, Wire, put_varint};
use crate::model::decimal;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f32),
    Double(f64),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// Wire type of a scalar of this type, outside a packed list.
pub(super) fn wire(of: ScalarType) -> Wire {
    use ScalarType as T;
    match of {
        T::String | T::Bytes => Wire::Length,
        T::Double | T::Fixed64 | T::Sfixed64 => Wire::Fixed64,
        T::Float | T::Fixed32 | T::Sfixed32 => Wire::Fixed32,
        _ => Wire::Varint,
    }
}

impl<'a> Scalar<'a> {
    pub(super) fn default(of: ScalarType) -> Self {
        use ScalarType as T;
        match of {
            T::Bool => Self::Bool(false),
            T::String => Self::Text("".into()),
            T::Bytes => Self::Bytes((&[][..]).into()),
            T::Double => Self::Double(0.0),
            T::Float => Self::Float(0.0),
            T::Uint32 | T::Uint64 | T::Fixed32 | T::Fixed64 => Self::Uint(0),
            _ => Self::Int(0),
        }
    }

    /// -0.0 is none.
    pub(super) fn is_default(&self) -> bool {
        match self {
            Self::Bool(it) => !it,
            Self::Int(it) => *it == 0,
            Self::Uint(it) => *it == 0,
            Self::Float(it) => it.to_bits() == 0,
            Self::Double(it) => it.to_bits() == 0,
            Self::Text(it) => it.is_empty(),
            Self::Bytes(it) => it.is_empty(),
        }
    }

    /// Reads one from the wire; text and bytes to the end of `items`.
    pub(super) fn decode(of: ScalarType, items: &mut Items<'a>) -> Result<Self, Problem> {
        use ScalarType as T;
        Ok(match of {
            T::Bool => Self::Bool(items.varint()? != 0),
            T::Int64 => Self::Int(items.varint()? as i64),
            T::Int32 => Self::Int(i64::from(items.varint()? as i32)),
            T::Uint64 => Self::Uint(items.varint()?),
            T::Uint32 => Self::Uint(u64::from(items.varint()? as u32)),
            T::Sint64 => Self::Int(unzigzag(items.varint()?)),
            T::Sint32 => Self::Int(unzigzag(u64::from(items.varint()? as u32))),
            T::Fixed32 => Self::Uint(u64::from(items.fixed32()?)),
            T::Sfixed32 => Self::Int(i64::from(items.fixed32()? as i32)),
            T::Fixed64 => Self::Uint(items.fixed64()?),
            T::Sfixed64 => Self::Int(items.fixed64()? as i64),
            T::Float => Self::Float(f32::from_bits(items.fixed32()?)),
            T::Double => Self::Double(f64::from_bits(items.fixed64()?)),
            T::String | T::Bytes => {
                let body: &'a [u8] = items.body;
                let bytes = &body[items.at..items.end];
                items.at = items.end;
                if of == T::Bytes {
                    return Ok(Self::Bytes(bytes.into()));
                }
                Self::Text(std::str::from_utf8(bytes).map_err(|_| Problem::NotUtf8)?.into())
            }
        })
    }

    /// Writes it as the wire has it, without a tag.
    pub(super) fn encode(&self, of: ScalarType, out: &mut Vec<u8>) {
        use ScalarType as T;
        match (self, of) {
            (Self::Bool(it), _) => out.push(u8::from(*it)),
            (Self::Int(it), T::Sint32 | T::Sint64) => put_varint(out, ((it << 1) ^ (it >> 63)) as u64),
            (Self::Int(it), T::Sfixed32) => out.extend((*it as i32).to_le_bytes()),
            (Self::Int(it), T::Sfixed64) => out.extend(it.to_le_bytes()),
            (Self::Int(it), _) => put_varint(out, *it as u64),
            (Self::Uint(it), T::Fixed32) => out.extend((*it as u32).to_le_bytes()),
            (Self::Uint(it), T::Fixed64) => out.extend(it.to_le_bytes()),
            (Self::Uint(it), _) => put_varint(out, *it),
            (Self::Float(it), _) => out.extend(it.to_le_bytes()),
            (Self::Double(it), _) => out.extend(it.to_le_bytes()),
            (Self::Text(it), _) => put_bytes(out, it.as_bytes()),
            (Self::Bytes(it), _) => put_bytes(out, it),
        }
    }

    pub(super) fn print(&self, of: ScalarType, out: &mut Vec<u8>) {
        use ScalarType as T;
        let is_quoted = matches!(of, T::Int64 | T::Uint64 | T::Sint64 | T::Fixed64 | T::Sfixed64);
        let mut digits = itoa::Buffer::new();
        match self {
            Self::Bool(it) => out.extend_from_slice(if *it { b"true" } else { b"false" }),
            Self::Int(it) => print_integer(out, digits.format(*it), is_quoted),
            Self::Uint(it) => print_integer(out, digits.format(*it), is_quoted),
            // The shortest text of the greatest float is more than it, and Google's Python refuses that.
            Self::Float(it) if it.abs() < f32::MAX && !is_short(f64::from(*it)) => print_json(out, it),
            Self::Float(it) => print_double(out, f64::from(*it)),
            Self::Double(it) => print_double(out, *it),
            Self::Text(it) => print_json(out, &**it),
            Self::Bytes(it) => {
                out.push(b'"');
                let start = out.len();
                let length = base64::encoded_len(it.len(), true).expect("a body is far smaller than memory");
                out.resize(start + length, 0);
                BASE64.encode_slice(it, &mut out[start..]).expect("there is room for it");
                out.push(b'"');
            }
        }
    }

    /// Reads a JSON value as a scalar of this type.
    pub(super) fn parse(of: ScalarType, token: Token<'a>) -> Result<Self, Problem> {
        use ScalarType as T;
        Ok(match (of, token) {
            (T::Bool, Token::Bool(it)) => Self::Bool(it),
            (T::Bool, _) => return Err(Problem::Not("a boolean")),
            (T::String, Token::Text(it)) => Self::Text(it),
            (T::String, _) => return Err(Problem::Not("text")),
            (T::Bytes, Token::Text(it)) => {
                let engine = if it.contains(['-', '_']) { &BASE64_URL } else { &BASE64 };
                Self::Bytes(engine.decode(it.as_bytes()).map_err(|_| Problem::Not("base64"))?.into())
            }
            (T::Bytes, _) => return Err(Problem::Not("base64")),
            (T::Float, token) => Self::Float(float(&token).ok_or(Problem::Not("a number of 32 bits"))?),
            (T::Double, token) => Self::Double(float(&token).ok_or(Problem::Not("a number of 64 bits"))?),
            (_, token) => Self::parse_integer(of, &token)?,
        })
    }

    /// The key of a map.
    pub(super) fn parse_key(of: ScalarType, name: Cow<'a, str>) -> Result<Self, Problem> {
        match (of, &*name) {
            (ScalarType::String, _) => Ok(Self::Text(name)),
            (ScalarType::Bool, "true") => Ok(Self::Bool(true)),
            (ScalarType::Bool, "false") => Ok(Self::Bool(false)),
            (ScalarType::Bool, _) => Err(Problem::Not("a boolean")),
            _ => Self::parse_integer(of, &Token::Text(name)),
        }
    }

    fn parse_integer(of: ScalarType, token: &Token<'_>) -> Result<Self, Problem> {
        use ScalarType as T;
        let value = integer(token).ok_or(Problem::Not("an integer"))?;
        let fits = match of {
            T::Int32 | T::Sint32 | T::Sfixed32 => i32::try_from(value).ok().map(|it| Self::Int(it.into())),
            T::Uint32 | T::Fixed32 => u32::try_from(value).ok().map(|it| Self::Uint(it.into())),
            T::Uint64 | T::Fixed64 => u64::try_from(value).ok().map(Self::Uint),
            _ => i64::try_from(value).ok().map(Self::Int),
        };
        fits.ok_or(Problem::Not("an integer of the field's range"))
    }
}

/// An integer, as a number or as text; `1.0` and `1e3` are some.
pub(super) fn integer(token: &Token<'_>) -> Option<i128> {
    decimal::integer(number(token)?)
}

fn float<T: std::str::FromStr + Into<f64> + Copy>(token: &Token<'_>) -> Option<T> {
    if let Token::Text(text) = token
        && matches!(&**text, "NaN" | "Infinity" | "-Infinity")
    {
        return text.parse().ok();
    }
    let value: T = number(token)?.parse().ok()?;
    value.into().is_finite().then_some(value)
}

/// The digits of a number, also of one in quotes.
fn number<'t>(token: &'t Token<'_>) -> Option<&'t str> {
    match token {
        Token::Number(digits) => Some(digits),
        Token::Text(text) => Json::is_number(text).then_some(text),
        _ => None,
    }
}

/// Whole numbers that a double can tell apart are printed as such: 1, not 1.0.
fn is_short(value: f64) -> bool {
    value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0 && (value != 0.0 || value.is_sign_positive())
}

fn print_integer(out: &mut Vec<u8>, digits: &str, is_quoted: bool) {
    let quote: &[u8] = if is_quoted { b"\"" } else { b"" };
    [quote, digits.as_bytes(), quote].iter().for_each(|it| out.extend_from_slice(it));
}

fn print_double(out: &mut Vec<u8>, value: f64) {
    if is_short(value) {
        out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
    } else if value.is_finite() {
        print_json(out, &value);
    } else if value.is_nan() {
        out.extend_from_slice(b"\"NaN\"");
    } else {
        out.extend_from_slice(if value > 0.0 { b"\"Infinity\"" } else { b"\"-Infinity\"" });
    }
}

pub(super) fn print_json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("text and finite numbers are JSON, and a vector takes all");
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
