//! A caller whose credential was verified.

use super::claims::TokenClaims;
use super::principal::Principal;
use crate::http::server_tls::peer::PeerCertificate;
use crate::model::time::Wall;

/// A verified caller, as a connection or the process remembers it: who it is, and no decision.
#[derive(Clone, Debug)]
pub struct Known {
    pub(super) principal: Principal,
    /// Claims of its token, where these tell callers apart.
    pub(super) claims: Option<TokenClaims>,
    pub(super) proof: Proof,
}

/// Evidence of who a caller is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Proof {
    Token {
        /// Time after which its signature is verified again.
        until: Wall,
        /// The issuers' epoch when the verification began.
        epoch: u64,
    },
    /// The certificate of its connection, for as long as a CA vouches for that.
    Certificate,
}

impl Known {
    #[must_use]
    pub const fn principal(&self) -> &Principal {
        &self.principal
    }

    #[must_use]
    pub const fn claims(&self) -> Option<&TokenClaims> {
        self.claims.as_ref()
    }

    /// True while it may be taken for who it was.
    pub(super) fn holds(&self, now: Wall, issuers: u64, certificate: Option<&PeerCertificate>) -> bool {
        match self.proof {
            Proof::Token { until, epoch } => now < until && epoch == issuers,
            Proof::Certificate => certificate.is_some_and(|certificate| certificate.holds(now)),
        }
    }
}
