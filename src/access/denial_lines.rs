//! Bounds the log lines about refused requests: one a minute for each principal and name.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::limits::{LINE_EVERY, REMEMBERED_LINES};
use super::principal::Principal;
use crate::model::time::Moment;

/// Lines that were logged a moment ago.
#[derive(Debug, Default)]
pub(super) struct DenialLines {
    /// Time at which the next may follow.
    next: Mutex<HashMap<(Option<Principal>, String), Moment>>,
}

impl DenialLines {
    /// True if a line about this principal and name may be logged now.
    pub(super) fn admit(&self, principal: Option<&Principal>, name: &str, now: Moment) -> bool {
        let mut next = self.next.lock();
        let key = (principal.cloned(), name.to_owned());
        if next.get(&key).is_some_and(|next| now < *next) {
            return false;
        }
        if next.len() >= REMEMBERED_LINES && !next.contains_key(&key) {
            next.retain(|_, next| now < *next);
            if next.len() >= REMEMBERED_LINES {
                return false;
            }
        }
        next.insert(key, now + LINE_EVERY);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_principal_and_name_has_a_line() {
        let (lines, start) = (DenialLines::default(), Moment::ZERO + Duration::from_secs(1_000));
        let [jira, wiki] = ["jira", "wiki"].map(|sub| Principal::token("https://issuer.example", sub));
        assert!(lines.admit(Some(&jira), "limits", start) && !lines.admit(Some(&jira), "limits", start));
        assert!(lines.admit(Some(&jira), "profile", start) && lines.admit(Some(&wiki), "limits", start));
        assert!(lines.admit(None, "-", start) && !lines.admit(None, "-", start + Duration::from_secs(59)));
        assert!(lines.admit(Some(&jira), "limits", start + LINE_EVERY));
    }

    fn of(number: usize) -> Principal {
        Principal::token("https://issuer.example", &number.to_string())
    }

    #[test]
    fn many_principals_take_bounded_memory() {
        let (lines, start) = (DenialLines::default(), Moment::ZERO + Duration::from_secs(1_000));
        let admitted = (0..2 * REMEMBERED_LINES).filter(|number| lines.admit(Some(&of(*number)), "limits", start));
        assert_eq!(admitted.count(), REMEMBERED_LINES);
        assert!(lines.admit(Some(&of(2 * REMEMBERED_LINES)), "limits", start + LINE_EVERY));
        assert_eq!(lines.next.lock().len(), 1);
    }
}
