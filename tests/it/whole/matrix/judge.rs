//! Compares answers with the rule, with each other, and with what they must not give away.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use nearside::access::denial::Denial;
use nearside::catalogue::api::OPENAPI;
use serde_json::Value;

use super::super::access::Reply;
use super::credentials::{Credential, Proof};
use super::expected::{Answer, Who, behind_sidecar, expected, may};
use super::requests::{Need, Port, Request, Then, VIEW};

/// Way to the services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Way {
    Http1,
    Http2,
    /// Through a sidecar that asks by its own token.
    OwnSidecar,
    /// Through one that passes on what its callers have.
    ExactSidecar,
    /// Through one whose callers share what is stored.
    SharingSidecar,
    /// Through one whose callers share by the claims of their tokens.
    VerifyingSidecar,
}

impl Way {
    const fn is_sidecar(self) -> bool {
        matches!(self, Self::OwnSidecar | Self::ExactSidecar | Self::SharingSidecar | Self::VerifyingSidecar)
    }
}

/// One cell of the matrix.
pub(super) struct Case<'c> {
    pub(super) request: &'c Request,
    pub(super) credential: &'c Credential,
    /// Number of the credential.
    pub(super) number: usize,
    pub(super) way: Way,
    /// Proof of who the services are asked by.
    pub(super) proof: Proof,
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { port, method, path, lines, body, .. } = self.request;
        write!(f, "{port:?}: {method} {path} {lines:?} {body} by `{}`, {:?}", self.credential.name, self.way)
    }
}

/// Header lines that a refusal may have.
const REFUSAL_LINES: [&str; 9] = [
    "content-type",
    "content-length",
    "cache-control",
    "cache-status",
    "www-authenticate",
    "retry-after",
    "vary",
    "x-content-type-options",
    "x-grants-version",
];
/// Words that only they may see who have one of these rights.
const GUARDED: [(&str, &[Need]); 7] = [
    ("987654", &[Need::View("limits"), Need::Type("tenant")]),
    ("limits", &[Need::View("limits")]),
    ("prices", &[Need::View("prices")]),
    ("profile", &[Need::View("profile")]),
    ("tenant", &[Need::Type("tenant")]),
    ("shard", &[Need::Type("shard")]),
    ("halted", &[Need::Admin]),
];
/// Names that no answer but an admin's or an operator's page has.
const HIDDEN: [&str; 5] = ["jira", "writer.example", "issuer.example", "spiffe://", "barred"];

pub(super) struct Judge {
    /// Version of the grants.
    version: String,
    /// The first refusal of each kind; all others are compared with it.
    refusals: HashMap<(Port, Way, bool, String), Reply>,
    cells: usize,
    /// Wrong answers: the first of each kind, and their number.
    wrong: BTreeMap<String, (String, usize)>,
}

/// Reason for which an answer is wrong.
type Judged = Result<(), String>;

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Judged {
    if holds { Ok(()) } else { Err(why()) }
}

impl Judge {
    pub(super) fn new(version: &str) -> Self {
        Self { version: version.to_owned(), refusals: HashMap::new(), cells: 0, wrong: BTreeMap::new() }
    }

    pub(super) fn report(&self, credentials: usize, requests: usize) {
        println!("{credentials} credentials, {requests} requests, {} answers", self.cells);
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong.values());
        assert!(credentials >= 20 && requests >= 50, "{credentials} by {requests}");
    }

    pub(super) fn judge(&mut self, case: &Case<'_>, reply: &Reply) {
        self.cells += 1;
        let expected = expected(case.proof, case.request);
        let expected = if case.way.is_sidecar() { behind_sidecar(case, expected) } else { expected };
        let answered = match expected {
            Answer::Denied(denial) => self.denied(case, denial, reply),
            Answer::Answered(then) => is_as_expected(case, then, reply),
            Answer::Parts(denial) => are_denied(denial, reply),
            Answer::Uncached(denial) => is_not_stored(denial, reply),
        };
        for judged in [answered, self.states_grants(case, reply), gives_nothing_away(case, reply)] {
            let Err(why) = judged else { continue };
            let kind = format!("{:?} {:?} {}", case.request, case.way, reply.status);
            let shown = format!("{case}: {why}: {} {:?} {:.300}", reply.status, reply.headers, reply.body);
            self.wrong.entry(kind).or_insert((shown, 0)).1 += 1;
        }
    }

    fn denied(&mut self, case: &Case<'_>, denial: Denial, reply: &Reply) -> Judged {
        let status = status_of(denial);
        ensure(reply.status == status, || format!("is no {status}, {denial}"))?;
        ensure(reply.line("www-authenticate") == denial.challenge(), || "has another challenge".to_owned())?;
        // Behind a sidecar it may have been under way for a second.
        let mut others = reply.headers.iter().filter(|(name, _)| name != "age" || !case.way.is_sidecar());
        let other = others.find(|(name, _)| !REFUSAL_LINES.contains(&name.as_str()));
        ensure(other.is_none(), || format!("says too much: {other:?}"))?;
        let is_head = case.request.method == "HEAD";
        if is_head {
            ensure(reply.body.is_empty(), || "has a body".to_owned())?;
        } else {
            let body: Value = serde_json::from_str(&reply.body).map_err(|error| error.to_string())?;
            let is_right = reply.word() == denial.word() && body["detail"] == denial.to_string();
            ensure(is_right, || format!("does not say: {denial}"))?;
            let members = body.as_object().map(|members| members.len());
            ensure(members == Some(4), || "has other members".to_owned())?;
        }
        self.is_like_others(case, denial, reply)
    }

    /// Nothing but the view's name, as it was sent, may differ between two of them.
    fn is_like_others(&mut self, case: &Case<'_>, denial: Denial, reply: &Reply) -> Judged {
        let Reply { status, headers, body } = reply;
        let mut alike = Reply { status: *status, headers: headers.clone(), body: body.clone() };
        let of_sidecars: &[&str] = if case.way.is_sidecar() { &["cache-status", "age"] } else { &[] };
        alike.headers.retain(|(name, _)| name != "x-grants-version" && !of_sidecars.contains(&name.as_str()));
        let kind = (case.request.port, case.way, case.request.method == "HEAD", denial.to_string());
        match self.refusals.entry(kind) {
            Entry::Occupied(first) => ensure(*first.get() == alike, || format!("is not like {:?}", first.get())),
            Entry::Vacant(place) => {
                place.insert(alike);
                Ok(())
            }
        }
    }

    /// R22: a node states by which grants it decided about the view, on all but 401 and 5xx.
    fn states_grants(&self, case: &Case<'_>, reply: &Reply) -> Judged {
        let view = match case.request.need {
            Need::View(view) if case.request.port == Port::Node && !case.way.is_sidecar() => Some(view),
            _ => None,
        };
        let is_stated = reply.status != 401 && reply.status < 500;
        let line = view.filter(|_| is_stated).map(|view| format!("{}; {view}", self.version));
        ensure(reply.line("x-grants-version") == line.as_deref(), || format!("does not state {line:?}"))
    }
}

