//! `[access]` of a sidecar: for how long it goes on serving what a grant allowed (R22).

use std::time::Duration;

use super::table::settings;
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
    }
}
