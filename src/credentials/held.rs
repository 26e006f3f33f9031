//! The credentials of one route, as it holds them.

use std::sync::Arc;

use http::HeaderName;

use super::error::CredentialsError;
use super::file::FileCredentials;
use super::minter::Minter;
use super::minters::Minters;
use crate::config::{CredentialSource, Credentials};

/// The credentials of one `sidecar` route, or of its candidate.
#[derive(Clone)]
pub enum HeldCredentials {
    File(FileCredentials),
    Minted(MintedCredentials),
}

/// A token that is minted, and the header that carries it.
#[derive(Clone)]
pub struct MintedCredentials {
    pub header: HeaderName,
    pub minter: Arc<Minter>,
}

impl HeldCredentials {
    /// Reads the files once. `run` reports an error, and the sidecar does not start. Nothing is minted
    /// before [`Minters::start`].
    ///
    /// # Errors
    /// If a file cannot be used.
    pub fn read(credentials: &Credentials, minters: &Minters) -> Result<Self, CredentialsError> {
        let header = credentials.header.clone();
        match &credentials.source {
            CredentialSource::File(source) => FileCredentials::read(header, source).map(Self::File),
            CredentialSource::Minted(minting) => {
                let minter = minters.of(minting)?;
                Ok(Self::Minted(MintedCredentials { header, minter }))
            }
        }
    }

    /// The credentials of a file, if these are.
    pub const fn of_file(&self) -> Option<&FileCredentials> {
        match self {
            Self::File(file) => Some(file),
            Self::Minted(_) => None,
        }
    }

    /// The token that is minted, if one is.
    pub const fn minted(&self) -> Option<&MintedCredentials> {
        match self {
            Self::File(_) => None,
            Self::Minted(minted) => Some(minted),
        }
    }
}
