//! Makes a view: from a definition and the bodies of its records to the view's bytes. Pure, and the
//! same bytes from every mapper.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::definition::{FieldSource, JoinTarget, KeyPart, Need, ViewDefinition};
use super::pointer::{JsonPointer, ParsedObject};
use crate::engine;
use crate::model::names;

/// Why no view can be made of records as they are. Somebody has to change one of them, or the
/// definition; a retry does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Unmappable {
    #[error("the main record is not a JSON object; write it again through the catalogue")]
    #[strum(serialize = "main-not-an-object")]
    Main,
    #[error("a record that is needed is not a JSON object; write it again through the catalogue")]
    #[strum(serialize = "input-not-an-object")]
    Input,
    #[error("the view would be larger than a body may be; leave fields out, or make the record smaller")]
    TooLarge,
    #[error(
        "the record's key or place is none that the catalogue gives; remove it, and write it through the catalogue"
    )]
    #[strum(serialize = "bad-key")]
    Key,
    #[error("the engine refuses to read or write a part of it; look for items that Nearside did not write")]
    Refused,
}

/// For each need of `view`, the record that `main` names; `None` if it names none.
pub(super) fn targets(view: &ViewDefinition, main: &[u8]) -> Result<Vec<Option<JoinTarget>>, Unmappable> {
    if view.needs.is_empty() {
        return Ok(Vec::new());
    }
    let main = ParsedObject::parse(main).ok_or(Unmappable::Main)?;
    Ok(view.needs.iter().map(|need| target(need, &main)).collect())
}

fn target(need: &Need, main: &ParsedObject<'_>) -> Option<JoinTarget> {
    let key: String = need
        .key
        .iter()
        .map(|part| match part {
            KeyPart::Text(text) => Some(text.clone()),
            KeyPart::Main(pointer) => key_text(pointer, main),
        })
        .collect::<Option<_>>()?;
    names::key_problem(&key).is_none().then(|| JoinTarget { record_type: need.record_type.clone(), key })
}

/// A string, or a whole number as it is written.
fn key_text(pointer: &JsonPointer, main: &ParsedObject<'_>) -> Option<String> {
    let raw = pointer.find(main)?.get();
    let digits = raw.strip_prefix('-').unwrap_or(raw);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        Some(raw.to_owned())
    } else {
        serde_json::from_str(raw).ok()
    }
}

