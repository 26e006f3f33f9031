//! Owns the announcement's wire form: proto3 JSON or base64 Protobuf of `nearside.v1.Announcement`, both ways.
//!
//! Before it: [`crate::aws::verify`] has shown that the message is SNS's. After it: [`crate::sidecar::announcements::apply`]. What cannot be
//! decoded is an event of its own (R14), so an error says why in fixed words and holds nothing of the content.
//!
//! Invariant: a decoded announcement is complete for its kind and within bounds; no code behind it checks it again.

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost::Message;
use prost_types::Timestamp;

use crate::model::time::Wall;
use crate::protocol::announcement::message::{Announcement, Kind, Numbered};
use crate::protocol::limits;

mod json;

/// Generated from `proto/nearside/v1/announcement.proto`.
#[allow(missing_docs, clippy::doc_markdown, reason = "generated; the .proto file documents it")]
pub mod wire {
    include!(concat!(env!("OUT_DIR"), "/nearside.v1.rs"));
}

/// A verified message that is no announcement: its publisher's fault, and a retry does not help (R14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// Neither a JSON object nor base64.
    #[error("neither a JSON object nor base64")]
    NotText,
    /// It begins like a JSON object and is none.
    #[error("not valid JSON")]
    NotJson,
    /// JSON with a field of the wrong type or range, or given twice; which.
    #[error("{0} of the wrong type or range, or given twice")]
    WrongType(&'static str),
    /// Base64 that is no Protobuf message.
    #[error("not a Protobuf message")]
    NotProtobuf,
    /// A kind that this version does not know.
    #[error("an unknown kind")]
    UnknownKind,
    /// A record type or key is missing where the kind needs one.
    #[error("no record type or no key")]
    NoRecord,
    /// A record type, a key or a publisher's name is too long.
    #[error("a record type, key or publisher beyond its bound")]
    TooLong,
    /// A negative version other than -1, -2 and -3.
    #[error("a negative version")]
    NegativeVersion,
    /// A negative sequence.
    #[error("a negative sequence")]
    NegativeSequence,
    /// A time that lies before 1970 or is none.
    #[error("a time before 1970")]
    Timestamp,
}

/// Versions that are read as kinds (DESIGN.md section 4).
const DELETED_VERSION: i64 = -1;
const RELOAD_VERSION: i64 = -2;
const RESET_VERSION: i64 = -3;

/// Reads the text of a verified message.
pub fn decode(text: &str) -> Result<Announcement, Undecodable> {
    let text = text.trim();
    let wire = if text.starts_with('{') { json::read(text)? } else { protobuf(text)? };
    complete(wire)
}

/// The names in a JSON message that no announcement has, and so say nothing; none where it is no JSON object.
pub fn unknown_names(text: &str) -> Vec<String> {
    json::unknown_names(text)
}

/// What an announcement's fields are called in JSON.
pub const FIELD_NAMES: [&str; 9] = json::NAMES;

/// Proto3 JSON, as publishers send it.
pub fn encode_json(announcement: &Announcement) -> String {
    json::write(&to_wire(announcement))
}

/// Base64 of the Protobuf message.
pub fn encode_base64(announcement: &Announcement) -> String {
    LENIENT.encode(to_wire(announcement).encode_to_vec())
}

/// Base64 with or without padding: publishers differ.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&STANDARD, INDIFFERENT);
const LENIENT_URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, INDIFFERENT);
const INDIFFERENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

fn protobuf(text: &str) -> Result<wire::Announcement, Undecodable> {
    if text.is_empty() {
        return Err(Undecodable::NotText);
    }
    let bytes = LENIENT.decode(text).or_else(|_| LENIENT_URL.decode(text)).map_err(|_| Undecodable::NotText)?;
    wire::Announcement::decode(bytes.as_slice()).map_err(|_| Undecodable::NotProtobuf)
}

/// A Protobuf time as ours; `None` before 1970.
pub(crate) fn wall(time: Timestamp) -> Option<Wall> {
    let time = time.try_normalize().ok()?;
    let seconds = u64::try_from(time.seconds).ok()?;
    let millis = u64::try_from(time.nanos).ok()? / 1_000_000;
    seconds.checked_mul(1000)?.checked_add(millis).map(Wall::from_millis)
}

