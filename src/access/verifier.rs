//! Verifies who asks. Callers that are remembered wait for nobody; the signatures of others are
//! verified on threads that serve no requests, a few at once.

use std::sync::Arc;

use http::{HeaderMap, header};
use tokio::sync::Semaphore;

use super::calendar::Calendar;
use super::denial::Denial;
use super::issuer::Unproven;
use super::issuers::Issuers;
use super::known::Known;
use super::limits::{REMEMBERED_FOR, TURN_WAIT};
use super::remembered::{Remembered, TokenHash};
use super::token;
use crate::model::time::Wall;
use crate::tasks::on_bounded_threads;

/// Verifies the tokens of one port, and remembers those that are good.
#[derive(Debug)]
pub(super) struct Verifier {
    issuers: Issuers,
    remembered: Remembered,
    /// Signatures that are verified at once.
    room: Arc<Semaphore>,
    calendar: Calendar,
}

/// A caller, as far as it is known without waiting.
pub(super) enum Recalled {
    Known(Arc<Known>),
    /// Its token's signature has yet to be verified.
    Token(NewToken),
}

/// A token that passed all checks that need no signature, or whose key is not known.
pub(super) struct NewToken {
    text: Box<[u8]>,
    arrived: Wall,
}

impl Verifier {
    pub(super) fn new(issuers: Issuers, calendar: Calendar) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { issuers, remembered: Remembered::new(), room: Arc::new(Semaphore::new(cores)), calendar }
    }

    pub(super) const fn issuers(&self) -> &Issuers {
        &self.issuers
    }

    /// The caller by what the connection remembers, or by what the process remembers.
    pub(super) fn recall(&self, known: &mut Option<Arc<Known>>, headers: &HeaderMap) -> Result<Recalled, Denial> {
        let (now, epoch) = (self.calendar.now(), self.issuers.epoch());
        if let Some(known) = known.as_ref().filter(|known| known.holds(now, epoch)) {
            return Ok(Recalled::Known(known.clone()));
        }
        let mut lines = headers.get_all(header::AUTHORIZATION).iter();
        let line = lines.next().ok_or(Denial::NoCredential)?;
        let token = token::bearer(line.as_bytes()).ok_or(Denial::NoCredential)?;
        if lines.next().is_some() {
            return Err(Denial::NoCredential);
        }
        if let Some(found) = self.remembered(&self.remembered.place(token), now, epoch) {
            *known = Some(found.clone());
            return Ok(Recalled::Known(found));
        }
        match self.issuers.check(token, now) {
            Err(Unproven::Refused(error)) => Err(Denial::BadCredential(error)),
            Ok(()) | Err(Unproven::KeyUnknown) => Ok(Recalled::Token(NewToken { text: token.into(), arrived: now })),
        }
    }

    /// Verifies the caller's token, once its key is known and it is its turn.
    pub(super) async fn prove(&self, token: NewToken) -> Result<Arc<Known>, Denial> {
        let NewToken { text, arrived } = token;
        if self.issuers.check(&text, arrived) == Err(Unproven::KeyUnknown) {
            let without = self.issuers.wait_for_key(&text, arrived).await;
            match self.issuers.check(&text, self.calendar.now()) {
                Err(Unproven::KeyUnknown) => return Err(denial(without)),
                Err(refused) => return Err(denial(refused)),
                Ok(()) => {}
            }
        }
        let turn = tokio::time::timeout(TURN_WAIT, self.room.clone().acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(Denial::Busy) };
        let (now, epoch) = (self.calendar.now(), self.issuers.epoch());
        let place = self.remembered.place(&text);
        // Another request with this token may have come first.
        if let Some(known) = self.remembered(&place, now, epoch) {
            return Ok(known);
        }
        let issuers = self.issuers.clone();
        let verified = on_bounded_threads(turn, move || issuers.verify(&text, now)).await;
        let token = verified.ok_or(Denial::Busy)?.map_err(denial)?;
        let until = token.until.min(now + REMEMBERED_FOR);
        let known = Arc::new(Known { token, until, epoch });
        self.remembered.note(place, known.clone());
        Ok(known)
    }

    fn remembered(&self, place: &TokenHash, now: Wall, epoch: u64) -> Option<Arc<Known>> {
        self.remembered.get(place).filter(|known| known.holds(now, epoch))
    }
}

const fn denial(why: Unproven) -> Denial {
    match why {
        Unproven::Refused(error) => Denial::BadCredential(error),
        Unproven::KeyUnknown => Denial::KeysUnknown,
    }
}
