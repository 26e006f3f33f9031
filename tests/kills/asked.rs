//! Requests of writers and their answers, the contents of the catalogue's history, and the contents
//! due in a view of it. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A place in the order of everything that this program sent and got: one counter for all.
pub(crate) type Tick = u64;

/// Type and key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) kind: &'static str,
    pub(crate) key: String,
}

pub(crate) const TENANT: &str = "tenant";
pub(crate) const SHARD: &str = "shard";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    None,
    /// `If-Match`.
    VersionIs(u64),
    /// `If-None-Match: *`.
    Absent,
}

/// One record of a request; without a body it is deleted.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) record: Record,
    pub(crate) body: Option<Value>,
    pub(crate) only_if: Condition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The version of each part.
    Acknowledged(Vec<u64>),
    /// Nothing was written.
    Refused(String),
    /// Nobody knows: the answer was lost.
    Unknown(String),
}

/// A request: one record, or a batch. All its attempts together.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) parts: Vec<Part>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) sent: Tick,
    pub(crate) answered: Tick,
    pub(crate) outcome: Outcome,
    /// Answers to further attempts after it had been acknowledged.
    pub(crate) again: Vec<Outcome>,
}

/// One line of a record's history; without a body a deletion.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Version {
    pub(crate) version: u64,
    pub(crate) body: Option<Value>,
}

/// Each record's versions, as the catalogue lists them.
pub(crate) type Histories = BTreeMap<Record, Vec<Version>>;

impl Record {
    pub(crate) fn tenant(number: u64) -> Self {
        Self { kind: TENANT, key: format!("kill-{number}") }
    }

    pub(crate) fn shard(number: u64) -> Self {
        Self { kind: SHARD, key: format!("kill-shard-{number}") }
    }
}

impl std::fmt::Display for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.kind, self.key)
    }
}

/// Body of a write: no two are equal. The views show the number of few tenants; other changes end
/// at the mapper.
pub(crate) fn body(record: &Record, number: u64, shown: bool, shard: u64) -> Value {
    if record.kind == SHARD {
        return json!({"number": number, "host": format!("host-{number}.example.com")});
    }
    let visible = if shown { number } else { 0 };
    json!({
        "number": number,
        "name": record.key,
        "plan": "standard",
        "shard": Record::shard(shard).key,
        "since": visible,
        "limits": {"users": visible % 1_000},
    })
}

/// View by `lab/src/dev/views.toml` of the records as they are; `None` where there is nothing.
pub(crate) fn limits_of(tenant: Option<&Value>, histories: &Histories) -> Option<Value> {
    let tenant = tenant?;
    let mut view = json!({"plan": tenant["plan"], "users": tenant["limits"]["users"], "since": tenant["since"]});
    let shard = Record { kind: SHARD, key: tenant["shard"].as_str()?.to_owned() };
    let last = histories.get(&shard).and_then(|versions| versions.last());
    if let Some(shard) = last.and_then(|last| last.body.as_ref()) {
        view["host"] = shard["host"].clone();
    }
    Some(view)
}
