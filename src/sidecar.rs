//! Addition of a sidecar to the request path: the announcements of the regions' topics.

pub mod announcements;
pub mod limits;
