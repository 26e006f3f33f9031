//! The record types that the configuration lists, each with a JSON Schema. A schema may refer to
//! its own parts only: nothing is fetched, from no network and no file.

use std::collections::BTreeMap;
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;

use super::budget::{Spent, validator, within};
use super::error::{CatalogueError, SchemaViolation};
use super::limits::{LISTED_STEPS, POINTER_BYTES, TYPES, VIOLATIONS};
use super::recursion::doubling;
use crate::config::error::nearest;
use crate::model::names::is_name;

/// Which records there may be.
#[derive(Clone, Debug, Default)]
pub struct RecordTypes {
    types: BTreeMap<String, TypeOfRecord>,
    /// A misspelt name suggests no other.
    is_silent: bool,
}

#[derive(Clone, Debug)]
struct TypeOfRecord {
    schema: Value,
    validator: Arc<Validator>,
}

/// Fault of the configured types; an operator has to mend it.
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
                    compiled.insert(name, TypeOfRecord { schema, validator: Arc::new(validator) });
                }
                Err((pointer, why)) => errors.push(TypeError::Schema { name, pointer, why }),
            }
        }
        if compiled.len() > TYPES {
            errors.push(TypeError::TooMany);
        }
        if errors.is_empty() { Ok(Self { types: compiled, is_silent: false }) } else { Err(errors) }
    }

    /// Types as they are, none of which is suggested: callers see only what they have a grant
    /// for.
    #[must_use]
    pub fn without_suggestions(self) -> Self {
        Self { is_silent: true, ..self }
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

    /// Checker of bodies of this type.
    ///
    /// # Errors
    /// [`CatalogueError::UnknownType`].
    pub(super) fn checker(&self, name: &str) -> Result<BodyChecker, CatalogueError> {
        Ok(BodyChecker { validator: self.find(name)?.validator.clone() })
    }

    /// Types of which a small body can cost more than a check may, and where in the schema that is.
    pub fn costly(&self) -> impl Iterator<Item = (&str, String)> {
        self.types.iter().filter_map(|(name, known)| Some((name.as_str(), doubling(&known.schema)?)))
    }

    fn find(&self, name: &str) -> Result<&TypeOfRecord, CatalogueError> {
        self.types.get(name).ok_or_else(|| {
            let known = self.types.keys().map(String::as_str);
            let nearest = nearest(name, known).filter(|_| !self.is_silent).map(str::to_owned);
            CatalogueError::UnknownType { nearest }
        })
    }
}

/// Checks bodies of one type.
#[derive(Clone, Debug)]
pub(super) struct BodyChecker {
    validator: Arc<Validator>,
}

impl BodyChecker {
    /// True if the body fits, in at most `left` steps, from which it takes those it needs.
    ///
    /// # Errors
    /// [`Spent`].
    pub(super) fn fits(&self, body: &Value, left: &mut u64) -> Result<bool, Spent> {
        within(left, || self.validator.is_valid(body))
    }

    /// Checks the body as `fits` does, and reports the violations.
    ///
    /// # Errors
    /// [`CatalogueError::Schema`] where the body does not fit, [`CatalogueError::SchemaCost`] where
    /// the budget does not suffice to say so.
    pub(super) fn check(&self, body: &Value, left: &mut u64) -> Result<(), CatalogueError> {
        match self.fits(body, left) {
            Ok(true) => Ok(()),
            Ok(false) => Err(CatalogueError::Schema(self.violations(body).unwrap_or_default())),
            Err(Spent) => Err(CatalogueError::SchemaCost),
        }
    }

    /// Listing them costs far more than the verdict: every branch of an `oneOf` has its own.
    fn violations(&self, body: &Value) -> Result<Vec<SchemaViolation>, Spent> {
        within(&mut LISTED_STEPS.clone(), || {
            self.validator
                .iter_errors(body)
                .take(VIOLATIONS)
                .map(|error| SchemaViolation {
                    pointer: cut(error.instance_path().as_str()),
                    rule: cut(error.schema_path().as_str()),
                })
                .collect()
        })
    }
}

