//! A token as its issuer gave it.

use std::time::Duration;

use super::claims::Claims;
use super::limits::{TOKEN_BYTES, UNSTATED_LIFE};
use super::sigv4::SigningKeys;

/// A new token, or new keys. It has no `Debug`.
pub(super) struct Token {
    pub(super) secret: Secret,
    pub(super) claims: Claims,
    /// Time from when it was asked for to its end.
    pub(super) life: Duration,
}

/// Secret that a request carries, or is signed with.
pub(super) enum Secret {
    Bearer(String),
    Keys(SigningKeys),
}

impl Token {
    /// `None` if no header can carry it. Its life is the shortest that is stated.
    pub(super) fn new(text: String, stated: Option<Duration>) -> Option<Self> {
        let fits = !text.is_empty() && text.len() <= TOKEN_BYTES && text.bytes().all(is_of_token);
        let claims = Claims::of(&text);
        let life = claims.life().into_iter().chain(stated).min().unwrap_or(UNSTATED_LIFE);
        fits.then_some(Self { secret: Secret::Bearer(text), claims, life })
    }
}

/// RFC 6750, 2.1: `b64token`.
const fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::issuer::Issuer;

    #[test]
    fn life_is_shortest_that_is_stated() {
        let jwt = Issuer::new("i", "k").token("s", "a", 1_800_000_000);
        let life = |token: &str, stated: Option<u64>| {
            Token::new(token.to_owned(), stated.map(Duration::from_secs)).unwrap().life.as_secs()
        };
        assert_eq!([life(&jwt, None), life(&jwt, Some(60)), life(&jwt, Some(6_000))], [600, 60, 600]);
        assert_eq!([life("opaque", Some(60)), life("opaque", None)], [60, 300]);
    }

    #[test]
    fn tokens_fit_a_header() {
        for text in ["", "a b", "a\nb", "ü", &"a".repeat(TOKEN_BYTES + 1)] {
            assert!(Token::new(text.to_owned(), None).is_none());
        }
    }
}
