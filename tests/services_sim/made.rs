//! Expected views, by a second and tiny implementation that shares nothing with the first but the
//! definitions' meaning.

use serde_json::Value;

/// The views file; `limits` changes with its second definition.
pub(crate) fn file(definition: u64) -> String {
    let second = if definition > 1 { "rank = { value = 2 }\ntag = \"/tag\"\n" } else { "" };
    format!(
        r#"
[[view]]
name = "limits"
definition = {definition}
from = "tenant"
needs = {{ shard = "shard:{{/shard}}", plan = "plan:{{/plan}}" }}
[view.fields]
users = "/users"
host = "shard:/host"
quota = "plan:/quota"
{second}
[[view]]
name = "routes"
definition = 1
from = "tenant"
needs = {{ shard = "shard:{{/shard}}" }}
required = ["shard"]
[view.fields]
host = "shard:/host"

[[view]]
name = "hosts"
definition = 1
from = "shard"
[view.fields]
name = "/host"
"#
    )
}

pub(crate) const VIEWS: [(&str, &str); 3] = [("limits", "tenant"), ("routes", "tenant"), ("hosts", "shard")];

/// The body of a view of `main`, where `record` knows all others; `None` is a tombstone.
pub(crate) fn made(
    view: &str,
    definition: u64,
    main: Option<&[u8]>,
    record: impl Fn(&str, &str) -> Option<Value>,
) -> Option<String> {
    let main: Value = serde_json::from_slice(main?).expect("writers write JSON");
    let [shard, plan] = ["shard", "plan"].map(|of| main[of].as_str().and_then(|key| record(of, key)));
    let fields = match view {
        "limits" => {
            let second = definition > 1;
            vec![
                field("users", main.get("users")),
                field("host", shard.as_ref().and_then(|shard| shard.get("host"))),
                field("quota", plan.as_ref().and_then(|plan| plan.get("quota"))),
                second.then(|| "\"rank\":2".to_owned()),
                field("tag", main.get("tag")).filter(|_| second),
            ]
        }
        "routes" => vec![field("host", Some(&shard?["host"]))],
        _ => vec![field("name", main.get("host"))],
    };
    Some(format!("{{{}}}", fields.into_iter().flatten().collect::<Vec<_>>().join(",")))
}

fn field(name: &str, value: Option<&Value>) -> Option<String> {
    value.map(|value| format!("\"{name}\":{value}"))
}
