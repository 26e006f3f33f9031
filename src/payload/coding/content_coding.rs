//! The content codings that a reply may have.

use http::HeaderMap;

use super::error::CodingError;
use super::layers::{Layer, layers};

/// The content coding of a whole body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    Identity,
    Gzip,
    Zstd,
    /// zstd with a dictionary (RFC 9842).
    Dcz,
}

impl Coding {
    /// Reads `Content-Encoding`. Codings that nobody is asked for, and several one behind the
    /// other, are errors.
    pub fn of(headers: &HeaderMap) -> Result<Self, CodingError> {
        match layers(headers)?[..] {
            [] => Ok(Self::Identity),
            [Layer::Gzip] => Ok(Self::Gzip),
            [Layer::Zstd] => Ok(Self::Zstd),
            [Layer::Dcz] => Ok(Self::Dcz),
            [_] => Err(CodingError::Unknown),
            _ => Err(CodingError::Several),
        }
    }

    pub(super) fn layer(self) -> Option<Layer> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some(Layer::Gzip),
            Self::Zstd => Some(Layer::Zstd),
            Self::Dcz => Some(Layer::Dcz),
        }
    }
}
