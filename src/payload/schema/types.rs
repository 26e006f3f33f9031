//! The types of a descriptor set as the forms need them: flat tables with every name and feature
//! resolved, so that a conversion looks nothing up twice.

use std::collections::HashMap;

use buffa::editions::{EnumType, FieldPresence};
use buffa_descriptor::{
    DescriptorPool, EnumIndex, ExtensionDescriptor, FieldDescriptor, FieldKind, MessageDescriptor, MessageIndex,
    ScalarType, SingularKind,
};

/// All messages and enums of a set, named by their places in these lists.
#[derive(Debug)]
pub(crate) struct Types {
    messages: Vec<MessageType>,
    enums: Vec<EnumTable>,
    by_name: HashMap<String, usize>,
}

#[derive(Debug)]
pub(crate) struct MessageType {
    pub(in crate::payload) known: Known,
    /// Members of one oneof stand together; apart from that, by number.
    pub(crate) fields: Vec<Field>,
    pub(crate) oneofs: usize,
    /// Number of the fields that must be there.
    pub(crate) required: usize,
    by_number: Vec<(u32, u16)>,
    by_name: HashMap<String, u16>,
}

/// The messages that have a JSON form of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::payload) enum Known {
    No,
    Any,
    Timestamp,
    Duration,
    FieldMask,
    Struct,
    Value,
    ListValue,
    Wrapper,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    /// As the JSON form prints it.
    pub(crate) printed: String,
    /// Its other name, of JSON's and the schema's, where that means no other field.
    pub(crate) other: Option<Box<str>>,
    /// Name as in `printed`, in quotes and with a colon.
    pub(crate) quoted: String,
    pub(crate) kind: Kind,
    pub(crate) shape: Shape,
    /// The first of its oneof's fields, or itself.
    pub(crate) slot: u16,
    /// The one of its message's real oneofs that it belongs to.
    pub(crate) oneof: Option<u16>,
    pub(crate) is_required: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One value that is written although it is the default.
    Present,
    /// One value; its default is the same as its absence.
    Implicit,
    List {
        packed: bool,
    },
    Map {
        key: ScalarType,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Scalar(ScalarType),
    Enum {
        index: usize,
        /// A number that it does not name is an unknown field.
        is_closed: bool,
    },
    Message {
        index: usize,
        /// Between two tags on the wire (a group) instead of behind a length.
        is_delimited: bool,
    },
}

#[derive(Debug)]
pub(crate) struct EnumTable {
    pub(crate) is_null: bool,
    /// Number that an absent value stands for.
    pub(crate) first: i32,
    by_number: HashMap<i32, String>,
    by_name: HashMap<String, i32>,
}

impl EnumTable {
    pub(crate) fn name(&self, number: i32) -> Option<&str> {
        self.by_number.get(&number).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<i32> {
        self.by_name.get(name).copied()
    }
}

impl MessageType {
    pub(crate) fn by_number(&self, number: u32) -> Option<u16> {
        let found = self.by_number.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.by_number[found].1)
    }

    /// The field that has this name in the schema or in JSON.
    pub(crate) fn by_name(&self, name: &str) -> Option<u16> {
        self.by_name.get(name).copied()
    }
}

impl Types {
    pub(crate) fn message(&self, index: usize) -> &MessageType {
        &self.messages[index]
    }

    pub(crate) fn enumeration(&self, index: usize) -> &EnumTable {
        &self.enums[index]
    }

    pub(crate) fn index_of(&self, message: &str) -> Option<usize> {
        self.by_name.get(message).copied()
    }

    /// The names of all messages, without the entries of maps.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    pub(super) fn of(pool: &DescriptorPool) -> Self {
        let places = Places {
            messages: pool.messages().iter().filter_map(|it| pool.message_index(it.full_name())).zip(0..).collect(),
            enums: pool.enums().iter().filter_map(|it| pool.enum_index(it.full_name())).zip(0..).collect(),
        };
        let messages = pool.messages().iter().map(|it| places.message(pool, it)).collect();
        let by_name = pool.messages().iter().zip(0..).filter(|(it, _)| !is_map_entry(it));
        let by_name = by_name.map(|(it, index)| (it.full_name().to_owned(), index)).collect();
        Self { messages, enums: pool.enums().iter().map(enum_table).collect(), by_name }
    }
}

fn is_map_entry(it: &MessageDescriptor) -> bool {
    it.options().is_some_and(|options| options.map_entry == Some(true))
}

fn enum_table(it: &buffa_descriptor::EnumDescriptor) -> EnumTable {
    let mut by_number = HashMap::new();
    for value in it.values() {
        by_number.entry(value.number()).or_insert_with(|| value.name().to_owned());
    }
    EnumTable {
        is_null: it.full_name() == "google.protobuf.NullValue",
        first: it.values().first().map_or(0, |value| value.number()),
        by_number,
        by_name: it.values().iter().map(|value| (value.name().to_owned(), value.number())).collect(),
    }
}