/// The content of the view of `main`, with a body or none for each need; `None` is a tombstone.
/// What a pointer does not find is left out.
pub(super) fn make(
    view: &ViewDefinition,
    main: Option<&[u8]>,
    inputs: &[Option<Bytes>],
) -> Result<Option<Bytes>, Unmappable> {
    let Some(main) = main else { return Ok(None) };
    let mut needs = view.needs.iter().zip(inputs);
    if needs.any(|(need, input)| need.is_required && input.is_none()) {
        return Ok(None);
    }
    let main = ParsedObject::parse(main).ok_or(Unmappable::Main)?;
    let mut objects = Vec::with_capacity(inputs.len());
    for input in inputs {
        let object = input.as_ref().map(|body| ParsedObject::parse(body).ok_or(Unmappable::Input));
        objects.push(object.transpose()?);
    }
    let mut content = String::from("{");
    for field in &view.fields {
        let found = match &field.source {
            FieldSource::Main(pointer) => pointer.find(&main).map(RawValue::get),
            FieldSource::Need(at, pointer) => {
                objects.get(*at).and_then(Option::as_ref).and_then(|object| pointer.find(object)).map(RawValue::get)
            }
            FieldSource::Constant(value) => Some(value.as_str()),
        };
        let Some(found) = found else { continue };
        if content.len() > 1 {
            content.push(',');
        }
        content.push_str(&serde_json::Value::from(field.name.as_str()).to_string());
        content.push(':');
        content.push_str(found);
        if content.len() >= engine::limits::BODY_BYTES {
            return Err(Unmappable::TooLarge);
        }
    }
    content.push('}');
    Ok(Some(Bytes::from(content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: &str = r#"
[[view]]
name = "limits"
definition = 1
from = "tenant"
needs = { shard = "shard:{/shard}", plan = "plan:{/region}-{/plan}" }
required = ["plan"]
[view.fields]
users = "/limits/users"
"the host" = "shard:/host"
rank = { value = 5 }
all = "plan:"
"#;

    fn view() -> ViewDefinition {
        super::super::read("f", VIEW, None).unwrap().remove(0)
    }

    fn made(main: &str, plan: Option<&'static str>, shard: Option<&'static str>) -> Option<String> {
        let inputs = [plan, shard].map(|body| body.map(|body| Bytes::from_static(body.as_bytes())));
        let content = make(&view(), Some(main.as_bytes()), &inputs).unwrap()?;
        assert!(serde_json::from_slice::<serde_json::Value>(&content).is_ok());
        Some(String::from_utf8(content.to_vec()).unwrap())
    }

    #[test]
    fn view_keeps_definition_order_and_bytes() {
        let main = r#"{ "limits": {"users" : 1.50} }"#;
        let all = made(main, Some(r#" {"b": 1, "a":2}"#), Some(r#"{"host":"h\u00e4"}"#));
        assert_eq!(all.unwrap(), r#"{"users":1.50,"the host":"h\u00e4","rank":5,"all":{"b": 1, "a":2}}"#);
    }

    #[test]
    fn absent_is_omitted_required_makes_tombstone() {
        assert_eq!(made("{}", Some("{}"), None).unwrap(), r#"{"rank":5,"all":{}}"#);
        assert_eq!(
            made("{}", Some("{}"), Some(r#"{"host":null}"#)).unwrap(),
            r#"{"the host":null,"rank":5,"all":{}}"#
        );
        assert_eq!(made("{}", None, Some("{}")), None);
        assert_eq!(make(&view(), None, &[None, None]), Ok(None), "so does a main record that was deleted");
    }

    #[test]
    fn targets_are_strings_or_whole_numbers() {
        let both = named(r#"{"shard":"s/1","region":"eu","plan":7}"#);
        assert_eq!(both, [Some("plan/eu-7".to_owned()), Some("shard/s/1".to_owned())]);
        assert_eq!(named(r#"{"shard":-3,"region":"eu"}"#), [None, Some("shard/-3".to_owned())]);
        for odd in ["1.5", "true", "null", "\"\"", "\"..\"", "[1]", "{}", "\"a\\n\""] {
            assert_eq!(named(&format!("{{\"shard\":{odd}}}")), [None, None], "{odd}");
        }
    }

    /// The targets that a main record names.
    fn named(main: &str) -> Vec<Option<String>> {
        let targets = targets(&view(), main.as_bytes()).unwrap();
        targets.into_iter().map(|target| target.map(|target| target.to_string())).collect()
    }

    #[test]
    fn unmappable_view_states_reason() {
        assert_eq!(make(&view(), Some(b"[]"), &inputs("{}")), Err(Unmappable::Main));
        assert_eq!(targets(&view(), b"\xff"), Err(Unmappable::Main));
        assert_eq!(make(&view(), Some(b"{}"), &inputs("5")), Err(Unmappable::Input));
        let around = r#"{"users":"","rank":5,"all":{}}"#.len();
        let most = engine::limits::BODY_BYTES - around;
        let fits = make(&view(), Some(large(most).as_bytes()), &inputs("{}")).unwrap().unwrap();
        assert_eq!(fits.len(), engine::limits::BODY_BYTES);
        assert_eq!(make(&view(), Some(large(most + 1).as_bytes()), &inputs("{}")), Err(Unmappable::TooLarge));
    }

    fn inputs(shard: &'static str) -> [Option<Bytes>; 2] {
        ["{}", shard].map(|body| Some(Bytes::from_static(body.as_bytes())))
    }

    /// A main record with so many bytes in one field.
    fn large(bytes: usize) -> String {
        format!(r#"{{"limits":{{"users":"{}"}}}}"#, "x".repeat(bytes))
    }
}
