//! Our member of `Cache-Status` (RFC 9211), which tells a caller where its answer came from. It
//! contains regions' names, stable words and numbers, nothing else. Writing it allocates no memory
//! of its own.

use bytes::BufMut;
use http::{HeaderName, HeaderValue};

use super::header_text::written;
use crate::model::ids::RegionId;
use crate::protocol::label::Label;

/// RFC 9211.
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// The parameters of our member of `Cache-Status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheLine {
    pub hit: bool,
    pub fwd: Option<Fwd>,
    pub fwd_status: Option<u16>,
    /// Seconds of freshness left; negative once it is over.
    pub ttl: Option<i64>,
    /// Greatest age of the answer; `None` says nothing about it.
    pub bound: Option<Bound>,
    pub stored: bool,
    /// It shared another reader's fill.
    pub collapsed: bool,
    /// Which region, or why an old reply is served.
    pub detail: Option<Detail>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Whole seconds, rounded up.
    Seconds(u64),
    /// No watermark stands behind it.
    None,
}

/// RFC 9211, 2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fwd {
    UriMiss,
    /// Stored, but no longer fresh, or it had to be asked for again.
    Stale,
    Request,
    /// The method is not for caching.
    Method,
    /// This path is not cached.
    Bypass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The region that answered, by its index in the configuration.
    Region(RegionId),
    Label(Label),
}

impl CacheLine {
    /// As the header's value; `names` are the regions' names.
    pub fn value(&self, names: &[String]) -> HeaderValue {
        written(|text| self.put(names, text)).unwrap_or(HeaderValue::from_static("nearside"))
    }

    pub(crate) fn put(&self, names: &[String], text: &mut impl BufMut) {
        text.put_slice(b"nearside");
        if self.hit {
            text.put_slice(b"; hit");
        }
        if let Some(fwd) = self.fwd {
            text.put_slice(fwd.text().as_bytes());
        }
        if let Some(status) = self.fwd_status {
            text.put_slice(b"; fwd-status=");
            text.put_slice(itoa::Buffer::new().format(status).as_bytes());
        }
        if let Some(ttl) = self.ttl {
            text.put_slice(b"; ttl=");
            text.put_slice(itoa::Buffer::new().format(ttl).as_bytes());
        }
        match self.bound {
            Some(Bound::Seconds(seconds)) => {
                text.put_slice(b"; bound=");
                text.put_slice(itoa::Buffer::new().format(seconds).as_bytes());
            }
            Some(Bound::None) => text.put_slice(b"; bound=none"),
            None => {}
        }
        if self.stored {
            text.put_slice(b"; stored");
        }
        if self.collapsed {
            text.put_slice(b"; collapsed");
        }
        match self.detail {
            Some(Detail::Label(label)) => put_detail(text, label.into_str()),
            Some(Detail::Region(region)) => {
                put_detail(text, names.get(region.index()).map_or("unknown", String::as_str))
            }
            None => {}
        }
    }
}

fn put_detail(text: &mut impl BufMut, word: &str) {
    text.put_slice(b"; detail=");
    if is_token(word) {
        text.put_slice(word.as_bytes());
    } else {
        text.put_u8(b'"');
        word.bytes().filter(|byte| !b"\"\\".contains(byte)).for_each(|byte| text.put_u8(byte));
        text.put_u8(b'"');
    }
}

/// True if it is an RFC 8941 token that begins with a letter.
fn is_token(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte))
}

impl Fwd {
    const fn text(self) -> &'static str {
        match self {
            Self::UriMiss => "; fwd=uri-miss",
            Self::Stale => "; fwd=stale",
            Self::Request => "; fwd=request",
            Self::Method => "; fwd=method",
            Self::Bypass => "; fwd=bypass",
        }
    }
}
