//! Schemas of which a small body can cost much: they refer to themselves by two or more branches of
//! an `oneOf`, `anyOf` or `allOf`, or by an `if` and what follows it, so that the work may double
//! with each level of a body.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::budget::Content;

/// The keywords that put several schemas on one place of a body.
const BRANCHES: [&str; 3] = ["oneOf", "anyOf", "allOf"];
const CONDITION: [&str; 4] = ["if", "then", "else", "not"];

/// The JSON Pointer of the first keyword that is such a one.
pub(super) fn doubling(schema: &Value) -> Option<String> {
    let mut graph = Graph::default();
    graph.add(schema, String::new());
    graph.forks.iter().find(|(at, branches)| graph.leading_back(at, branches) > 1).map(|(at, _)| at.clone())
}

/// Subschemas by their JSON Pointers, and where each leads: to those in it, and to that which it
/// refers to.
#[derive(Default)]
struct Graph {
    edges: BTreeMap<String, Vec<String>>,
    /// Places with several branches for the same place of a body.
    forks: Vec<(String, Vec<String>)>,
}

impl Graph {
    fn add(&mut self, schema: &Value, at: String) {
        let mut edges = Vec::new();
        match schema {
            Value::Object(members) => {
                for (keyword, value) in members {
                    if Content::of(keyword) == Content::Data {
                        continue;
                    }
                    if keyword == "$ref" {
                        edges.extend(value.as_str().and_then(|to| to.strip_prefix('#')).map(str::to_owned));
                    }
                    let place = format!("{at}/{}", keyword.replace('~', "~0").replace('/', "~1"));
                    self.add(value, place.clone());
                    edges.push(place);
                }
                let conditions = CONDITION.into_iter().filter(|keyword| members.contains_key(*keyword));
                let conditions: Vec<_> = conditions.map(|keyword| format!("{at}/{keyword}")).collect();
                self.fork(&at, conditions);
                for keyword in BRANCHES {
                    let branches = members.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
                    self.fork(&at, (0..branches).map(|number| format!("{at}/{keyword}/{number}")).collect());
                }
            }
            Value::Array(elements) => {
                for (number, element) in elements.iter().enumerate() {
                    let place = format!("{at}/{number}");
                    self.add(element, place.clone());
                    edges.push(place);
                }
            }
            _ => {}
        }
        self.edges.insert(at, edges);
    }

    fn fork(&mut self, at: &str, branches: Vec<String>) {
        if branches.len() > 1 {
            self.forks.push((at.to_owned(), branches));
        }
    }

    /// Number of the branches that come to where they fork again.
    fn leading_back(&self, at: &str, branches: &[String]) -> usize {
        branches.iter().filter(|branch| self.reaches(branch, at)).count()
    }

    fn reaches(&self, from: &str, to: &str) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(place) = next.pop() {
            if place == to {
                return true;
            }
            if seen.insert(place) {
                next.extend(self.edges.get(place).into_iter().flatten().map(String::as_str));
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recursion_by_two_branches_is_named() {
        for (schema, at) in [
            (json!({"$defs": {"node": {"oneOf": [kind("a"), kind("b")]}}}), Some("/$defs/node")),
            (json!({"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}), Some("")),
            (
                json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}, {"properties": {"x": {"$ref": "#/$defs/a"}}}]},
                    "b": {"properties": {"x": {"$ref": "#/$defs/a"}}}}}),
                Some("/$defs/a"),
            ),
            (
                json!({"if": {"properties": {"x": {"$ref": "#"}}}, "then": {"properties": {"x": {"$ref": "#"}}}}),
                Some(""),
            ),
            // One branch goes on, the other ends.
            (json!({"anyOf": [{"type": "string"}, {"items": {"$ref": "#"}}]}), None),
            // Two places of a body are two.
            (json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}), None),
            (json!({"oneOf": [{"type": "string"}, {"type": "null"}]}), None),
            (json!({"const": {"oneOf": [{"$ref": "#"}, {"$ref": "#"}]}}), None),
            (json!(true), None),
        ] {
            assert_eq!(doubling(&schema).as_deref(), at, "{schema}");
        }
    }

    fn kind(name: &str) -> Value {
        json!({"properties": {"kind": {"const": name}, "child": {"$ref": "#/$defs/node"}}})
    }
}
