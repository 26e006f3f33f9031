//! What makes a core a sidecar: the announcements of the regions' topics.

pub mod announcements;
pub mod limits;
