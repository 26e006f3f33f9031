//! JSON that all readers read alike: no object names a member twice (RFC 8259, section 4; RFC 8725,
//! section 2.4), and nothing is nested deeply.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Why a text is not taken. It quotes nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStrict {
    #[error("it is not JSON")]
    Malformed,
    #[error("an object in it names a member twice")]
    Duplicate,
    #[error("it is nested too deeply")]
    Deep,
    #[error("it is not an object")]
    NotAnObject,
}

/// Reads an object with nothing behind it, nested at most `depth` deep.
///
/// # Errors
/// [`NotStrict`].
pub fn object(bytes: &[u8], depth: usize) -> Result<Map<String, Value>, NotStrict> {
    let found = Cell::new(NotStrict::Malformed);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Element { depth, found: &found }.deserialize(&mut reader);
    let value = read.and_then(|value| reader.end().map(|()| value)).map_err(|_| found.get())?;
    if let Value::Object(members) = value { Ok(members) } else { Err(NotStrict::NotAnObject) }
}

/// One value, with what it may still be nested.
#[derive(Clone, Copy)]
struct Element<'f> {
    depth: usize,
    /// Reason for the refusal, where that is more than syntax.
    found: &'f Cell<NotStrict>,
}

impl Element<'_> {
    fn within<E: Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1).ok_or_else(|| self.refuse(NotStrict::Deep))?;
        Ok(Self { depth, ..self })
    }

    fn refuse<E: Error>(self, why: NotStrict) -> E {
        self.found.set(why);
        E::custom(why)
    }
}

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let (inner, mut array) = (self.within()?, Vec::new());
        while let Some(element) = elements.next_element_seed(inner)? {
            array.push(element);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let (inner, mut object) = (self.within()?, Map::new());
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(inner)?;
            if object.insert(name, value).is_some() {
                return Err(self.refuse(NotStrict::Duplicate));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read_as_others_do() {
        for text in [r"{}", r#"{"a":[1,-2,0.5,null,true,"x"],"b":{"c":{}}}"#, " {\"\\u0061\": 1}\n"] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(object(text.as_bytes(), 8).map(Value::Object), Ok(expected), "{text}");
        }
    }

    #[test]
    fn duplicate_members_are_refused_anywhere() {
        for text in [r#"{"a":1,"a":1}"#, r#"{"x":[{"b":{"a":1,"\u0061":2}}]}"#] {
            assert_eq!(object(text.as_bytes(), 8), Err(NotStrict::Duplicate), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for (text, why) in [
            ("[]", NotStrict::NotAnObject),
            ("1", NotStrict::NotAnObject),
            ("{} {}", NotStrict::Malformed),
            ("{\"a\":}", NotStrict::Malformed),
            ("", NotStrict::Malformed),
            (r#"{"a":[[[1]]]}"#, NotStrict::Deep),
        ] {
            assert_eq!(object(text.as_bytes(), 3), Err(why), "{text}");
        }
        assert_eq!(object(b"{\"\xff\":1}", 3), Err(NotStrict::Malformed));
    }
}
