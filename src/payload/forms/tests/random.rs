//! Random messages of the rich schema, on a wire that no orderly writer makes: fields scattered,
//! repeated, merged. prost-reflect, which knows nothing of our tables, says whether two are equal.

use proptest::prelude::*;
use prost::Message;
use protox::prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use super::super::print;
use super::super::wire::{Wire, put_length};
use super::*;
use crate::payload::schema::{Kind, Known, Shape, Types};
use buffa_descriptor::ScalarType as T;

struct Maker<'a> {
    types: &'a Types,
    random: fastrand::Rng,
}

impl Maker<'_> {
    fn message(&mut self, index: usize, depth: usize, out: &mut Vec<u8>) {
        let message = self.types.message(index);
        match message.known {
            Known::Timestamp => return self.moment(out, 253_402_300_799),
            Known::Duration => return self.moment(out, 1_000_000_000),
            Known::FieldMask => return out.extend(bytes(1, self.pick(&["a", "foo_bar.b", "c.d_e"]))),
            Known::Value => return self.value(index, depth, out),
            Known::Any => return self.any(out),
            _ => {}
        }
        let count = if depth == 0 || message.fields.is_empty() { 0 } else { self.random.usize(0..8) };
        for _ in 0..count {
            let field = &message.fields[self.random.usize(0..message.fields.len())];
            match field.shape {
                Shape::Map { key } => {
                    put_tag(out, field.number, 2);
                    let start = out.len();
                    self.tagged(1, Kind::Scalar(key), depth, out);
                    self.tagged(2, field.kind, depth - 1, out);
                    put_length(out, start);
                }
                Shape::List { .. } if print::wire(field.kind) == Wire::Varint && self.random.bool() => {
                    put_tag(out, field.number, 2);
                    let start = out.len();
                    (0..self.random.usize(0..4)).for_each(|_| self.bare(field.kind, out));
                    put_length(out, start);
                }
                _ => self.tagged(field.number, field.kind, depth - 1, out),
            }
        }
    }

    fn pick<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.random.usize(0..of.len())]
    }

    fn moment(&mut self, out: &mut Vec<u8>, seconds: u64) {
        out.extend(varint(1, self.random.u64(0..=seconds)));
        out.extend(varint(2, self.random.u64(0..1_000_000_000)));
    }

    fn value(&mut self, index: usize, depth: usize, out: &mut Vec<u8>) {
        let number = self.random.u32(1..=if depth > 1 { 6 } else { 4 });
        let message = self.types.message(index);
        let kind = message.fields[usize::from(message.by_number(number).unwrap())].kind;
        match number {
            1 => out.extend(varint(1, 0)),
            2 => out.extend(double(2, f64::from(self.random.i32(..)) / 8.0)),
            _ => self.tagged(number, kind, depth.saturating_sub(1), out),
        }
    }

    fn any(&mut self, out: &mut Vec<u8>) {
        let (name, value) = match self.random.u8(0..3) {
            0 => ("google.protobuf.Duration", varint(1, self.random.u64(1..9))),
            1 => ("google.protobuf.StringValue", bytes(1, self.pick(&["a", "b"]))),
            _ => ("nearside.test.Kinds", varint(3, self.random.u64(1..9))),
        };
        out.extend(bytes(1, format!("type.googleapis.com/{name}")));
        out.extend(bytes(2, value));
    }

    fn tagged(&mut self, number: u32, kind: Kind, depth: usize, out: &mut Vec<u8>) {
        match (kind, print::wire(kind)) {
            (Kind::Message { index, .. }, wire) => {
                put_tag(out, number, if wire == Wire::Group { 3 } else { 2 });
                let start = out.len();
                self.message(index, depth, out);
                match wire {
                    Wire::Group => put_tag(out, number, 4),
                    _ => put_length(out, start),
                }
            }
            (_, wire) => {
                let code = [0, 1, 2, 3, 5][wire as usize];
                put_tag(out, number, code);
                self.bare(kind, out);
            }
        }
    }

    fn bare(&mut self, kind: Kind, out: &mut Vec<u8>) {
        match kind {
            Kind::Enum { index, is_closed } => {
                let of = self.types.enumeration(index);
                let number = [of.first, 1, 2, 77][self.random.usize(0..4)];
                let number = if of.is_null {
                    0
                } else if is_closed && of.name(number).is_none() {
                    of.first
                } else {
                    number
                };
                put_varint(out, i64::from(number) as u64);
            }
            Kind::Scalar(T::String) => {
                let text = self.pick(&["", "a", "\u{20ac}\"\\\n", "\u{1f600}"]);
                put_varint(out, text.len() as u64);
                out.extend(text.bytes());
            }
            Kind::Scalar(T::Bytes) => {
                let count = self.random.u8(0..5);
                out.push(count);
                out.extend((0..count).map(|_| self.random.u8(..)));
            }
            Kind::Scalar(T::Bool) => out.push(self.random.u8(0..2)),
            // NaN is never equal to itself; it has tests of its own.
            Kind::Scalar(T::Float) => {
                let value = Some(f32::from_bits(self.random.u32(..))).filter(|it| !it.is_nan());
                out.extend(value.unwrap_or(f32::INFINITY).to_le_bytes());
            }
            Kind::Scalar(T::Double) => {
                let value = Some(f64::from_bits(self.random.u64(..))).filter(|it| !it.is_nan());
                out.extend(value.unwrap_or(-0.0).to_le_bytes());
            }
            Kind::Scalar(T::Fixed32 | T::Sfixed32) => out.extend(self.random.u32(..).to_le_bytes()),
            Kind::Scalar(T::Fixed64 | T::Sfixed64) => out.extend(self.random.u64(..).to_le_bytes()),
            Kind::Scalar(_) => put_varint(out, self.random.u64(..) >> self.random.u32(0..64)),
            Kind::Message { .. } => unreachable!("messages have tags"),
        }
    }
}

