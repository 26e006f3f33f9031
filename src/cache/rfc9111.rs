//! Rules for shared caches: RFC 9111, and stale-if-error from RFC 5861, as pure functions.
//!
//! There is no clock, no I/O and no heuristic freshness. Whatever cannot be understood makes an
//! entry older or leaves it unstored, never fresher. [`decide`] allocates nothing. Routed paths use
//! only what applies to every reply: header fields ([`fields`]) and callers' conditional requests
//! ([`validators`]). `docs/decisions/0001-rfc-9111-policy.md` says why no library does this.
//!
//! | file | section |
//! | --- | --- |
//! | [`directives`] | 5.2 `Cache-Control`, 5.4 `Pragma` |
//! | [`fields`] | 3.1 and 3.2, which header fields are kept, updated, passed on |
//! | [`freshness`] | 4.2 lifetime and age |
//! | [`validators`] | 4.3.1 and 4.3.2, sending and answering conditional requests |
//! | [`storing`] | 3 and 3.5, what may be stored; 4.1 `Vary` |
//! | [`reuse`] | 4 and 4.2.4, what may be served, fresh or stale |
//! | [`renewal`] | 4.3.4 and 4.3.5, freshening by a 304 and by HEAD |
//! | [`invalidation`] | 4.4 |

pub mod directives;
pub mod fields;
pub mod freshness;
mod handling;
mod invalidation;
mod renewal;
mod reuse;
pub(crate) mod stored_facts;
pub mod storing;
pub(crate) mod validators;

pub use crate::http::fields::end_to_end;
pub use directives::RequestDirectives;
pub use handling::{Handling, ORIGIN_ONLY, handling_of, is_only_ranged, is_safe};
pub use invalidation::invalidates;
pub use renewal::{HeadEffect, Renewal, after_head, refreshed};
pub use reuse::{Decision, OriginTrouble, decide, may_serve_on_error};
pub use stored_facts::StoredFacts;
pub use storing::storable;
pub use validators::{not_modified, not_modified_instead};

#[cfg(test)]
mod tests;
