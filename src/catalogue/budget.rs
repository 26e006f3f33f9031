//! A bound on what checking a body against a schema may cost. A small body can ask for more than
//! any machine has: of a recursive `oneOf` each level doubles the work. A thread cannot be stopped,
//! so time is no bound; steps are counted instead, which also makes the verdict the same on every
//! machine.
//!
//! A keyword of our own is put into every subschema and evaluated with it. It counts, and unwinds
//! the evaluation when the budget is spent. A list of errors needs that: it follows every branch,
//! and each visit is counted. A verdict alone counts the subschemas that fit. Those that do not are
//! few for each that is referred to, whose verdict the validator remembers: so a verdict takes time
//! linear in the body, which a test measures for each way of referring.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jsonschema::{Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

/// No schema has a keyword of this name by chance.
const STEP: &str = "$nearside:step";

thread_local! {
    /// Remainder of the budget of the evaluation on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// The budget of an evaluation is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spent;

/// Runs an evaluation of at most `left` steps, and takes from `left` what it took.
///
/// # Errors
/// [`Spent`].
pub(super) fn within<T>(left: &mut u64, evaluation: impl FnOnce() -> T) -> Result<T, Spent> {
    LEFT.set(*left);
    // A validator holds nothing that an evaluation changes.
    let done = catch_unwind(AssertUnwindSafe(evaluation));
    *left = LEFT.get();
    done.map_err(|panic| match panic.downcast::<Spent>() {
        Ok(spent) => *spent,
        Err(other) => resume_unwind(other),
    })
}

/// Compiles a schema whose evaluations count their steps. Patterns run in linear time, whatever a
/// body holds; look-around and back-references do not compile.
///
/// # Errors
/// A JSON Pointer into the schema, and what is wrong there.
pub(super) fn validator(schema: &Value) -> Result<Validator, (String, String)> {
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex()).offline();
    // As it was written, so that an error's words are about that.
    options.build(schema).map_err(located)?;
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex()).offline();
    let mut counted = schema.clone();
    count_steps(&mut counted);
    options.with_keyword(STEP, step).build(&counted).map_err(located)
}

/// Place and words of an error.
fn located(error: ValidationError<'_>) -> (String, String) {
    (error.instance_path().to_string(), error.to_string())
}

struct Step;

fn step<'a>(
    _: &'a Map<String, Value>,
    _: &'a Value,
    _: jsonschema::paths::Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    Ok(Box::new(Step))
}

impl<'i> Keyword<'i> for Step {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        take(weight(instance));
        Ok(())
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        take(weight(instance));
        true
    }
}

/// Cost of the other keywords of a subschema for an instance, apart from its members: patterns read
/// a text, `required` and `uniqueItems` look at all members.
fn weight(instance: &Value) -> u64 {
    let size = match instance {
        Value::String(text) => text.len() / 64,
        Value::Array(elements) => elements.len() / 8,
        Value::Object(members) => members.len() / 8,
        _ => 0,
    };
    1 + size as u64
}

fn take(steps: u64) {
    let left = LEFT.get();
    if left < steps {
        LEFT.set(0);
        // Without the hook that would log a panic: this is none.
        resume_unwind(Box::new(Spent));
    }
    LEFT.set(left - steps);
}

/// Puts the keyword into a schema and all below it. What is in a keyword that nobody knows may be
/// referred to, and so counts as a schema.
fn count_steps(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (keyword, value) in members.iter_mut() {
                match (Content::of(keyword), value) {
                    (Content::Schemas, Value::Object(schemas)) => schemas.values_mut().for_each(count_steps),
                    (Content::Data, _) => {}
                    (_, value) => count_steps(value),
                }
            }
            members.insert(STEP.to_owned(), Value::Bool(true));
        }
        Value::Array(elements) => elements.iter_mut().for_each(count_steps),
        _ => {}
    }
}

/// Kind of a keyword's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// An object of names and their schemas.
    Schemas,
    /// No schema.
    Data,
    /// A schema, an array of them, or neither.
    Schema,
}

impl Content {
    pub(super) fn of(keyword: &str) -> Self {
        match keyword {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies" => {
                Self::Schemas
            }
            "const" | "enum" | "default" | "examples" | "required" | "dependentRequired" | "type" | "$vocabulary" => {
                Self::Data
            }
            _ => Self::Schema,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_are_taken_from_the_budget() {
        let validator = validator(&json!({"additionalProperties": {"type": "string"}})).unwrap();
        let body: Map<_, _> = (0..50).map(|n| (n.to_string(), json!("x"))).collect();
        let mut left = 100;
        assert_eq!(within(&mut left, || validator.is_valid(&body.clone().into())), Ok(true));
        assert!((30..60).contains(&left), "one for each member, some for the object: {left}");
        assert_eq!(within(&mut left, || validator.is_valid(&body.into())), Err(Spent));
        assert_eq!(left, 0);
        assert_eq!(within(&mut left, || 7), Ok(7), "what counts nothing costs nothing");
    }

    #[test]
    fn counted_schemas_keep_their_meaning() {
        for (schema, fits, does_not) in [
            (json!({"properties": {"const": {"type": "string"}}}), json!({"const": "a"}), json!({"const": 1})),
            (json!({"const": {"a": 1}}), json!({"a": 1}), json!({"a": 1, STEP: true})),
            (json!({"enum": [{"a": 1}]}), json!({"a": 1}), json!({})),
            (json!({"dependentRequired": {"a": ["b"]}}), json!({"a": 1, "b": 1}), json!({"a": 1})),
            (json!({"dependentSchemas": {"a": {"required": ["b"]}}}), json!({"a": 1, "b": 1}), json!({"a": 1})),
            (json!({"patternProperties": {"^a": {"type": "null"}}}), json!({"a": null}), json!({"ab": 1})),
            (json!({"$ref": "#/x-own/here", "x-own": {"here": {"required": ["a"]}}}), json!({"a": 1}), json!({})),
            (
                json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"required": ["a"]}},
                    "properties": {"b": {"$ref": "#/definitions/a"}}}),
                json!({"b": {"a": 1}}),
                json!({"b": {}}),
            ),
            (json!({"properties": {"a": true}, "unevaluatedProperties": false}), json!({"a": 1}), json!({"b": 1})),
        ] {
            let validator = validator(&schema).unwrap();
            for (body, is_valid) in [(fits, true), (does_not, false)] {
                assert_eq!(within(&mut 1_000, || validator.is_valid(&body)), Ok(is_valid), "{schema}: {body}");
            }
        }
    }

    #[test]
    fn foreign_panics_propagate() {
        let caught = catch_unwind(|| within(&mut 5, || resume_unwind(Box::new("another"))));
        assert_eq!(caught.map(|_: Result<(), Spent>| ()).unwrap_err().downcast_ref(), Some(&"another"));
    }
}