fn cut(pointer: &str) -> String {
    pointer[..pointer.floor_char_boundary(POINTER_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::limits::CHECK_STEPS;
    use super::*;

    impl RecordTypes {
        fn check_body(&self, name: &str, body: &Value) -> Result<(), CatalogueError> {
            self.checker(name)?.check(body, &mut CHECK_STEPS.clone())
        }
    }

    /// A tree of two kinds of node, distinguished by their `kind`, in each of the ways of
    /// `keyword`.
    fn tree(keyword: &str) -> Value {
        json!({"properties": {"root": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {keyword: [kind("group"), kind("rule")]}}})
    }

    fn kind(name: &str) -> Value {
        json!({"type": "object", "required": ["kind"],
            "properties": {"kind": {"const": name}, "child": {"$ref": "#/$defs/node"}}})
    }

    fn nested(depth: usize, leaf: &str) -> Value {
        json!({"root": (0..depth).fold(json!({"kind": leaf}), |child, level| json!({"kind": if level % 2 == 0 { "rule" } else { "group" }, "child": child}))})
    }

    fn types(schema: Value) -> RecordTypes {
        RecordTypes::compile([("tenant".to_owned(), schema), ("shard".to_owned(), json!(true))]).unwrap()
    }

    #[test]
    fn misfit_names_pointers_without_values() {
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
    fn unknown_type_suggests_nearest() {
        let known = types(json!(true));
        assert_eq!(known.check_known("tenant"), Ok(()));
        let near = known.check_known("tennant").unwrap_err().to_string();
        assert!(near.contains("the nearest is `tenant`"), "{near}");
        assert_eq!(known.check_known("zzz"), Err(CatalogueError::UnknownType { nearest: None }));
    }

    #[test]
    fn all_configuration_errors_are_reported() {
        let types = [
            ("Tenant", json!(true)),
            ("a", json!({"properties": {"x": {"type": "strin"}}})),
            ("b", json!({"$ref": "https://example.com/schema.json"})),
            ("c", json!({"$ref": "file:///etc/passwd"})),
            ("d", json!({"pattern": "(?=look)ahead"})),
            ("e", json!(true)),
            ("e", json!(true)),
        ];
        let errors = RecordTypes::compile(types.map(|(name, schema)| (name.to_owned(), schema))).unwrap_err();
        let named: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(named.len(), 6, "{named:#?}");
        assert!(named[1].starts_with("the schema of `a` does not compile at `/properties/x/type`"), "{named:#?}");
        for (said, name) in named.iter().zip(["`Tenant`", "`a`", "`b`", "`c`", "`d`", "`e`"]) {
            assert!(said.contains(name), "{said}");
        }
    }

    #[test]
    fn recursive_schemas_are_checked_within_bounds() {
        for keyword in ["oneOf", "anyOf"] {
            let types = types(tree(keyword));
            assert_eq!(types.check_body("tenant", &nested(24, "rule")), Ok(()), "{keyword}");
            let refused = types.check_body("tenant", &nested(24, "oops"));
            assert_eq!(refused, Err(CatalogueError::Schema(Vec::new())), "{keyword}: too many to list");
            let Err(CatalogueError::Schema(violations)) = types.check_body("tenant", &nested(2, "oops")) else {
                unreachable!("{keyword}")
            };
            assert!(!violations.is_empty(), "{keyword}");
        }
        let types = types(tree("oneOf"));
        let mut left = 10;
        let spent = types.checker("tenant").unwrap().check(&nested(24, "rule"), &mut left);
        assert_eq!((spent, left), (Err(CatalogueError::SchemaCost), 0));
    }

    #[test]
    fn recursive_schemas_validate_in_linear_time() {
        let schemas = [
            recursive(&json!({"$ref": "#"}), &json!({})),
            recursive(&json!({"$ref": "#node"}), &json!({"$anchor": "node"})),
            recursive(&json!({"$dynamicRef": "#node"}), &json!({"$dynamicAnchor": "node"})),
            recursive(&json!({"$ref": "#"}), &json!({"$schema": "http://json-schema.org/draft-07/schema#"})),
            recursive(
                &json!({"$recursiveRef": "#"}),
                &json!({"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": true}),
            ),
        ];
        for schema in schemas.concat() {
            let types = types(schema.clone());
            for leaf in [json!({"n": 1}), json!({"x": 1}), json!({"n": 1, "more": {}})] {
                let body = (0..30).fold(leaf, |child, _| json!({"child": child, "n": 1}));
                let mut left = CHECK_STEPS;
                // Without its memory this would take days, of which not all are counted.
                assert!(types.checker("tenant").unwrap().fits(&body, &mut left).is_ok(), "{schema}");
                assert!(CHECK_STEPS - left < 2_000, "{schema}: {}", CHECK_STEPS - left);
            }
        }
    }

    fn child(node: &Value) -> Value {
        json!({"properties": {"child": node}})
    }

    fn child_and(node: &Value, name: &str) -> Value {
        json!({"allOf": [child(node), {"required": [name]}]})
    }

    /// Schemas that also say `more` and lead to themselves by the reference `node`.
    fn recursive(node: &Value, more: &Value) -> Vec<Value> {
        let either = json!([child_and(node, "x"), child_and(node, "y")]);
        let mut schemas = vec![
            json!({"oneOf": either}),
            json!({"anyOf": either}),
            json!({"allOf": [child(node), child(node)]}),
            json!({"if": child(node), "then": child(node), "else": child(node)}),
            json!({"not": {"not": child(node)}, "allOf": [child(node)]}),
            json!({"dependentSchemas": {"child": child(node), "n": child(node)}, "allOf": [child(node)]}),
            json!({"properties": {"child": node}, "patternProperties": {"^c": node}}),
            json!({"allOf": [{"additionalProperties": node}, {"additionalProperties": node}]}),
            json!({"anyOf": [child(node), {"properties": {"n": node}}], "unevaluatedProperties": node}),
        ];
        for schema in &mut schemas {
            schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        }
        schemas
    }

    #[test]
    fn costly_type_is_named_with_position() {
        let types = types(tree("oneOf"));
        assert_eq!(types.costly().collect::<Vec<_>>(), [("tenant", "/$defs/node".to_owned())]);
    }
}
