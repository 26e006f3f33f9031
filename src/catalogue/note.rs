//! Note beside each version of the history: who changed the record then, and why.
//!
//! It lies in the store: members may be added, none may go, and one that cannot be read is none.

use std::fmt;

use aws_lc_rs::digest;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::principal::Principal;
use crate::catalogue::author::Author;
use crate::catalogue::limits::CHANGE_NOTE_BYTES;
use crate::engine::Item;
use crate::model::identities::{IDENTITY_BYTES, is_unprintable};
use crate::model::time::Wall;

/// Knowledge of a change. Versions from before notes were kept have none.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
pub struct ChangeNote {
    /// The writer: `consumer/NAME`, `admin` or `anonymous`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<NotedPrincipal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Milliseconds of the request's calendar, where they are not the version: a record that changes
    /// often runs ahead of the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
}

/// Reasons may name people.
impl fmt::Debug for ChangeNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChangeNote(by {:?}, at {:?})", self.by, self.at)
    }
}

/// A principal, shortened where its name is longer than grants can name.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NotedPrincipal {
    Token { iss: String, sub: String },
    Spiffe(String),
    Dns(String),
}

impl ChangeNote {
    /// The note of a change that commits `version` at `now`.
    #[must_use]
    pub fn of(author: &Author, version: u64, now: Wall) -> Self {
        Self {
            by: Some(author.by.to_string()),
            who: author.principal.as_ref().map(NotedPrincipal::of),
            request: Some(author.request.as_str().to_owned()),
            reason: author.reason.as_ref().map(|reason| reason.as_str().to_owned()),
            at: Some(now.as_millis()).filter(|at| *at != version),
        }
    }

    /// The note of an item of the history. A member of a later version that is not understood costs the others
    /// nothing.
    #[must_use]
    pub fn read(item: &Item) -> Self {
        let note = item.note.as_deref().and_then(|note| serde_json::from_str::<Map<String, Value>>(note).ok());
        let mut note = note.unwrap_or_default();
        Self {
            by: member(&mut note, "by"),
            who: member(&mut note, "who"),
            request: member(&mut note, "request"),
            reason: member(&mut note, "reason"),
            at: member(&mut note, "at"),
        }
    }

    /// Time of the change of `version`.
    #[must_use]
    pub fn at(&self, version: u64) -> Wall {
        Wall::from_millis(self.at.unwrap_or(version))
    }

    /// As it is stored: at most [`CHANGE_NOTE_BYTES`].
    #[must_use]
    pub fn to_text(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        debug_assert!(text.len() <= CHANGE_NOTE_BYTES, "{} bytes", text.len());
        text
    }
}

fn member<T: DeserializeOwned>(note: &mut Map<String, Value>, name: &str) -> Option<T> {
    serde_json::from_value(note.remove(name)?).ok()
}

impl NotedPrincipal {
    fn of(principal: &Principal) -> Self {
        match principal {
            Principal::Token { iss, sub } => Self::Token { iss: shortened(iss), sub: shortened(sub) },
            Principal::Spiffe(id) => Self::Spiffe(shortened(id)),
            Principal::Dns(name) => Self::Dns(shortened(name)),
        }
    }
}

/// The name, or its beginning and a digest that tells it from others. A name that is no text on one line, which
/// JSON would blow up, is its digest alone.
fn shortened(name: &str) -> String {
    let is_shown = !name.chars().any(is_unprintable);
    if name.len() <= IDENTITY_BYTES && is_shown {
        return name.to_owned();
    }
    let digest = digest::digest(&digest::SHA256, name.as_bytes());
    let digest: String = digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let most = if is_shown { IDENTITY_BYTES / 2 } else { 0 };
    format!("{}...{digest}", &name[..name.floor_char_boundary(most)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::author::{Reason, RequestId, Writer};
    use crate::catalogue::limits::REASON_BYTES;
    use crate::engine::ItemKey;

    fn author() -> Author {
        let principal = Some(Principal::token("https://issuer.example", "jira"));
        let (request, reason) = (RequestId::of("r-1").unwrap(), Reason::of("because"));
        Author { by: Writer::Consumer("jira".into()), principal, request, reason }
    }

    fn read(note: &str) -> ChangeNote {
        ChangeNote::read(&Item::new(ItemKey::new("p", "s"), 7).with_note(note))
    }

    /// It lies in histories for as long as they are kept.
    #[test]
    fn stored_notes_never_change() {
        let note = ChangeNote::of(&author(), 8, Wall::from_millis(7));
        let stored = r#"{"by":"consumer/jira","who":{"token":{"iss":"https://issuer.example","sub":"jira"}},"request":"r-1","reason":"because","at":7}"#;
        assert_eq!(note.to_text(), stored);
        assert_eq!(read(stored), note);
        assert!(!format!("{note:?}").contains("because"));
        let [spiffe, dns] = [Principal::Spiffe("spiffe://a/b".into()), Principal::Dns("a.b".into())]
            .map(|principal| serde_json::to_string(&NotedPrincipal::of(&principal)).unwrap());
        assert_eq!((&*spiffe, &*dns), (r#"{"spiffe":"spiffe://a/b"}"#, r#"{"dns":"a.b"}"#));
    }

    #[test]
    fn newer_and_unreadable_notes_are_read() {
        let newer = read(r#"{"by":"admin","colour":"red"}"#);
        assert_eq!(newer.by.as_deref(), Some("admin"));
        let later = read(r#"{"by":"consumer/jira","who":{"x509":{"serial":7}},"reason":"r","at":"soon"}"#);
        assert_eq!((later.by.as_deref(), later.who.is_none(), later.at), (Some("consumer/jira"), true, None));
        assert_eq!(later.reason.as_deref(), Some("r"));
        assert_eq!(read("{"), ChangeNote::default());
        assert_eq!(ChangeNote::read(&Item::new(ItemKey::new("p", "s"), 7)).at(7), Wall::from_millis(7));
    }

    /// Text that takes the most bytes as JSON, but for what is not shown.
    fn quotes(bytes: usize) -> String {
        "\"".repeat(bytes)
    }

    #[test]
    fn longest_note_fits() {
        let author = Author {
            by: Writer::Consumer("c".repeat(64).into()),
            principal: Some(Principal::token(&quotes(IDENTITY_BYTES), &quotes(IDENTITY_BYTES))),
            request: RequestId::of(&quotes(128)).unwrap(),
            reason: Reason::of(&quotes(REASON_BYTES)),
        };
        let text = ChangeNote::of(&author, u64::MAX, Wall::from_millis(u64::MAX - 1)).to_text();
        assert!(text.len() <= CHANGE_NOTE_BYTES, "{}", text.len());
    }

    #[test]
    fn long_and_unprintable_names_differ() {
        let [a, b] = ["a", "b"].map(|last| shortened(&("n".repeat(8_000) + last)));
        assert!(a != b && a.starts_with("nnn") && a.len() < IDENTITY_BYTES);
        assert_ne!(shortened("a\u{1}"), shortened("b\u{1}"));
        assert!(shortened("a\u{202e}").starts_with("..."));
    }
}
