//! Counts of running tasks and of panics, by the name of the task.

use std::collections::BTreeMap;

/// A long-lived task that panicked and has not run well for long enough since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailingTask {
    pub name: &'static str,
    /// Panics in a row.
    pub panics: u64,
}

impl FailingTask {
    /// One line for an operator.
    pub fn line(&self) -> String {
        let Self { name, panics } = self;
        let times = if *panics == 1 { "once".to_owned() } else { format!("{panics} times in a row") };
        format!(
            "the task {name:?} panicked {times} and is started again after a pause: what it does is late or missing; \
             look for \"a thread panicked\" in the log and report that line"
        )
    }
}

/// Everything that is counted of tasks.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) names: BTreeMap<&'static str, CountedName>,
    /// Each long-lived task, while it is supervised.
    pub(super) records: BTreeMap<u64, FailingTask>,
    next_record: u64,
}

#[derive(Default)]
pub(super) struct CountedName {
    pub(super) running: usize,
    pub(super) panics: u64,
}

impl Counted {
    pub(super) fn of(&mut self, name: &'static str) -> &mut CountedName {
        self.names.entry(name).or_default()
    }

    pub(super) fn begin_record(&mut self, name: &'static str) -> u64 {
        self.next_record += 1;
        self.records.insert(self.next_record, FailingTask { name, panics: 0 });
        self.next_record
    }
}
