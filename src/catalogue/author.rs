//! Author of a change: the writer and its principal, the request, and the reason that it gave.

use std::fmt;
use std::sync::Arc;

use crate::access::principal::Principal;
use crate::catalogue::limits::REASON_BYTES;
use crate::model::identities::is_unprintable;

/// Maker of a change, as far as the catalogue knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    pub by: Writer,
    /// None where callers are not checked, or only observed.
    pub principal: Option<Principal>,
    /// As the caller named the request, or as it was named here.
    pub request: RequestId,
    pub reason: Option<Reason>,
}

impl Author {
    /// Somebody of whom nothing is known.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { by: Writer::Anonymous, principal: None, request: RequestId::drawn(), reason: None }
    }
}

/// All principals that write under one name: idempotency keys and limits go by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Writer {
    Consumer(Arc<str>),
    /// One of `[[access.admin]]`.
    Admin,
    /// Everybody, where callers are not checked.
    Anonymous,
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Consumer(name) => write!(f, "consumer/{name}"),
            Self::Admin => f.write_str("admin"),
            Self::Anonymous => f.write_str("anonymous"),
        }
    }
}

/// Name of a request, by which its caller finds it again: 1 to 128 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

impl RequestId {
    const MOST_BYTES: usize = 128;

    /// A name that a caller gave; `None` if it is none.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        (is_visible && (1..=Self::MOST_BYTES).contains(&text.len())).then(|| Self(text.into()))
    }

    /// A name for a request that has none.
    #[must_use]
    pub fn drawn() -> Self {
        Self(format!("{:016x}", fastrand::u64(..)).into())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Reason that a writer gave, of 1 to [`REASON_BYTES`]. It may name people, and stays out of logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Reason(Arc<str>);

impl Reason {
    /// `None` if it is empty, too long, or has characters that nobody sees.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let fits = (1..=REASON_BYTES).contains(&text.len()) && !text.chars().any(is_unseen);
        fits.then(|| Self(text.into()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// True for a character that hides, ends a line, or turns the text around it. The joiners of some scripts
/// (U+200C, U+200D) are not among them.
fn is_unseen(char: char) -> bool {
    let is_hidden =
        matches!(char, '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    is_unprintable(char) || is_hidden || matches!(char, '\u{2028}' | '\u{2029}')
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reason({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_are_visible_and_short() {
        assert_eq!(RequestId::of("a-1").unwrap().as_str(), "a-1");
        for text in ["", "a b", "a\n", "\u{e9}", &"x".repeat(129)] {
            assert_eq!(RequestId::of(text), None, "{text:?}");
        }
        assert!(RequestId::of(RequestId::drawn().as_str()).is_some());
    }

    #[test]
    fn reasons_show_on_one_line() {
        assert_eq!(Reason::of("größer, wie besprochen").unwrap().as_str(), "größer, wie besprochen");
        for text in ["", "a\nb", "a\u{202e}b", "a\u{2028}b", "a\u{200b}", &"x".repeat(REASON_BYTES + 1)] {
            assert_eq!(Reason::of(text), None, "{text:?}");
        }
        assert_eq!(format!("{:?}", Reason::of("secret").unwrap()), "Reason(6 bytes)");
    }
}
