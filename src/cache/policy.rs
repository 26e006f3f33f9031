//! Temporary.
use super::entry::Entry;
use crate::clock::*;
use crate::origin::reply::*;
use http::HeaderMap;
use std::time::Duration;
#[derive(Debug)]
pub struct Stored {}
pub struct Wish {
    pub no_cache: bool,
    pub only_if_cached: bool,
}
impl Wish {
    pub fn of(_h: &HeaderMap) -> Self {
        Self { no_cache: false, only_if_cached: false }
    }
}
pub enum Decision {
    NotStored,
    Fresh { age: u64, left: i64, stale: bool },
    Revalidate { on_request: bool },
}
pub fn decide(_h: &HeaderMap, _e: Option<&Entry>, _n: Moment, _w: Wall) -> Decision {
    Decision::Revalidate { on_request: false }
}
pub fn end_to_end(h: &mut HeaderMap) {
    for n in ["connection", "keep-alive", "te", "transfer-encoding", "upgrade", "proxy-connection"] {
        h.remove(n);
    }
}
pub fn forbids_storing(_h: &HeaderMap) -> bool {
    false
}
pub fn kept_headers(h: &HeaderMap) -> HeaderMap {
    h.clone()
}
pub fn updated_headers(a: &HeaderMap, _b: &HeaderMap) -> HeaderMap {
    a.clone()
}
pub fn refreshed(_p: &Entry, _r: &Reply, _n: Moment, _w: Wall) -> Entry {
    Entry::passing(_r)
}
pub fn storable(_o: &Outgoing, _r: &Reply, _n: Moment, _w: Wall) -> Option<Entry> {
    None
}
pub fn not_modified(_h: &HeaderMap, _e: &Entry) -> bool {
    false
}
pub fn invalidated(t: &str, _h: &HeaderMap, _r: &HeaderMap) -> Vec<String> {
    vec![t.to_owned()]
}
pub fn stale_if_error(_h: &HeaderMap, _e: &Entry, _n: Moment, _c: Duration) -> Option<i64> {
    None
}
