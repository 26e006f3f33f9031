//! Targets of the announcement path before anything is trusted: the envelope and the announcement
//! in it.
//!
//! `planted` holds a panic on purpose: that `make fuzz-check` finds it shows that coverage leads
//! the way.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nearside::aws::envelope::{Envelope, EnvelopeKind};
use nearside::cache::limits::ENVELOPE_BYTES;
use nearside::protocol::announcement::message::{self, Announcement};
use nearside::protocol::announcement::{decode, encode_base64, encode_json};
use nearside::protocol::limits::{PUBLISHER_BYTES, RECORD_KEY_BYTES, RECORD_TYPE_BYTES};
use serde_json::json;

/// Checks that an envelope that [`Envelope::parse`] takes can be written and read again, and its
/// text to sign can be read back in one way.
pub(crate) fn envelope(data: &[u8]) {
    let Ok(envelope) = Envelope::parse(data) else { return };
    assert!(data.len() <= ENVELOPE_BYTES);
    assert_eq!(envelope.confirmation.is_some(), envelope.kind != EnvelopeKind::Notification);
    let again = Envelope::parse(written(&envelope).as_bytes());
    assert!(again.as_ref() == Ok(&envelope), "{again:?}");
    assert_eq!(read_back(&envelope.string_to_sign()), signed_fields(&envelope));
}

fn written(envelope: &Envelope) -> String {
    let mut fields = json!({
        "Type": envelope.kind.into_str(), "MessageId": envelope.message_id, "TopicArn": envelope.topic_arn,
        "Message": envelope.message, "Subject": envelope.subject, "Timestamp": envelope.timestamp,
        "SignatureVersion": envelope.signature_version.into_str(), "Signature": STANDARD.encode(&envelope.signature),
        "SigningCertURL": envelope.certificate_url,
    });
    if let Some(confirmation) = &envelope.confirmation {
        fields["Token"] = json!(confirmation.token);
        fields["SubscribeURL"] = json!(confirmation.subscribe_url);
    }
    fields.to_string()
}

type Fields = Vec<(String, String)>;

/// The fields that a signature covers, from the last to the first.
fn signed_fields(envelope: &Envelope) -> Fields {
    let mut fields = vec![("Type", envelope.kind.into_str()), ("TopicArn", &envelope.topic_arn)];
    let confirmation = envelope.confirmation.as_ref();
    fields.extend(confirmation.map(|confirmation| ("Token", confirmation.token.as_str())));
    fields.push(("Timestamp", &envelope.timestamp));
    fields.extend(match confirmation {
        Some(confirmation) => Some(("SubscribeURL", confirmation.subscribe_url.as_str())),
        None => envelope.subject.as_deref().map(|subject| ("Subject", subject)),
    });
    fields.extend([("MessageId", envelope.message_id.as_str()), ("Message", &envelope.message)]);
    fields.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Reads a text to sign from its end, knowing nothing of the envelope: every field but the first is
/// two lines.
fn read_back(text: &str) -> Fields {
    let mut rest = text.strip_suffix('\n').expect("a newline ends it");
    let mut fields = Fields::new();
    loop {
        let (before, value) = rest.rsplit_once('\n').expect("a name stands before each value");
        let (before, name) = before.rsplit_once('\n').expect("the message stands before everything");
        fields.push((name.to_owned(), value.to_owned()));
        if name == "MessageId" {
            let message = before.strip_prefix("Message\n").expect("the message is the first");
            fields.push(("Message".to_owned(), message.to_owned()));
            return fields;
        }
        rest = before;
    }
}

/// Checks that a message that [`decode`] takes is complete and within bounds, and that both wire
/// forms of it decode to the same. The bytes are read as text, and as the Protobuf message that a
/// base64 text would hold.
pub(crate) fn announcement(data: &[u8]) {
    let text = std::str::from_utf8(data).map(str::to_owned);
    for text in [text.ok(), Some(STANDARD.encode(data))].into_iter().flatten() {
        let Ok(announcement) = decode(&text) else { continue };
        complete(&announcement);
        for form in [encode_json(&announcement), encode_base64(&announcement)] {
            assert!(decode(&form).as_ref() == Ok(&announcement), "{announcement:?} as {form}: {:?}", decode(&form));
        }
    }
}

fn complete(announcement: &Announcement) {
    assert!(announcement.record_type.len() <= RECORD_TYPE_BYTES);
    assert!(announcement.key.len() <= RECORD_KEY_BYTES);
    let (typed, keyed) = (!announcement.record_type.is_empty(), !announcement.key.is_empty());
    let heartbeat = matches!(announcement.kind, message::AnnouncementKind::Heartbeat { .. });
    match announcement.kind {
        message::AnnouncementKind::Changed { version } | message::AnnouncementKind::Deleted { version } => {
            assert!(typed && keyed);
            assert!(version.is_none_or(|version| (1..=i64::MAX as u64).contains(&version)), "{version:?}");
        }
        message::AnnouncementKind::Reload | message::AnnouncementKind::Reset => assert!(typed || !keyed),
        message::AnnouncementKind::Heartbeat { .. } => {}
    }
    if let Some(numbered) = &announcement.numbered {
        assert!(!numbered.publisher.is_empty() && numbered.publisher.len() <= PUBLISHER_BYTES);
        assert!(numbered.sequence > 0 || heartbeat);
    }
}

/// Panics on bytes that begin with four given words of two letters.
///
/// The words are in the target's dictionary among others, so writing one where it belongs has odds
/// of about one in two thousand a run, and writing all four at one go, blindly, of one in 10^13.
/// Each that fits is a step that coverage shows, and so an input worth going on from: that leads
/// there within some hundred thousand runs. Nothing is decoded first: what that shows would be gone
/// on from as well, and the way there took between one million runs and more than twenty.
pub(crate) fn planted(data: &[u8]) {
    let mut fitting = 0;
    for (written, wanted) in data.chunks(2).zip([b"fU", b"z7", b"g0", b"Ld"]) {
        if written != wanted {
            return;
        }
        // Kept from being merged into one comparison.
        fitting = std::hint::black_box(fitting + 1);
    }
    assert!(fitting < 4, "the planted panic");
}
