//! Why a request is not answered: for its caller, who learns nothing about what it asked for.

use super::token::TokenError;
use crate::http::body::CredentialRefused;

/// Whose turn it is to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The caller's: it has to send another credential (401).
    Credential,
    /// The platform team's: it has to grant it (403).
    Grants,
    /// The service's own: a retry helps (503).
    Service,
}

/// Refusal of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    #[error("this needs a token: send it in exactly one Authorization header, after `Bearer `")]
    NoCredential,
    #[error("the token is refused: {0}")]
    BadCredential(TokenError),
    /// Its text says nothing about what there is.
    #[error("this caller has no grant for that; ask the platform team for one")]
    NotGranted,
    /// The issuer's keys, or the one that the token names, are not known here yet.
    #[error("the keys of the token's issuer are not known here; retry shortly")]
    KeysUnknown,
    /// Signatures of too many callers have to be verified first.
    #[error("too many new callers have to be verified first; retry shortly")]
    Busy,
    /// No grants have arrived yet, or they are too old.
    #[error("who may read what is not known here; retry shortly")]
    GrantsUnknown,
}

impl Denial {
    #[must_use]
    pub const fn whose(self) -> Whose {
        match self {
            Self::NoCredential | Self::BadCredential(_) => Whose::Credential,
            Self::NotGranted => Whose::Grants,
            Self::KeysUnknown | Self::Busy | Self::GrantsUnknown => Whose::Service,
        }
    }

    /// Mark of its answer, if its caller did not prove who it is.
    ///
    /// That a token could not be judged says nothing for its caller: anybody can make up the name of a key.
    /// So the connection makes room for others as after a 401, unless somebody proved who it is there
    /// before. But it is not ended: no signature was verified for it, and good callers get the same answer
    /// while their issuer is down or its newest key is on its way. They would only connect anew, each time
    /// with a handshake.
    pub(crate) const fn mark(self) -> Option<CredentialRefused> {
        match self {
            Self::BadCredential(TokenError::Signature) => Some(CredentialRefused::Costly),
            Self::NoCredential | Self::BadCredential(_) => Some(CredentialRefused::Cheap),
            Self::KeysUnknown | Self::Busy => Some(CredentialRefused::Unjudged),
            Self::NotGranted | Self::GrantsUnknown => None,
        }
    }

    /// Last part of the problem's type.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoCredential => "no-credential",
            Self::BadCredential(_) => "bad-credential",
            Self::NotGranted => "not-granted",
            Self::KeysUnknown => "keys-unknown",
            Self::Busy => "verification-busy",
            Self::GrantsUnknown => "grants-unknown",
        }
    }

    /// `WWW-Authenticate` (RFC 6750, section 3), with a 401.
    #[must_use]
    pub const fn challenge(self) -> Option<&'static str> {
        match self {
            // Without a credential, no error is named (RFC 6750, section 3.1).
            Self::NoCredential => Some("Bearer"),
            Self::BadCredential(_) => Some("Bearer error=\"invalid_token\""),
            _ => None,
        }
    }
}

#[cfg(test)]
impl Denial {
    /// One of each kind.
    pub(crate) fn every() -> Vec<Self> {
        crate::http::problem::page::every!(
            Denial: [NoCredential, NotGranted, KeysUnknown, Busy, GrantsUnknown],
            Denial::BadCredential(_) => [Denial::BadCredential(TokenError::Expired)],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unproven_callers_are_marked() {
        let marked = Denial::every().into_iter().filter(|denial| denial.mark().is_some());
        let words: Vec<_> = marked.map(Denial::word).collect();
        assert_eq!(words, ["no-credential", "keys-unknown", "verification-busy", "bad-credential"]);
        assert_eq!(Denial::KeysUnknown.mark(), Some(CredentialRefused::Unjudged));
        assert_eq!(Denial::BadCredential(TokenError::Signature).mark(), Some(CredentialRefused::Costly));
    }
}
