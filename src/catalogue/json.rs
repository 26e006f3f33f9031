//! A body must be a JSON object that all readers read alike: nested within bounds, and no member
//! named twice, because parsers differ in which of the two they keep.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::error::CatalogueError;
use super::limits::{NESTING, RECORD_BYTES};

/// # Errors
/// [`CatalogueError::LargeBody`], [`CatalogueError::BadJson`]. serde_json says what is wrong and
/// where, and quotes nothing.
pub(super) fn object(bytes: &[u8]) -> Result<Value, CatalogueError> {
    if bytes.len() > RECORD_BYTES {
        return Err(CatalogueError::LargeBody);
    }
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { room: NESTING }.deserialize(&mut parser);
    let value = value.and_then(|value| parser.end().map(|()| value));
    match value {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(CatalogueError::BadJson("the body is not a JSON object".to_owned())),
        Err(error) => Err(CatalogueError::BadJson(format!("the body: {error}"))),
    }
}

/// Tells whether these bytes may be embedded in JSON as an object; it looks at no names.
pub(super) fn is_object(bytes: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(bytes).is_ok_and(|value| value.get().starts_with('{'))
}

/// Reads a value whose objects and arrays go at most `room` deep.
#[derive(Clone, Copy)]
struct Strict {
    room: usize,
}

impl Strict {
    fn inner<E: Error>(self) -> Result<Self, E> {
        let room = self.room.checked_sub(1);
        room.map(|room| Self { room }).ok_or_else(|| E::custom(format_args!("nested more than {NESTING} deep")))
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(inner)? {
            array.push(element);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom("a member is named twice"));
            }
            object.insert(name, members.next_value_seed(inner)?);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(body: &str) -> String {
        object(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn object_parses_like_any_parser() {
        let text = r#" {"a":[1,-2,2.5,1e3,true,null,"\u00e9"],"b":{"":{}},"n":18446744073709551615} "#;
        assert_eq!(object(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(object(b"{}").unwrap(), json!({}));
    }

    #[test]
    fn ambiguous_json_is_refused_with_position() {
        assert_eq!(
            refusal(r#"{"secret":1,"b":{"s":1,"s":2}}"#),
            "the body: a member is named twice at line 1 column 26"
        );
        assert!(refusal(r#"{"secret":1,"\u0073ecret":2}"#).contains("named twice"), "escaped or not");
        for (body, says) in [
            ("", "EOF"),
            ("[]", "not a JSON object"),
            ("null", "not a JSON object"),
            ("\"secret\"", "not a JSON object"),
            ("{} {}", "trailing characters"),
            ("\u{feff}{}", "expected value"),
            ("{'secret':1}", "key must be a string"),
            ("{\"a\":NaN}", "expected value"),
            ("{\"a\":1e999}", "number out of range"),
            ("{\"a\":\"\\ud800\"}", "unexpected end of hex escape"),
        ] {
            let said = refusal(body);
            assert!(said.contains(says) && !said.contains("secret"), "{body}: {said}");
        }
        assert!(object(b"{\"a\":\"\xff\"}").is_err(), "not UTF-8");
    }

    #[test]
    fn nesting_and_size_are_bounded() {
        assert!(object(nested(NESTING).as_bytes()).is_ok());
        assert!(refusal(&nested(NESTING + 1)).contains("nested more than 32 deep"));
        assert!(refusal(&format!("{{\"a\":{}", "[".repeat(100_000))).contains("nested more than"));
        assert!(object(sized(RECORD_BYTES).as_bytes()).is_ok());
        assert_eq!(object(sized(RECORD_BYTES + 1).as_bytes()), Err(CatalogueError::LargeBody));
    }

    fn nested(depth: usize) -> String {
        format!("{}{}", "{\"a\":".repeat(depth - 1) + "{", "}".repeat(depth))
    }

    fn sized(bytes: usize) -> String {
        format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8))
    }
}
