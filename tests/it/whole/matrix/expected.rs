//! The rule that each answer is compared with: a function of what is proven and what is asked for.

use nearside::access::denial::Denial;

use super::credentials::Proof;
use super::judge::Case;
use super::requests::{Need, Request, Then};

/// Consumers and admins, and everybody who may do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Reads `limits`, and `prices`, which no region takes.
    Jira,
    /// Writes `tenant` and `shard`.
    Writer,
    /// Reads `profile`, which no region takes, and writes `shard`.
    Other,
    Admin,
    Nobody,
}

/// The word for an answer of the gate, or of what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Denied(Denial),
    Answered(Then),
    /// A batch whose parts are all denied.
    Parts(Denial),
    /// Nothing that is stored; perhaps a refusal that is remembered.
    Uncached(Option<Denial>),
}

/// The answer to a request of who has proven this.
pub(super) fn expected(proof: Proof, request: &Request) -> Answer {
    if request.need == Need::Nothing {
        return Answer::Answered(request.then);
    }
    match proof {
        Proof::Nothing => Answer::Denied(Denial::NoCredential),
        Proof::Refused(why) => Answer::Denied(Denial::BadCredential(why)),
        Proof::UnknownKey => Answer::Denied(Denial::KeysUnknown),
        Proof::Is(who) if may(who, request.need) => Answer::Answered(request.then),
        Proof::Is(_) => Answer::Denied(Denial::NotGranted),
    }
}

/// The answer behind a sidecar, which says some things itself, and asks for each part of a batch.
pub(super) fn behind_sidecar(case: &Case<'_>, answer: Answer) -> Answer {
    let Case { request, credential, .. } = case;
    let is_cached_alone = request.lines.contains(&("cache-control", "only-if-cached"));
    match answer {
        _ if request.is_malformed_batch() => Answer::Answered(request.then),
        Answer::Denied(denial) if is_cached_alone => Answer::Uncached(Some(denial)),
        // What headers may have changed is shared with nobody.
        Answer::Answered(_) if is_cached_alone && credential.has_other_lines() => Answer::Uncached(None),
        Answer::Denied(denial) if request.is_routed_batch() => Answer::Parts(denial),
        answer => answer,
    }
}

/// True if the grants of the matrix allow it.
pub(super) fn may(who: Who, need: Need) -> bool {
    match need {
        Need::Nothing | Need::Credential => true,
        Need::View("limits" | "prices") => who == Who::Jira,
        Need::View("profile") => who == Who::Other,
        Need::Type("tenant") => who == Who::Writer,
        Need::Type("shard") | Need::AnyType => matches!(who, Who::Writer | Who::Other),
        Need::Admin => who == Who::Admin,
        Need::View(_) | Need::Type(_) => false,
    }
}
