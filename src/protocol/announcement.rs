//! The wire form of an announcement, both ways: proto3 JSON or base64 Protobuf of
//! `nearside.v1.Announcement`. [`crate::aws::verify`] has already verified that the message is from
//! SNS.
//!
//! A decoded announcement is complete for its kind and within bounds, and no later code checks it
//! again. What cannot be decoded is an event of its own (R14), so an error gives its reason in
//! fixed words and contains nothing of the content.

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost::Message;
use prost_types::Timestamp;

use crate::model::time::Wall;
use crate::protocol::announcement::message::{Announcement, AnnouncementKind, Numbered};
use crate::protocol::limits;

mod json;
pub mod message;
mod undecodable;
pub mod wire;

pub use undecodable::Undecodable;

/// Versions that stand for a kind (`proto/nearside/v1/announcement.proto`).
const DELETED_VERSION: i64 = -1;
const RELOAD_VERSION: i64 = -2;
const RESET_VERSION: i64 = -3;

pub fn decode(text: &str) -> Result<Announcement, Undecodable> {
    let text = text.trim();
    let wire = if text.starts_with('{') { json::read(text)? } else { protobuf(text)? };
    complete(wire)
}

/// The names in a JSON message that are not an announcement's and therefore mean nothing. Empty if
/// the text is not a JSON object.
pub fn unknown_names(text: &str) -> Vec<String> {
    json::unknown_names(text)
}

/// The JSON names of an announcement's fields.
pub const FIELD_NAMES: [&str; 9] = json::NAMES;

/// Proto3 JSON, as publishers send it.
pub fn encode_json(announcement: &Announcement) -> String {
    json::write(&to_wire(announcement))
}

/// Base64 of the Protobuf message.
pub fn encode_base64(announcement: &Announcement) -> String {
    LENIENT.encode(to_wire(announcement).encode_to_vec())
}

/// Padding is optional: publishers differ.
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

/// `None` for a time before 1970, or one that is not valid.
pub(crate) fn wall(time: Timestamp) -> Option<Wall> {
    let time = time.try_normalize().ok()?;
    let seconds = u64::try_from(time.seconds).ok()?;
    let millis = u64::try_from(time.nanos).ok()? / 1_000_000;
    seconds.checked_mul(1000)?.checked_add(millis).map(Wall::from_millis)
}

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
        AnnouncementKind::Changed { .. } | AnnouncementKind::Deleted { .. } => {
            !wire.record_type.is_empty() && !wire.key.is_empty()
        }
        // With a key but no type, the record could only be guessed.
        AnnouncementKind::Reload | AnnouncementKind::Reset => !wire.record_type.is_empty() || wire.key.is_empty(),
        AnnouncementKind::Heartbeat { .. } => true,
    };
    if !named {
        return Err(Undecodable::NoRecord);
    }
    let sequence = u64::try_from(wire.sequence).map_err(|_| Undecodable::NegativeSequence)?;
    // A heartbeat may say "I have announced nothing yet"; an announcement's own number is at least
    // 1.
    let counts = sequence > 0 || matches!(kind, AnnouncementKind::Heartbeat { .. });
    let numbered = (!wire.publisher.is_empty() && counts).then_some(Numbered { publisher: wire.publisher, sequence });
    Ok(Announcement { record_type: wire.record_type, key: wire.key, kind, numbered, ingested_at })
}

fn kind(wire: &wire::Announcement) -> Result<AnnouncementKind, Undecodable> {
    let said = wire::Kind::try_from(wire.kind).map_err(|_| Undecodable::UnknownKind)?;
    if said == wire::Kind::Heartbeat {
        // The epoch is what an unset time is in many languages.
        let ingested_through = time(wire.ingested_through)?.filter(|through| *through > Wall::default());
        return Ok(AnnouncementKind::Heartbeat { ingested_through, signing_off: wire.signing_off });
    }
    let version = match wire.version {
        DELETED_VERSION => return Ok(AnnouncementKind::Deleted { version: None }),
        RELOAD_VERSION => return Ok(AnnouncementKind::Reload),
        RESET_VERSION => return Ok(AnnouncementKind::Reset),
        0 => None,
        version => Some(u64::try_from(version).map_err(|_| Undecodable::NegativeVersion)?),
    };
    Ok(match said {
        wire::Kind::Deleted => AnnouncementKind::Deleted { version },
        wire::Kind::Reload => AnnouncementKind::Reload,
        wire::Kind::Reset => AnnouncementKind::Reset,
        _ => AnnouncementKind::Changed { version },
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
        AnnouncementKind::Changed { version } => {
            wire.version = version.map_or(0, signed);
            wire::Kind::Changed
        }
        AnnouncementKind::Deleted { version } => {
            wire.version = version.map_or(0, signed);
            wire::Kind::Deleted
        }
        AnnouncementKind::Reload => wire::Kind::Reload,
        AnnouncementKind::Reset => wire::Kind::Reset,
        AnnouncementKind::Heartbeat { ingested_through, signing_off } => {
            wire.ingested_through = ingested_through.map(timestamp);
            wire.signing_off = signing_off;
            wire::Kind::Heartbeat
        }
    };
    wire.kind = kind.into();
    wire
}

/// Versions on the wire are signed, so a larger one of ours cannot have come from there.
fn signed(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
