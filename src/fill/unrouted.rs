//! The fill of an unrouted path: it races, passes on whatever status wins, and stores it if RFC
//! 9111 lets a shared cache do so. A reply that a shared cache may not store is never given to a
//! second reader.

use std::sync::Arc;

use super::ask::Ask;
use super::leader::Leader;
use super::outcome::{Failed, Filled, Got, Lack, best_error};
use super::settings::Shared;
use crate::http::exchange::{Failure, Reply};
use crate::race::attempted::attempted;
use crate::race::question::{Question, Sending, Terms};
use crate::race::{First, Race};
use crate::shape::cookies::Cookies;
use crate::unrouted::keep::{Keeping, conditional};

pub(crate) async fn run(leader: &mut Leader, ask: &mut Ask) {
    let settings = leader.settings.clone();
    loop {
        let request = conditional(&ask.request, ask.previous.as_ref());
        let question = Question { sending: Sending::alone(request, ask.purpose), terms: Terms::Unrouted };
        let mut race = Race::start(&settings.regions, question);
        let first = race.first().await;
        if let First::Good(winner) = &first
            && let Some(got) = keep(&settings.shared, ask, &winner.reply)
        {
            leader.finish(Filled::Got(got));
            race.finish().await;
            return;
        }
        let tally = race.finish().await;
        if let Some(best) = &tally.best {
            match keep(&settings.shared, ask, &best.reply) {
                Some(got) => return leader.finish(Filled::Got(got)),
                // RFC 9111, 4.3.4: this 304 is about another reply. Ask for the whole, once.
                None => ask.previous = None,
            }
            continue;
        }
        if tally.attempts.iter().any(|attempt| attempt.outcome.as_ref().is_err_and(Failure::is_unheld)) {
            return leader.finish(Filled::TooLarge);
        }
        let asked = attempted(&settings.shared.names, &tally.attempts);
        let best_error = tally.best_error.as_ref().map(|reply| best_error(reply, Cookies::of(&reply.headers)));
        return leader.fail(Failed { best_error, asked, lack: Lack::Answers });
    }
}

fn keep(shared: &Shared, ask: &Ask, reply: &Arc<Reply>) -> Option<Got> {
    let keeping = Keeping { store: &shared.store, hash_key: shared.hash_key, clock: &shared.clock };
    let kept = keeping.keep(&ask.request, ask.previous.as_ref(), reply)?;
    Some(Got {
        entry: kept.entry,
        fwd_status: reply.status.as_u16(),
        stored: kept.stored,
        shareable: kept.shareable,
        label: None,
        cookies: Cookies::of(&reply.headers),
    })
}
