//! `Set-Cookie` of a region, for the one caller whose request it answered.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};

/// The values of `Set-Cookie`, beside the entry: that one is for others too, and holds none.
#[derive(Clone, Default)]
pub struct Cookies(Option<Arc<[HeaderValue]>>);

impl Cookies {
    /// None.
    pub const NONE: Self = Self(None);

    /// Those of a reply.
    pub fn of(reply: &HeaderMap) -> Self {
        Self(
            reply
                .contains_key(header::SET_COOKIE)
                .then(|| reply.get_all(header::SET_COOKIE).iter().cloned().collect()),
        )
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Each value, in order.
    pub fn values(&self) -> impl Iterator<Item = &HeaderValue> {
        self.0.iter().flat_map(|values| values.iter())
    }
}
