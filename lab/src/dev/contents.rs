//! Contents of `nearside-lab dev`: tenants, the shards on which they lie, and two views of them.

use nearside::app::services::Contents;
use nearside::catalogue::RecordTypes;
use nearside::views;

pub(super) const TENANT: &str = "tenant";
pub(super) const SHARD: &str = "shard";
/// The view that is made of two records.
pub(super) const LIMITS: &str = "limits";
pub(super) const PROFILE: &str = "profile";
/// Tenants with which the catalogue starts, and the shards on which they lie. A change of a shard
/// is announced for each of its tenants in each region, and a debug build takes 3 ms for one.
pub(super) const TENANTS: usize = 800;
pub(super) const SHARDS: usize = 8;

/// The key of the story's steps 1 to 5, 8 and 9; it is on the first shard.
pub(super) const KEY: &str = "tenant-1";

/// Path of a batch of a view; a region's node has it at the same place.
pub(super) fn batch_path(view: &str) -> String {
    format!("/v1/batch/{view}")
}

const VIEWS: &str = include_str!("views.toml");

pub(super) fn contents() -> Contents {
    let types = [TENANT, SHARD].map(str::to_owned);
    let any = types.clone().map(|name| (name, serde_json::Value::Bool(true)));
    Contents {
        types: RecordTypes::compile(any).expect("two names with the schema that takes everything"),
        views: views::read("views.toml", VIEWS, Some(&types)).expect("a file of this repository, which a test reads"),
    }
}

/// Type, key and body of everything that the catalogue starts with.
pub(super) fn seed() -> impl Iterator<Item = (&'static str, String, String)> {
    let shards = (1..=SHARDS).map(|number| {
        let key = format!("shard-{number}");
        let body = format!(r#"{{"host":"{key}.example.com"}}"#);
        (SHARD, key, body)
    });
    let tenants = (1..=TENANTS).map(|number| {
        let key = format!("tenant-{number}");
        let body = format!(
            r#"{{"name":"{key}","plan":"standard","shard":"{}","limits":{{"users":{number}}}}}"#,
            shard_of(number)
        );
        (TENANT, key, body)
    });
    shards.chain(tenants)
}

/// The shard of `tenant-{number}`: the first eight tenants lie on the eight shards in turn.
pub(super) fn shard_of(number: usize) -> String {
    format!("shard-{}", (number - 1) % SHARDS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_and_seed_records_are_valid() {
        let contents = contents();
        let names: Vec<_> = contents.views.iter().map(|view| view.name.as_str()).collect();
        assert_eq!(names, [LIMITS, PROFILE]);
        let records: Vec<_> = seed().collect();
        assert_eq!(records.len(), TENANTS + SHARDS);
        assert!(records.iter().all(|(.., body)| serde_json::from_str::<serde_json::Value>(body).is_ok()));
    }
}
