//! The fill of an unrouted path: it races, passes on whatever status wins, and stores it if RFC
//! 9111 lets a shared cache do so. A reply that a shared cache may not store is never given to a
//! second reader.

use std::sync::Arc;

use http::{Method, StatusCode};

use super::ask::ALONG;
use super::{Ask, Failed, Filled, Got, Leader, best_error};
use crate::cache::content::Content;
use crate::cache::entry::{Entry, Hold};
use crate::cache::key::KeyBuffer;
use crate::cache::rfc9111::{self, HeadEffect, Renewal, StoredFacts, fields};
use crate::cache::store::Put;
use crate::core::Core;
use crate::core::answer::Cookies;
use crate::core::race::{First, Question, Race, Sending, Terms};
use crate::http::exchange::{Failure, Outgoing, Reply};

pub(crate) async fn run(leader: &mut Leader, ask: &mut Ask) {
    let core = leader.core.clone();
    loop {
        let request = dressed(ask);
        let question = Question { sending: Sending::alone(request, ask.purpose), terms: Terms::Unrouted };
        let mut race = Race::start(&core.regions, question);
        let first = race.first().await;
        if let First::Good(winner) = &first
            && let Some(got) = keep(&core, ask, &winner.reply)
        {
            leader.finish(Filled::Got(got));
            race.finish().await;
            return;
        }
        let tally = race.finish().await;
        if let Some(best) = &tally.best {
            match keep(&core, ask, &best.reply) {
                Some(got) => return leader.finish(Filled::Got(got)),
                // RFC 9111, 4.3.4: this 304 is about another reply. Ask for the whole, once.
                None => ask.previous = None,
            }
            continue;
        }
        if tally.legs.iter().any(|leg| leg.outcome.as_ref().is_err_and(Failure::is_unheld)) {
            return leader.finish(Filled::TooLarge);
        }
        let asked = core.attempted(&tally.legs);
        let best_error = tally.best_error.as_ref().map(|reply| best_error(reply, Cookies::of(&reply.headers)));
        return leader.fail(Failed { best_error, asked, below_floor: false });
    }
}

/// Adds validators of what is stored (RFC 9111, 4.3.1). The caller's own conditions were removed
/// when the ask was made.
fn dressed(ask: &Ask) -> Arc<Outgoing> {
    let Some(previous) = ask.previous.as_ref().filter(|_| ask.request.method == Method::GET) else {
        return ask.request.clone();
    };
    let mut request = Outgoing::clone(&ask.request);
    rfc9111::validators::validate(&mut request.headers, &previous.headers());
    Arc::new(request)
}

/// Stores what may be stored, and says how to serve it; `None` for a 304 that is about another
/// reply.
fn keep(core: &Core, ask: &Ask, reply: &Arc<Reply>) -> Option<Got> {
    let headers = &ask.request.headers;
    let fwd_status = reply.status.as_u16();
    let got = |entry: Arc<Entry>, stored: bool| {
        let shareable = stored && !varies_by_caller(&entry);
        Got { entry, fwd_status, stored, shareable, label: None, cookies: Cookies::of(&reply.headers) }
    };
    let target = &ask.request.path_and_query;
    if ask.request.method == Method::HEAD {
        if let Some(previous) = &ask.previous {
            match rfc9111::after_head(previous, headers, reply) {
                HeadEffect::Store(entry) => drop(put(core, ask, entry)),
                HeadEffect::Remove => core.store.invalidate(&mut KeyBuffer::new(core.seed), target, core.clock.now()),
                HeadEffect::Nothing => {}
            }
        }
        return Some(got(Arc::new(Entry::passing(reply)), false));
    }
    if let (StatusCode::NOT_MODIFIED, Some(previous)) = (reply.status, &ask.previous) {
        return match rfc9111::refreshed(previous, headers, reply) {
            Renewal::Store(entry) => {
                let stored = put(core, ask, entry.clone());
                Some(got(entry, stored))
            }
            Renewal::ServeOnly(entry) => {
                core.store.invalidate(&mut KeyBuffer::new(core.seed), target, core.clock.now());
                Some(got(entry, false))
            }
            Renewal::Mismatch => None,
        };
    }
    Some(match rfc9111::storable(&ask.request.method, headers, reply) {
        Some(facts) => {
            let entry = Arc::new(entry(reply, facts));
            let stored = put(core, ask, entry.clone());
            if fields::withholds(&reply.headers) {
                // What is stored lacks the fields that are for the first reader alone (5.2.2.7).
                let entry = Arc::new(Entry::passing(reply));
                return Some(Got { shareable: false, ..got(entry, stored) });
            }
            got(entry, stored)
        }
        None => got(Arc::new(Entry::passing(reply)), false),
    })
}

/// Whether the reply varies by a header in which the callers of one shared fill may differ.
fn varies_by_caller(entry: &Entry) -> bool {
    entry.hold.unrouted().is_some_and(|facts| facts.vary.iter().any(|name| ALONG.contains(name)))
}

fn put(core: &Core, ask: &Ask, entry: Arc<Entry>) -> bool {
    let request = &ask.request;
    let mut buffer = KeyBuffer::new(core.seed);
    let put = core.store.put_unrouted(&mut buffer, &request.path_and_query, &request.headers, &entry);
    matches!(put, Put::Stored)
}

fn entry(reply: &Reply, facts: StoredFacts) -> Entry {
    let received = reply.sent_wall + reply.received.since(reply.sent);
    let content = Content::new(&fields::kept(&reply.headers, received), &reply.body);
    Entry::of(reply, content, Hold::Unrouted(facts))
}
