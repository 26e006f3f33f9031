//! The time that tokens are compared with: the calendar's, which within a process never runs back.
//!
//! A calendar that is set back would revive tokens whose end has come.

use crate::model::time::{Clock, Moment, Wall};

/// Calendar of one process.
#[derive(Clone, Debug)]
pub struct Calendar {
    clock: Clock,
    began: (Moment, Wall),
}

impl Calendar {
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let began = (clock.now(), clock.wall());
        Self { clock, began }
    }

    /// The later of the wall's time and the start's plus what has passed since.
    #[must_use]
    pub fn now(&self) -> Wall {
        let (start, wall) = self.began;
        self.clock.wall().max(wall + self.clock.now().since(start))
    }
}