/// Indices of the pool's messages and enums in our lists.
struct Places {
    messages: HashMap<MessageIndex, usize>,
    enums: HashMap<EnumIndex, usize>,
}

impl Places {
    fn message(&self, pool: &DescriptorPool, it: &MessageDescriptor) -> MessageType {
        let mut fields: Vec<(&str, &str, Field)> = Vec::new();
        for field in it.fields() {
            fields.push((
                field.name(),
                field.json_name(),
                self.field(field, field.json_name(), real_oneof(it, field)),
            ));
        }
        let extensions = pool.message_index(it.full_name()).map(|index| pool.extensions_of(index));
        for extension in extensions.into_iter().flatten() {
            let extension: &ExtensionDescriptor = extension;
            let key = extension.json_key();
            fields.push((key, key, self.field(extension.field(), key, None)));
        }
        let first =
            |oneof: u16| fields.iter().filter(|(.., it)| it.oneof == Some(oneof)).map(|(.., it)| it.number).min();
        let firsts: Vec<Option<u32>> = (0..it.oneofs().len()).map(|oneof| first(oneof as u16)).collect();
        fields.sort_by_key(|(.., it)| {
            let leader = it.oneof.and_then(|oneof| firsts[usize::from(oneof)]).unwrap_or(it.number);
            (leader, it.number)
        });
        let mut by_name = HashMap::new();
        for (index, (name, json, _)) in (0..).zip(&fields) {
            by_name.insert((*json).to_owned(), index);
            by_name.entry((*name).to_owned()).or_insert(index);
        }
        for (index, (name, json, field)) in (0..).zip(&mut fields) {
            let mut names = [*name, *json].into_iter();
            field.other = names.find(|it| **it != *field.printed && by_name[*it] == index).map(Box::from);
        }
        let mut fields: Vec<Field> = fields.into_iter().map(|(.., field)| field).collect();
        let mut slot = 0;
        for index in 0..fields.len() {
            let joins = index > 0 && fields[index].oneof.is_some() && fields[index].oneof == fields[index - 1].oneof;
            slot = if joins { slot } else { index as u16 };
            fields[index].slot = slot;
        }
        let mut by_number: Vec<(u32, u16)> = fields.iter().map(|it| it.number).zip(0..).collect();
        by_number.sort_unstable();
        let required = fields.iter().filter(|it| it.is_required).count();
        let known = known(it.full_name());
        MessageType { known, fields, oneofs: it.oneofs().len(), required, by_number, by_name }
    }

    fn field(&self, it: &FieldDescriptor, printed: &str, oneof: Option<u16>) -> Field {
        let (kind, shape) = match it.kind() {
            FieldKind::Singular(of) => {
                let is_message = matches!(of, SingularKind::Message(_));
                let is_present = is_message || oneof.is_some() || it.presence() != FieldPresence::Implicit;
                (self.kind(it, of, it.is_delimited()), if is_present { Shape::Present } else { Shape::Implicit })
            }
            FieldKind::List(of) => (self.kind(it, of, it.is_delimited()), Shape::List { packed: it.is_packed() }),
            // Entries and what is in them lie behind a length, whatever the file says of its messages.
            FieldKind::Map { key, value } => (self.kind(it, value, false), Shape::Map { key }),
        };
        let is_required = it.presence() == FieldPresence::LegacyRequired;
        let quoted = format!("{}:", serde_json::Value::from(printed));
        Field {
            number: it.number(),
            printed: printed.to_owned(),
            other: None,
            quoted,
            kind,
            shape,
            slot: 0,
            oneof,
            is_required,
        }
    }

    fn kind(&self, it: &FieldDescriptor, kind: SingularKind, is_delimited: bool) -> Kind {
        match kind {
            SingularKind::Scalar(scalar) => Kind::Scalar(scalar),
            SingularKind::Enum(index) => {
                Kind::Enum { index: self.enums[&index], is_closed: it.enum_type() == Some(EnumType::Closed) }
            }
            SingularKind::Message(index) => Kind::Message { index: self.messages[&index], is_delimited },
        }
    }
}

/// The field's oneof, unless it only stands for proto3's `optional`.
fn real_oneof(it: &MessageDescriptor, field: &FieldDescriptor) -> Option<u16> {
    field.oneof_index().filter(|at| it.oneofs().get(usize::from(*at)).is_some_and(|oneof| !oneof.is_synthetic()))
}

fn known(name: &str) -> Known {
    match name.strip_prefix("google.protobuf.").unwrap_or_default() {
        "Any" => Known::Any,
        "Timestamp" => Known::Timestamp,
        "Duration" => Known::Duration,
        "FieldMask" => Known::FieldMask,
        "Struct" => Known::Struct,
        "Value" => Known::Value,
        "ListValue" => Known::ListValue,
        "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value" | "UInt32Value" | "BoolValue"
        | "StringValue" | "BytesValue" => Known::Wrapper,
        _ => Known::No,
    }
}