const fn status_of(denial: Denial) -> u16 {
    match denial {
        Denial::NoCredential | Denial::BadCredential(_) => 401,
        Denial::NotGranted => 403,
        Denial::KeysUnknown | Denial::Busy | Denial::GrantsUnknown => 503,
    }
}

/// Nothing is stored, or there is a refusal of moments ago.
fn is_not_stored(denial: Option<Denial>, reply: &Reply) -> Judged {
    let is_refused =
        denial.is_some_and(|denial| (reply.status, reply.word()) == (status_of(denial), denial.word().to_owned()));
    let is_unstored = (reply.status, reply.word().as_str()) == (504, "not-stored");
    ensure(is_refused || is_unstored, || format!("is neither 504 nor {denial:?}"))
}

/// Every part of a batch says why there is no content.
fn are_denied(denial: Denial, reply: &Reply) -> Judged {
    let body: Value = serde_json::from_str(&reply.body).map_err(|error| error.to_string())?;
    let parts = body["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let are_denied = !parts.is_empty() && parts.iter().all(|part| part["status"] == status_of(denial));
    ensure(reply.status == 200 && are_denied, || format!("has parts that are no {}", status_of(denial)))
}

/// Compares an answer with what is behind the gate, and its content with what its caller may have.
fn is_as_expected(case: &Case<'_>, then: Then, reply: &Reply) -> Judged {
    let Request { port, method, path, .. } = case.request;
    let is_there = reply.status == then.status || (then.status, reply.status) == (200, 201);
    let is_right = is_there && (*method == "HEAD" || reply.word() == then.word);
    ensure(is_right, || format!("is no {} {}", then.status, then.word))?;
    if (*port, *method, *path, reply.status) == (Port::Node, "GET", VIEW, 200) {
        ensure(reply.body == r#"{"users":987654}"#, || "is not the view".to_owned())?;
    }
    match *path {
        "/openapi.json" => ensure(reply.body == OPENAPI, || "is another document".to_owned()),
        "/v1/types" => {
            let types: Value = serde_json::from_str(&reply.body).map_err(|error| error.to_string())?;
            let names = types["types"].as_array().into_iter().flatten().filter_map(|it| it["name"].as_str());
            let expected: &[&str] = match case.proof {
                Proof::Is(Who::Writer) => &["shard", "tenant"],
                Proof::Is(Who::Other) => &["shard"],
                _ => &[],
            };
            ensure(names.eq(expected.iter().copied()), || format!("does not list {expected:?}"))
        }
        _ => Ok(()),
    }
}

/// Nobody learns a name, or anything else, without the right to it.
fn gives_nothing_away(case: &Case<'_>, reply: &Reply) -> Judged {
    let Request { need, path, body, .. } = case.request;
    if *need == Need::Nothing || *path == "/openapi.json" {
        return Ok(());
    }
    let text = format!("{:?} {}", reply.headers, reply.body);
    let who = if let Proof::Is(who) = case.proof { who } else { Who::Nobody };
    let is_sent = |word: &str| path.contains(word) || body.contains(word);
    let is_for_all = may(who, Need::Admin);
    for (word, rights) in GUARDED {
        let may_see = rights.iter().any(|right| may(who, *right)) || is_for_all || is_sent(word);
        ensure(may_see || !text.contains(word), || format!("gives `{word}` away"))?;
    }
    for word in HIDDEN {
        ensure(is_for_all || is_sent(word) || !text.contains(word), || format!("gives `{word}` away"))?;
    }
    let lines = [super::REGIONS, super::CATALOGUE].into_iter().flat_map(|audience| case.credential.lines(audience));
    let mut parts = lines.flat_map(|(_, value)| value.split('.')).filter(|part| part.len() > 16);
    ensure(!parts.any(|part| text.contains(part)), || "repeats a credential".to_owned())
}
