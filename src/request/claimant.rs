//! Callers who are known by verified tokens: by claims (`identity = "verified"`), or by issuer and
//! subject where they share under permits (`granted`).

use std::sync::Arc;

use http::HeaderMap;

use super::settings::Settings;
use crate::access::claims::ClaimsError;
use crate::access::credentials::Credentials;
use crate::access::denial::Denial;
use crate::access::known::Known;
use crate::access::verifier::{NewToken, Recalled, Verifier};
use crate::config::IdentityMode;
use crate::model::ids::{RouteId, RouteIndex};
use crate::routing::keyed_hashes::Identity;
use crate::routing::router::Matched;

/// A caller as its token was verified, remembered from one request to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claimant {
    known: Option<Arc<Known>>,
    on: Option<(RouteId, Identity)>,
    /// Reason for which the token of this request proves nothing, once it was looked at.
    unproven: Option<Denial>,
}

/// Reason for which the caller is not known. It quotes nothing of the token's values.
#[derive(Clone, Debug, thiserror::Error)]
enum Unverified {
    #[error(transparent)]
    Denied(#[from] Denial),
    #[error(transparent)]
    Claims(#[from] ClaimsError),
}

/// Result of looking for a caller's token.
pub(super) enum Claimed {
    /// The caller is known, or the route goes by more than tokens.
    Known,
    /// Its signature has yet to be verified.
    Unproven(NewToken),
    /// It has none that can be verified, and nothing else tells callers apart.
    Nothing,
}

impl Claimant {
    /// The caller as this route tells callers apart; `None` if it was not verified.
    pub(super) fn on(&self, route: RouteId) -> Option<Identity> {
        self.on.filter(|(on, _)| *on == route).map(|(_, identity)| identity)
    }

    /// Finds the caller by its token, where that tells callers apart, as this route does.
    pub(super) fn claimed(&mut self, settings: &Settings, headers: &HeaderMap, matched: &Matched<'_>) -> Claimed {
        if !matched.route.identity.needs_permits() {
            return Claimed::Known;
        }
        let by_claims = matched.route.identity.claims().is_some();
        let found = match &settings.shared.verifier {
            Some(verifier) => self.find(settings, verifier, headers, matched),
            // A reload brought the route, and issuers come with a restart.
            None if by_claims => Err(Denial::KeysUnknown.into()),
            None => Ok(None),
        };
        match found {
            Ok(Some(token)) => Claimed::Unproven(token),
            Err(why) if by_claims => {
                let (shared, why) = (&settings.fill.shared, why.to_string());
                let now = shared.clock.now();
                shared.observed.route(&matched.route.path.text, |notes| notes.passed.note_unproven(&why, now));
                Claimed::Nothing
            }
            Ok(None) | Err(_) => Claimed::Known,
        }
    }

    /// Notes the end of a verification.
    pub(super) fn proven(&mut self, proven: Result<Arc<Known>, Denial>) {
        match proven {
            Ok(known) => self.known = Some(known),
            Err(denial) => self.unproven = Some(denial),
        }
    }

    /// Finds the caller by its token, or what has yet to be verified. `exp` and what the issuers withdrew are
    /// compared each time.
    fn find(
        &mut self,
        settings: &Settings,
        verifier: &Verifier,
        headers: &HeaderMap,
        matched: &Matched<'_>,
    ) -> Result<Option<NewToken>, Unverified> {
        let was = self.known.as_ref().map(Arc::as_ptr);
        let recalled = match self.unproven {
            Some(denial) => Err(denial),
            None => verifier.recall(&mut self.known, Credentials::of(headers, None)),
        };
        let known = match recalled {
            Ok(Recalled::Known(known)) => known,
            Ok(Recalled::Token(token)) => return Ok(Some(token)),
            Err(denial) => {
                self.on = None;
                return Err(denial.into());
            }
        };
        if was != Some(Arc::as_ptr(&known)) || self.on(matched.id).is_none() {
            self.on = None;
            self.on = Some((matched.id, identity_of(settings, &known, &matched.route.identity)?));
        }
        Ok(None)
    }
}

/// The caller as routes with this identity tell callers apart.
fn identity_of(settings: &Settings, known: &Known, identity: &IdentityMode) -> Result<Identity, ClaimsError> {
    let hashes = &settings.fill.shared.keyed_hashes;
    match identity.claims() {
        Some(claims) => hashes.claimed(claims, known.claims().ok_or(ClaimsError::Many)?),
        None => Ok(hashes.principal(known.principal())),
    }
}

/// Verifies a caller's token before many requests with it are looked up, if the route at `index` asks for
/// that.
pub(super) async fn prove_first(settings: &Settings, headers: &HeaderMap, index: RouteIndex) {
    let route = &settings.fill.config.service.routes[index.0];
    let Some(verifier) = settings.shared.verifier.as_deref().filter(|_| route.identity.needs_permits()) else {
        return;
    };
    if let Ok(Recalled::Token(token)) = verifier.recall(&mut None, Credentials::of(headers, None)) {
        // Those who look it up find out by themselves.
        let _ = verifier.prove(token).await;
    }
}

/// Returns whether the route at `index` goes by a token that is not verified.
pub(super) fn is_unproven(settings: &Settings, headers: &HeaderMap, index: RouteIndex) -> bool {
    let by_claims = settings.fill.config.service.routes[index.0].identity.claims().is_some();
    by_claims
        && settings.shared.verifier.as_ref().is_none_or(|verifier| {
            !matches!(verifier.recall(&mut None, Credentials::of(headers, None)), Ok(Recalled::Known(_)))
        })
}

#[cfg(test)]
mod tests;