/// Ours as a Protobuf time.
pub(crate) fn timestamp(wall: Wall) -> Timestamp {
    let millis = wall.as_millis();
    Timestamp { seconds: (millis / 1000) as i64, nanos: (millis % 1000) as i32 * 1_000_000 }
}

fn complete(wire: wire::Announcement) -> Result<Announcement, Undecodable> {
    let too_long = wire.record_type.len() > limits::RECORD_TYPE_BYTES
        || wire.key.len() > limits::RECORD_KEY_BYTES
        || wire.publisher.len() > limits::PUBLISHER_BYTES;
    if too_long {
        return Err(Undecodable::TooLong);
    }
    let ingested_at = time(wire.ingested_at)?;
    let kind = kind(&wire)?;
    let named = match kind {
        Kind::Changed { .. } | Kind::Deleted { .. } => !wire.record_type.is_empty() && !wire.key.is_empty(),
        // A key without a type could only be guessed at.
        Kind::Reload | Kind::Reset => !wire.record_type.is_empty() || wire.key.is_empty(),
        Kind::Heartbeat { .. } => true,
    };
    if !named {
        return Err(Undecodable::NoRecord);
    }
    let sequence = u64::try_from(wire.sequence).map_err(|_| Undecodable::NegativeSequence)?;
    // A heartbeat may say "I have announced nothing yet"; an announcement's own number is at least 1.
    let counts = sequence > 0 || matches!(kind, Kind::Heartbeat { .. });
    let numbered = (!wire.publisher.is_empty() && counts).then_some(Numbered { publisher: wire.publisher, sequence });
    Ok(Announcement { record_type: wire.record_type, key: wire.key, kind, numbered, ingested_at })
}

fn kind(wire: &wire::Announcement) -> Result<Kind, Undecodable> {
    let said = wire::Kind::try_from(wire.kind).map_err(|_| Undecodable::UnknownKind)?;
    if said == wire::Kind::Heartbeat {
        let ingested_through = time(wire.ingested_through)?;
        return Ok(Kind::Heartbeat { ingested_through, signing_off: wire.signing_off });
    }
    let version = match wire.version {
        DELETED_VERSION => return Ok(Kind::Deleted { version: None }),
        RELOAD_VERSION => return Ok(Kind::Reload),
        RESET_VERSION => return Ok(Kind::Reset),
        0 => None,
        version => Some(u64::try_from(version).map_err(|_| Undecodable::NegativeVersion)?),
    };
    Ok(match said {
        wire::Kind::Deleted => Kind::Deleted { version },
        wire::Kind::Reload => Kind::Reload,
        wire::Kind::Reset => Kind::Reset,
        _ => Kind::Changed { version },
    })
}

fn time(time: Option<Timestamp>) -> Result<Option<Wall>, Undecodable> {
    time.map(|time| wall(time).ok_or(Undecodable::Timestamp)).transpose()
}

fn to_wire(announcement: &Announcement) -> wire::Announcement {
    let mut wire = wire::Announcement {
        record_type: announcement.record_type.clone(),
        key: announcement.key.clone(),
        ingested_at: announcement.ingested_at.map(timestamp),
        ..wire::Announcement::default()
    };
    if let Some(numbered) = &announcement.numbered {
        wire.publisher.clone_from(&numbered.publisher);
        wire.sequence = i64::try_from(numbered.sequence).unwrap_or(i64::MAX);
    }
    let kind = match announcement.kind {
        Kind::Changed { version } => {
            wire.version = version.map_or(0, signed);
            wire::Kind::Changed
        }
        Kind::Deleted { version } => {
            wire.version = version.map_or(0, signed);
            wire::Kind::Deleted
        }
        Kind::Reload => wire::Kind::Reload,
        Kind::Reset => wire::Kind::Reset,
        Kind::Heartbeat { ingested_through, signing_off } => {
            wire.ingested_through = ingested_through.map(timestamp);
            wire.signing_off = signing_off;
            wire::Kind::Heartbeat
        }
    };
    wire.kind = kind.into();
    wire
}

/// The wire's versions are signed; ours beyond them cannot have come from there.
fn signed(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

pub mod message;
#[cfg(test)]
mod tests;