fn made(schema: &Schema, seed: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut maker = Maker { types: &schema.types, random: fastrand::Rng::with_seed(seed) };
    maker.message(schema.root, 6, &mut out);
    out
}

fn descriptor(message: &str) -> MessageDescriptor {
    let pool = DescriptorPool::decode(descriptor_set()).unwrap();
    pool.get_message_by_name(&format!("nearside.test.{message}")).unwrap()
}

/// Decodes, encodes and decodes again, since an empty list is another value to prost-reflect than
/// none.
fn reread(descriptor: &MessageDescriptor, bytes: &[u8]) -> DynamicMessage {
    let once = DynamicMessage::decode(descriptor.clone(), bytes).unwrap();
    DynamicMessage::decode(descriptor.clone(), &*once.encode_to_vec()).unwrap()
}

/// Unknown fields of every kind, an unknown group among them.
fn unknown() -> Vec<u8> {
    [varint(1000, 1), bytes(1001, "new"), group(1002, &varint(1, 1)), double(1003, 1.0)].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn round_trip_loses_only_unknown_fields(seed: u64) {
        let descriptors = [descriptor("Kinds"), descriptor("Legacy")];
        for (name, descriptor) in ["Kinds", "Legacy"].into_iter().zip(descriptors) {
            let schema = schema(name);
            let protobuf = made(&schema, seed);
            let json = schema.to_json(&[protobuf.clone(), unknown()].concat()).unwrap();
            prop_assert_eq!(json.unknown_fields, 4);
            let back = schema.to_protobuf(&json.body).unwrap();
            prop_assert_eq!(back.unknown_fields, 0);
            // Without their Debug, which does not end.
            let is_same = reread(&descriptor, &back.body) == reread(&descriptor, &protobuf);
            prop_assert!(is_same, "{} {:x?}", String::from_utf8_lossy(&json.body), protobuf);
            prop_assert_eq!(schema.to_json(&back.body).unwrap().body, json.body);
        }
    }

    #[test]
    fn json_is_accepted_like_serde_json(text in r#"[\[\]{}",:0-9a-fnultrs.eE+\\ -]{0,24}"#) {
        let ours = read_whole(text.as_bytes()).is_ok();
        prop_assert_eq!(ours, serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(), "{}", text);
    }

    #[test]
    fn strings_are_read_like_serde_json(text: String) {
        let json = serde_json::to_string(&text).unwrap();
        let token = json::Json::new(json.as_bytes()).unwrap().token().unwrap();
        prop_assert_eq!(token, json::Token::Text(text.into()));
    }
}

fn read_whole(text: &[u8]) -> Result<(), Problem> {
    let mut json = json::Json::new(text)?;
    let token = json.token()?;
    json.skip(&token, FORM_DEPTH)?;
    json.finish()
}
