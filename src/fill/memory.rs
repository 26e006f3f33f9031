//! Memory limit of the process, and the state of being short of it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::cache::capacity::{Memory, Pressure};
use crate::cache::store::Store;
use crate::model::time::Moment;
use crate::telemetry::rate_limiter::RateLimiter;

pub struct MemoryPressure {
    pub memory: Memory,
    /// Set while memory is short: background work is put off.
    sheds: AtomicBool,
    /// Limits what is logged of memory that is short, and of memory that no longer is.
    lines: [RateLimiter; 2],
}

impl MemoryPressure {
    pub(crate) fn new(memory: Memory) -> Self {
        Self { memory, sheds: AtomicBool::new(false), lines: [RateLimiter::new(), RateLimiter::new()] }
    }

    /// Returns whether background work is put off.
    pub fn is_short(&self) -> bool {
        self.sheds.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn set_short(&self, is_short: bool) {
        self.sheds.store(is_short, Ordering::Relaxed);
    }

    /// Compares what the process holds with what it may: first background work stops, then the
    /// caller evicts entries and connections. Returns how short memory is.
    pub(crate) fn note(&self, resident: u64, store: &Store, now: Moment) -> Pressure {
        let pressure = self.memory.pressure(resident);
        let sheds = pressure > Pressure::None;
        if self.sheds.swap(sheds, Ordering::Relaxed) != sheds {
            self.log(sheds, resident, store, now);
        }
        pressure
    }

    fn log(&self, sheds: bool, resident: u64, store: &Store, now: Moment) {
        let (limit, entries) = (self.memory.limit, store.entries());
        let [short, over] = &self.lines;
        if sheds {
            if let Some(suppressed) = short.admit(now) {
                tracing::warn!(
                    resident,
                    limit,
                    entries,
                    suppressed,
                    "memory is short: nothing is asked for in the background"
                );
            }
        } else if let Some(suppressed) = over.admit(now) {
            tracing::info!(resident, limit, entries, suppressed, "memory is no longer short");
        }
    }
}
