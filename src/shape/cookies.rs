//! A region's `Set-Cookie`, for the one caller whose request it answered.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};

/// The values of `Set-Cookie`. They are kept beside the entry, which others share and which holds
/// none.
#[derive(Clone, Default)]
pub struct Cookies(Option<Arc<[HeaderValue]>>);

impl Cookies {
    pub const NONE: Self = Self(None);

    pub fn of(reply: &HeaderMap) -> Self {
        Self(
            reply
                .contains_key(header::SET_COOKIE)
                .then(|| reply.get_all(header::SET_COOKIE).iter().cloned().collect()),
        )
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn values(&self) -> impl Iterator<Item = &HeaderValue> {
        self.0.iter().flat_map(|values| values.iter())
    }
}
