//! Budget of attempts beyond the first: a region's tokens for extra attempts, and its share of background
//! work. Pure: the time is passed in. While a reader waits, neither budget holds back a race's
//! first attempt.

use super::limits::{
    AUDIT_SHARE, BACKGROUND_ATTEMPTS_PER_SECOND, BACKGROUND_SHARE, CHECK_SHARE, TOKENS_PER_REGION, TOKENS_PER_SECOND,
};
use crate::model::time::Moment;

/// End of an attempt, as far as it changes the region's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptEnding {
    /// It answered: a representation, an absence, a 304.
    Answered,
    /// It does not let the caller in: 401 or 403. That says something of the caller, and nothing of the
    /// region.
    Denied,
    /// It answered that it will not: 3xx, or any other 4xx but 404 and 410 (so 429 too).
    Refused,
    /// 5xx, or no complete reply.
    Failed,
}

/// Extra attempts to a region spend tokens, and its replies earn them. A region that answers always
/// earns more than it spends. One that refuses or fails earns less, so it is asked less and less. A
/// trickle lets it come back. Callers that it does not let in change nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens {
    left: f64,
    at: Moment,
}

impl Tokens {
    pub(crate) const fn new(now: Moment) -> Self {
        Self { left: TOKENS_PER_REGION, at: now }
    }

    pub(crate) fn earn(&mut self, ending: AttemptEnding) {
        let classification = match ending {
            AttemptEnding::Answered => 1.25,
            AttemptEnding::Denied => 1.0,
            AttemptEnding::Refused => 0.5,
            AttemptEnding::Failed => 0.1,
        };
        self.left = (self.left + classification).min(TOKENS_PER_REGION);
    }

    /// Takes one for an extra attempt, if there is one.
    pub(crate) fn spend(&mut self, now: Moment) -> bool {
        let trickle = now.since(self.at).as_secs_f64() * TOKENS_PER_SECOND;
        self.left = (self.left + trickle).min(TOKENS_PER_REGION);
        self.at = now;
        let enough = self.left >= 1.0;
        if enough {
            self.left -= 1.0;
        }
        enough
    }
}

/// A region's attempts in the current and the previous second, foreground and background.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Background {
    second: u64,
    foreground: u32,
    foreground_before: u32,
    background: u32,
}

impl Background {
    pub(crate) fn foreground(&mut self, now: Moment) {
        self.turn(now);
        self.foreground = self.foreground.saturating_add(1);
    }

    /// True if a background attempt may be sent now: up to a fifth of the foreground attempts (in this
    /// second or the one before, whichever had more) or twenty a second, whichever is more.
    pub(crate) fn admit(&mut self, now: Moment) -> bool {
        self.turn(now);
        let admitted = f64::from(self.background) < self.allowed();
        if admitted {
            self.background += 1;
        }
        admitted
    }

    /// Number of attempts that an audit may send now: the remainder of its share, so that what readers
    /// will want comes first.
    pub(crate) fn left_for_audits(&mut self, now: Moment) -> usize {
        self.turn(now);
        (self.allowed() * AUDIT_SHARE - f64::from(self.background)).max(0.0) as usize
    }

    /// True if a comparison of upstreams may send an attempt now: it comes after everything else.
    pub(crate) fn admit_check(&mut self, now: Moment) -> bool {
        self.turn(now);
        let admitted = f64::from(self.background) + 1.0 <= self.allowed() * CHECK_SHARE;
        if admitted {
            self.background += 1;
        }
        admitted
    }

    fn allowed(&self) -> f64 {
        let share = f64::from(self.foreground.max(self.foreground_before)) * BACKGROUND_SHARE;
        share.max(f64::from(BACKGROUND_ATTEMPTS_PER_SECOND))
    }

    fn turn(&mut self, now: Moment) {
        let second = now.since(Moment::ZERO).as_secs();
        if second != self.second {
            let adjacent = second == self.second + 1;
            self.foreground_before = if adjacent { self.foreground } else { 0 };
            (self.second, self.foreground, self.background) = (second, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const START: Moment = Moment::from_nanos(1_000_000_000_000);

    #[test]
    fn only_failing_region_exhausts_its_tokens() {
        let mut good = Tokens::new(START);
        let mut failing = Tokens::new(START);
        let mut refusing = Tokens::new(START);
        let mut sent = [0; 3];
        for _ in 0..5000 {
            for (place, (tokens, ending)) in [
                (&mut good, AttemptEnding::Answered),
                (&mut failing, AttemptEnding::Failed),
                (&mut refusing, AttemptEnding::Refused),
            ]
            .into_iter()
            .enumerate()
            {
                if tokens.spend(START) {
                    sent[place] += 1;
                    tokens.earn(ending);
                }
            }
        }
        assert_eq!(sent[0], 5000);
        assert!(sent[1] < 700, "{sent:?}");
        assert!(sent[1] < sent[2] && sent[2] < 1200, "{sent:?}");
    }

    #[test]
    fn denied_callers_take_no_tokens() {
        let mut tokens = Tokens::new(START);
        for _ in 0..5000 {
            assert!(tokens.spend(START));
            tokens.earn(AttemptEnding::Denied);
        }
    }

    #[test]
    fn spent_region_is_asked_again_later() {
        let mut tokens = Tokens::new(START);
        while tokens.spend(START) {}
        assert!(!tokens.spend(START + Duration::from_millis(200)));
        assert!(tokens.spend(START + Duration::from_secs(1)));
    }

    fn admitted(budget: &mut Background, now: Moment) -> usize {
        (0..1000).filter(|_| budget.admit(now)).count()
    }

    #[test]
    fn background_gets_twenty_attempts_or_fifth() {
        let mut budget = Background::default();
        assert_eq!(admitted(&mut budget, START), 20);
        for _ in 0..500 {
            budget.foreground(START);
        }
        assert_eq!(admitted(&mut budget, START), 80, "a hundred in all");
        assert_eq!(admitted(&mut budget, START + Duration::from_secs(1)), 100, "by the second before");
        assert_eq!(admitted(&mut budget, START + Duration::from_secs(5)), 20);
    }
    /// R17.
    #[test]
    fn audits_use_half_of_background_budget() {
        let mut budget = Background::default();
        assert_eq!(budget.left_for_audits(START), 10);
        (0..8).for_each(|_| assert!(budget.admit(START)));
        assert_eq!(budget.left_for_audits(START), 2);
        (0..12).for_each(|_| assert!(budget.admit(START), "rechecks may use all of it"));
        assert_eq!(budget.left_for_audits(START), 0);
        for _ in 0..500 {
            budget.foreground(START);
        }
        assert_eq!(budget.left_for_audits(START), 30, "half of a hundred, less what was used");
    }

    #[test]
    fn comparisons_yield_and_use_quarter_budget() {
        let mut budget = Background::default();
        assert_eq!((0..1000).filter(|_| budget.admit_check(START)).count(), 5);
        (0..15).for_each(|_| assert!(budget.admit(START), "the rest is there for rechecks"));
        let later = START + Duration::from_secs(5);
        (0..5).for_each(|_| assert!(budget.admit(later)));
        assert_eq!((0..1000).filter(|_| budget.admit_check(later)).count(), 0);
    }
}
