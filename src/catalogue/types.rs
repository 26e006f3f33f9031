//! The record types that the configuration lists, each with a JSON Schema. A schema may refer to
//! its own parts only: nothing is fetched, from no network and no file.

use std::collections::BTreeMap;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::error::{CatalogueError, SchemaViolation};
use super::limits::{POINTER_BYTES, TYPES, VIOLATIONS};
use crate::config::error::nearest;
use crate::model::names::is_name;

/// Which records there may be.
#[derive(Clone, Debug, Default)]
pub struct RecordTypes {
    types: BTreeMap<String, TypeOfRecord>,
}

#[derive(Clone, Debug)]
struct TypeOfRecord {
    schema: Value,
    validator: Validator,
}

/// What is wrong with the configured types; an operator has to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    #[error("`{name}` cannot name a record type: take a lower-case letter, then letters, digits, - and _")]
    Name { name: String },
    #[error("the record type `{name}` is listed twice; leave one out")]
    Twice { name: String },
    #[error("there are more than {TYPES} record types; keep fewer, with more general schemas")]
    TooMany,
    #[error("the schema of `{name}` does not compile at `{pointer}`: {why}")]
    Schema { name: String, pointer: String, why: String },
}

impl RecordTypes {
    /// The type's name and its schema; `true` is one that takes any object.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn compile(types: impl IntoIterator<Item = (String, Value)>) -> Result<Self, Vec<TypeError>> {
        let (mut compiled, mut errors) = (BTreeMap::new(), Vec::new());
        for (name, schema) in types {
            if !is_name(&name) {
                errors.push(TypeError::Name { name });
                continue;
            }
            match validator(&schema) {
                Ok(_) if compiled.contains_key(&name) => errors.push(TypeError::Twice { name }),
                Ok(validator) => {
                    compiled.insert(name, TypeOfRecord { schema, validator });
                }
                Err((pointer, why)) => errors.push(TypeError::Schema { name, pointer, why }),
            }
        }
        if compiled.len() > TYPES {
            errors.push(TypeError::TooMany);
        }
        if errors.is_empty() { Ok(Self { types: compiled }) } else { Err(errors) }
    }

    /// Names and schemas, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.types.iter().map(|(name, known)| (name.as_str(), &known.schema))
    }

    /// # Errors
    /// [`CatalogueError::UnknownType`].
    pub fn check_known(&self, name: &str) -> Result<(), CatalogueError> {
        self.find(name).map(|_| ())
    }

    /// # Errors
    /// [`CatalogueError::UnknownType`], or [`CatalogueError::Schema`] where the body does not fit.
    pub fn check_body(&self, name: &str, body: &Value) -> Result<(), CatalogueError> {
        let errors = self.find(name)?.validator.iter_errors(body).take(VIOLATIONS);
        let violations: Vec<_> = errors
            .map(|error| SchemaViolation {
                pointer: cut(error.instance_path().as_str()),
                rule: cut(error.schema_path().as_str()),
            })
            .collect();
        if violations.is_empty() { Ok(()) } else { Err(CatalogueError::Schema(violations)) }
    }

    fn find(&self, name: &str) -> Result<&TypeOfRecord, CatalogueError> {
        self.types.get(name).ok_or_else(|| {
            let nearest = nearest(name, self.types.keys().map(String::as_str)).map(str::to_owned);
            CatalogueError::UnknownType { nearest }
        })
    }
}

/// Patterns run in linear time, whatever a body holds; look-around and back-references do not
/// compile.
fn validator(schema: &Value) -> Result<Validator, (String, String)> {
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex()).offline();
    options.build(schema).map_err(|error| (error.instance_path().to_string(), error.to_string()))
}

fn cut(pointer: &str) -> String {
    pointer[..pointer.floor_char_boundary(POINTER_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn types(schema: Value) -> RecordTypes {
        RecordTypes::compile([("tenant".to_owned(), schema), ("shard".to_owned(), json!(true))]).unwrap()
    }

    #[test]
    fn a_body_that_does_not_fit_is_refused_with_pointers_and_none_of_its_values() {
        let types = types(json!({
            "type": "object",
            "properties": {"limits": {"properties": {"users": {"maximum": 10}}}, "plan": {"enum": ["free"]}},
            "required": ["plan"],
        }));
        assert_eq!(types.check_body("tenant", &json!({"plan": "free", "more": 1})), Ok(()));
        let refused = types.check_body("tenant", &json!({"limits": {"users": 4711}, "plan": "secret"}));
        let Err(CatalogueError::Schema(violations)) = &refused else { unreachable!("{refused:?}") };
        let places: Vec<_> = violations.iter().map(|it| (it.pointer.as_str(), it.rule.as_str())).collect();
        let expected =
            [("/limits/users", "/properties/limits/properties/users/maximum"), ("/plan", "/properties/plan/enum")];
        assert_eq!(places, expected);
        let said = format!("{} {violations:?}", refused.as_ref().unwrap_err());
        assert!(!said.contains("secret") && !said.contains("4711"), "{said}");
        assert_eq!(types.check_body("shard", &json!({"anything": [1]})), Ok(()));
    }

    #[test]
    fn violations_and_their_pointers_are_bounded() {
        let types = types(json!({"additionalProperties": {"type": "string"}}));
        let body: serde_json::Map<_, _> = (0..50).map(|n| (format!("{n}{}", "ä".repeat(500)), json!(1))).collect();
        let Err(CatalogueError::Schema(violations)) = types.check_body("tenant", &body.into()) else {
            unreachable!()
        };
        assert_eq!(violations.len(), VIOLATIONS);
        assert!(violations.iter().all(|it| it.pointer.len() <= POINTER_BYTES));
    }

    #[test]
    fn an_unknown_type_is_told_the_nearest() {
        let known = types(json!(true));
        assert_eq!(known.check_known("tenant"), Ok(()));
        let near = known.check_known("tennant").unwrap_err().to_string();
        assert!(near.contains("the nearest is `tenant`"), "{near}");
        assert_eq!(known.check_known("zzz"), Err(CatalogueError::UnknownType { nearest: None }));
    }

    #[test]
    fn all_that_is_wrong_with_the_configuration_is_said_at_once() {
        let type_of = |name: &str, schema| (name.to_owned(), schema);
        let errors = RecordTypes::compile([
            type_of("Tenant", json!(true)),
            type_of("a", json!({"properties": {"x": {"type": "strin"}}})),
            type_of("b", json!({"$ref": "https://example.com/schema.json"})),
            type_of("c", json!({"$ref": "file:///etc/passwd"})),
            type_of("d", json!({"pattern": "(?=look)ahead"})),
            type_of("e", json!(true)),
            type_of("e", json!(true)),
        ])
        .unwrap_err();
        let named: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(named.len(), 6, "{named:#?}");
        assert!(named[1].starts_with("the schema of `a` does not compile at `/properties/x/type`"), "{named:#?}");
        for (said, name) in named.iter().zip(["`Tenant`", "`a`", "`b`", "`c`", "`d`", "`e`"]) {
            assert!(said.contains(name), "{said}");
        }
    }
}
