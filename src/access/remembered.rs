//! Tokens that were verified a moment ago, by a keyed hash of theirs.

use std::sync::Arc;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use moka::sync::Cache;

use super::known::Known;
use super::limits::{REMEMBERED_FOR, REMEMBERED_TOKENS};

/// Keyed hash of a token.
pub type TokenHash = [u8; 32];

/// Verified tokens. It only makes room by itself: what it returns still has to be compared with the
/// time and the issuers' epoch.
pub struct Remembered {
    key: hmac::Key,
    known: Cache<TokenHash, Arc<Known>>,
}

impl Remembered {
    /// Memory of as many tokens as a node needs.
    #[must_use]
    pub fn new() -> Self {
        Self::of(REMEMBERED_TOKENS)
    }

    /// Memory of this many tokens.
    #[must_use]
    pub fn of(tokens: u64) -> Self {
        let mut secret = [0; 32];
        // Without randomness no TLS and no token works either; a known key only lets who knows it
        // look for collisions of SHA-256.
        let _ = SystemRandom::new().fill(&mut secret);
        let known = Cache::builder().max_capacity(tokens).time_to_live(REMEMBERED_FOR).build();
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &secret), known }
    }

    /// Place of a token.
    #[must_use]
    pub fn place(&self, token: &[u8]) -> TokenHash {
        let mut place = [0; 32];
        place.copy_from_slice(hmac::sign(&self.key, token).as_ref());
        place
    }

    pub fn get(&self, place: &TokenHash) -> Option<Arc<Known>> {
        self.known.get(place)
    }

    pub fn note(&self, place: TokenHash, known: Arc<Known>) {
        self.known.insert(place, known);
    }
}

impl Default for Remembered {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Remembered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Remembered({} tokens)", self.known.entry_count())
    }
}
