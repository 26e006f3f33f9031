//! Tokens that were verified a moment ago, by a keyed hash of theirs.

use std::hash::Hasher;
use std::sync::Arc;

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use moka::sync::Cache;
use siphasher::sip128::{Hasher128, SipHasher24};

use super::known::Known;
use super::limits::{REMEMBERED_FOR, REMEMBERED_TOKENS};

/// SipHash-2-4 of a token to 128 bits, by a key that the process draws: who does not know that can aim at no
/// other token's. It takes half as long as an HMAC, on each request of a new connection.
pub type TokenHash = u128;

/// Verified tokens. It only makes room by itself: what it returns still has to be compared with the
/// time and the issuers' epoch.
pub struct Remembered {
    key: [u8; 16],
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
        let mut key = [0; 16];
        // Without it nothing is safe to remember, nor is any TLS.
        SystemRandom::new().fill(&mut key).expect("the system has randomness");
        let known = Cache::builder().max_capacity(tokens).time_to_live(REMEMBERED_FOR).build();
        Self { key, known }
    }

    /// Place of a token.
    #[must_use]
    pub fn place(&self, token: &[u8]) -> TokenHash {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(token);
        hasher.finish128().as_u128()
    }

    pub fn get(&self, place: TokenHash) -> Option<Arc<Known>> {
        self.known.get(&place)
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
