//! A switch per rule, so that the simulator can show that each rule is needed. Compiled for the simulator only.
//!
//! Before it: the simulator, built with the feature `switches`, turns one rule off for a thread. After it: the places
//! that carry the rule out ask [`is_on`]. Invariant: without the feature every rule is on, [`is_on`] is a constant and
//! nothing of this is left in the program.

/// The rules of the protocol, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "FRESHNESS.md says what each is; the table in this directory's mod.rs, where")]
pub enum Rule {
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    R16,
    R17,
    R18,
}

/// Whether `rule` is carried out on this thread.
#[cfg(not(feature = "switches"))]
#[inline(always)]
pub const fn is_on(_rule: Rule) -> bool {
    true
}

#[cfg(feature = "switches")]
pub use switched::{Off, is_on, off};

#[cfg(feature = "switches")]
mod switched {
    use std::cell::Cell;

    use super::Rule;

    thread_local! {
        static OFF: Cell<u32> = const { Cell::new(0) };
    }

    /// Whether `rule` is carried out on this thread.
    pub fn is_on(rule: Rule) -> bool {
        OFF.get() & bit(rule) == 0
    }

    /// Turns `rule` off on this thread for as long as the guard lives.
    #[must_use]
    pub fn off(rule: Rule) -> Off {
        OFF.set(OFF.get() | bit(rule));
        Off(rule)
    }

    /// A rule that is off.
    #[derive(Debug)]
    pub struct Off(Rule);

    impl Drop for Off {
        fn drop(&mut self) {
            OFF.set(OFF.get() & !bit(self.0));
        }
    }

    const fn bit(rule: Rule) -> u32 {
        1 << rule as u32
    }
}
