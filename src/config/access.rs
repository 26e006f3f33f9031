//! `[access]` of a sidecar: for how long it goes on serving what a grant allowed (R22), and whose tokens
//! it verifies.

use std::time::Duration;

use super::issuers::{IssuerConfig, TrustedIssuers};
use super::table::{list, settings};
use super::value::words;

words! {
    /// Behaviour where the newest grants are not known.
    pub enum WhenUnknown {
        Serve,
        Refuse,
    }
}

settings! {
    /// `[access]`
    #[derive(Clone, Debug)]
    pub struct PermitsConfig in Access {
        /// Time after which a caller's permit for a view is confirmed with the regions again.
        recheck: Duration = ACCESS_RECHECK(seconds(1, DAY), Is("5m"));
        /// Time for which a permit that no region can confirm goes on, labelled.
        max_age: Duration = ACCESS_MAX_AGE(seconds(1, 7 * DAY), Is("1h"));
        /// Without a region that knows the newest grants: `serve` goes on for `max_age`, `refuse` answers 503.
        when_unknown: WhenUnknown = ACCESS_WHEN_UNKNOWN(words::<WhenUnknown>(), Is("serve"));
        /// With `[[access.issuer]]`: audience (`aud`) of callers' tokens, as the service expects it.
        audience: String = ACCESS_AUDIENCE(Text, Is("")) Restart;
        /// Audiences of other services of the same owner: a token that names one too is not verified.
        other_audiences: Vec<String> = ACCESS_OTHER_AUDIENCES(Audiences, Is("")) Restart;
        /// Longest time from now to the `exp` of a token; one with a longer is not verified.
        max_lifetime: Duration = ACCESS_MAX_LIFETIME(seconds(MINUTE, 7 * DAY), Is("24h")) Restart;
        /// Age from which keys that were fetched from an issuer are no longer used.
        max_key_age: Duration = ACCESS_MAX_KEY_AGE(seconds(10 * MINUTE, 7 * DAY), Is("24h")) Restart;
        /// Those who sign callers' tokens.
        issuers: Vec<IssuerConfig> = list[] Restart;
    }
}

impl PermitsConfig {
    /// Issuers whose tokens are verified, if any are.
    #[must_use]
    pub fn trusted(&self) -> Option<TrustedIssuers> {
        (!self.issuers.is_empty()).then(|| TrustedIssuers {
            issuers: self.issuers.clone(),
            audience: self.audience.clone(),
            own_audiences: self.other_audiences.clone(),
            max_lifetime: self.max_lifetime,
            max_key_age: self.max_key_age,
        })
    }
}
