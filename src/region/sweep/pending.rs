//! Copy that the sweep put and has still to announce. The sweep mends one copy at a time and pays
//! before the next, so one item is enough.

use crate::engine::{Item, ItemKey};
use crate::protocol::announcement::message::AnnouncementKind;
use crate::region::publisher::Said;

#[derive(serde::Serialize, serde::Deserialize)]
struct PendingNote {
    view: String,
    key: String,
    version: u64,
    is_deleted: bool,
    /// The content at this version until now is unknown: readers have to ask again.
    #[serde(default)]
    is_reload: bool,
}

pub(super) fn key() -> ItemKey {
    ItemKey::new("pending#sweep", "announcement")
}

pub(super) fn item(said: &Said) -> Item {
    let (version, is_deleted) = match said.kind {
        AnnouncementKind::Changed { version } => (version, false),
        AnnouncementKind::Deleted { version } => (version, true),
        _ => (None, false),
    };
    let version = version.unwrap_or_default();
    let is_reload = said.kind == AnnouncementKind::Reload;
    let note = PendingNote { view: said.record_type.clone(), key: said.key.clone(), version, is_deleted, is_reload };
    Item::new(key(), version).with_note(serde_json::to_string(&note).expect("a struct of plain fields is JSON"))
}

/// `None` if it cannot be read.
pub(super) fn said(item: &Item) -> Option<Said> {
    let PendingNote { view, key, version, is_deleted, is_reload } =
        serde_json::from_str(item.note.as_deref()?).ok()?;
    let version = Some(version);
    let kind = match (is_reload, is_deleted) {
        (true, _) => AnnouncementKind::Reload,
        (_, true) => AnnouncementKind::Deleted { version },
        _ => AnnouncementKind::Changed { version },
    };
    Some(Said { record_type: view, key, kind })
}
