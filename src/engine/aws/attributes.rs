//! Items as DynamoDB holds them: `p`, `s`, `version`, `body`, `note`, `expires`; and conditions in
//! its words.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use super::super::{Condition, Item, ItemKey};
use crate::model::time::Wall;

pub(super) const PARTITION: &str = "p";
pub(super) const SORT: &str = "s";
const VERSION: &str = "version";
const BODY: &str = "body";
const NOTE: &str = "note";
/// Unix seconds, rounded up: DynamoDB's TTL takes no finer ones, and nothing expires early.
pub(super) const EXPIRES: &str = "expires";

pub(super) type Attributes = HashMap<String, AttributeValue>;

pub(super) fn of_key(key: &ItemKey) -> Attributes {
    HashMap::from([
        (PARTITION.to_owned(), AttributeValue::S(key.partition.clone())),
        (SORT.to_owned(), AttributeValue::S(key.sort.clone())),
    ])
}

pub(super) fn of_item(item: Item) -> Attributes {
    let mut attributes = of_key(&item.key);
    attributes.insert(VERSION.to_owned(), number(item.version));
    if let Some(body) = item.body {
        attributes.insert(BODY.to_owned(), AttributeValue::B(Blob::new(body)));
    }
    if let Some(note) = item.note {
        attributes.insert(NOTE.to_owned(), AttributeValue::S(note));
    }
    if let Some(expires) = item.expires {
        attributes.insert(EXPIRES.to_owned(), number(expires.as_millis().div_ceil(1_000)));
    }
    attributes
}

/// `None` if an attribute is missing or of another type: then it is not an item of ours.
pub(super) fn to_item(mut attributes: Attributes) -> Option<Item> {
    let key = to_key(&mut attributes)?;
    let mut item = Item::new(key, taken(&mut attributes, VERSION, of_number)??);
    item.body = match attributes.remove(BODY) {
        Some(AttributeValue::B(body)) => Some(body.into_inner().into()),
        None => None,
        Some(_) => return None,
    };
    item.note = match attributes.remove(NOTE) {
        Some(AttributeValue::S(note)) => Some(note),
        None => None,
        Some(_) => return None,
    };
    item.expires = match attributes.remove(EXPIRES) {
        Some(seconds) => Some(Wall::from_millis(of_number(seconds)?.saturating_mul(1_000))),
        None => None,
    };
    Some(item)
}

pub(super) fn to_key(attributes: &mut Attributes) -> Option<ItemKey> {
    let partition = taken(attributes, PARTITION, of_text)??;
    Some(ItemKey { partition, sort: taken(attributes, SORT, of_text)?? })
}

/// The key of what may not be an item of ours.
pub(super) fn key_of(attributes: &Attributes) -> Option<ItemKey> {
    Some(ItemKey { partition: text(attributes, PARTITION)?, sort: text(attributes, SORT)? })
}

fn text(attributes: &Attributes, name: &str) -> Option<String> {
    attributes.get(name)?.as_s().ok().cloned()
}

fn taken<T>(attributes: &mut Attributes, name: &str, read: impl Fn(AttributeValue) -> T) -> Option<T> {
    attributes.remove(name).map(read)
}

fn number(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn of_number(value: AttributeValue) -> Option<u64> {
    if let AttributeValue::N(number) = value { number.parse().ok() } else { None }
}

fn of_text(value: AttributeValue) -> Option<String> {
    if let AttributeValue::S(text) = value { Some(text) } else { None }
}

/// A condition as every builder takes it.
pub(super) struct ConditionParts {
    pub expression: Option<String>,
    pub names: Option<HashMap<String, String>>,
    pub values: Option<Attributes>,
}

impl From<Condition> for ConditionParts {
    fn from(condition: Condition) -> Self {
        let (expression, version) = match condition {
            Condition::Any => return Self { expression: None, names: None, values: None },
            Condition::Absent => ("attribute_not_exists(p)", None),
            Condition::VersionIs(version) => ("#v = :v", Some(version)),
            Condition::Below(version) => ("attribute_not_exists(p) OR #v < :v", Some(version)),
        };
        Self {
            expression: Some(expression.to_owned()),
            names: version.map(|_| HashMap::from([("#v".to_owned(), VERSION.to_owned())])),
            values: version.map(|version| HashMap::from([(":v".to_owned(), number(version))])),
        }
    }
}

impl ConditionParts {
    /// A check needs an expression even where anything will do.
    pub(super) fn or_always(mut self) -> Self {
        self.expression.get_or_insert_with(|| "attribute_exists(p) OR attribute_not_exists(p)".to_owned());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_round_trips_expiry_never_earlier() {
        let item = Item::new(ItemKey::new("t#00", "k"), u64::MAX)
            .with_body(vec![0, 255])
            .with_note("{}")
            .expiring(Wall::from_millis(1_001));
        let back = to_item(of_item(item.clone())).unwrap();
        assert_eq!(back, item.expiring(Wall::from_millis(2_000)));
        let bare = Item::new(ItemKey::new("t#00", "k"), 0);
        assert_eq!(to_item(of_item(bare.clone())), Some(bare));
    }

    #[test]
    fn foreign_attributes_are_no_item() {
        let good = of_item(Item::new(ItemKey::new("t#00", "k"), 1).with_body(vec![1]));
        for name in [PARTITION, SORT, VERSION, BODY] {
            let mut bad = good.clone();
            bad.insert(name.to_owned(), AttributeValue::Bool(true));
            assert_eq!(to_item(bad), None, "{name}");
        }
        for name in [PARTITION, SORT, VERSION] {
            let mut bad = good.clone();
            bad.remove(name);
            assert_eq!(to_item(bad), None, "{name}");
        }
    }
}
