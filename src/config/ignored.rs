//! Names of headers, or beginnings of names, that an operator says change nothing.

use std::fmt;

use http::HeaderName;

/// A header, or all headers whose names begin in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderPattern {
    Name(HeaderName),
    /// The beginning in lower case, with its last `-` and without the `*`.
    Prefix(String),
}

impl HeaderPattern {
    pub fn fits(&self, name: &HeaderName) -> bool {
        match self {
            Self::Name(known) => known == name,
            Self::Prefix(prefix) => name.as_str().starts_with(prefix.as_str()),
        }
    }
}

impl fmt::Display for HeaderPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name.as_str()),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}
