//! Delay before something that failed is tried again: doubling, bounded, jittered. No wait exceeds
//! one and a half times the bound, and a thousand sidecars that failed together do not try again
//! together.

use std::time::Duration;

/// Waits that double from a first to a longest one.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Waits from `bounds.0` to `bounds.1`.
    pub(crate) fn new(bounds: (Duration, Duration)) -> Self {
        Self { first: bounds.0, longest: bounds.1, next: bounds.0 }
    }

    pub(crate) fn wait(&mut self) -> Duration {
        let span = self.next;
        self.next = (span * 2).min(self.longest);
        jittered(span)
    }

    /// It worked: the next wait is the first again.
    pub(crate) fn worked(&mut self) {
        self.next = self.first;
    }
}

/// Between half of `span` and one and a half times it.
pub(crate) fn jittered(span: Duration) -> Duration {
    span.mul_f64(0.5 + fastrand::f64())
}

/// Between three quarters of `span` and all of it: for what must not happen later.
pub(crate) fn shortened(span: Duration) -> Duration {
    span.mul_f64(0.75 + fastrand::f64() / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_about(wait: Duration, span: Duration) -> bool {
        wait >= span / 2 && wait <= span * 3 / 2
    }

    #[test]
    fn backoff_doubles_to_bound_and_resets() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new((second, second * 4));
        for span in [1, 2, 4, 4] {
            assert!(is_about(backoff.wait(), second * span), "{span}");
        }
        backoff.worked();
        assert!(is_about(backoff.wait(), second));
    }
}
