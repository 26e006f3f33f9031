//! A representation as one caller gets it.

use std::sync::Arc;

use http::Method;

use super::cache_status::CacheLine;
use super::cookies::Cookies;
use crate::cache::content::Content;
use crate::cache::entry::Entry;
use crate::cache::rfc9111;
use crate::http::admission::Head;

pub struct Shown {
    pub entry: Arc<Entry>,
    /// Content for this caller in place of the entry's own lines and body: another form, some
    /// fields.
    pub instead: Option<Arc<Content>>,
    /// Seconds since it was produced, by RFC 9111, 4.2.3; not stated for what was just fetched.
    pub age: Option<u64>,
    /// The caller's validators match: 304.
    pub not_modified: bool,
    /// HEAD: headers only.
    pub head: bool,
    /// Cookies that a region set for this caller alone.
    pub cookies: Cookies,
    pub line: CacheLine,
}

impl Shown {
    /// `entry` as the answer to `head`: its validators and HEAD are taken into account.
    pub(crate) fn of(head: Head<'_>, entry: &Arc<Entry>, age: Option<u64>, line: CacheLine) -> Self {
        let not_modified = rfc9111::not_modified(head.headers, entry);
        let head = *head.method == Method::HEAD;
        Self { entry: entry.clone(), instead: None, age, not_modified, head, cookies: Cookies::NONE, line }
    }

    pub fn content(&self) -> &Content {
        self.instead.as_deref().unwrap_or(&self.entry.content)
    }
}
