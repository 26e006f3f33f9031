//! Buffers that a thread's connections use in turn, to read into and to write answers into.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

use crate::http::limits;

thread_local! {
    /// Buffers that this thread's connections read into in turn. They keep their full length, so
    /// that nothing is cleared for the next one.
    static READ: Cell<Vec<Vec<u8>>> = const { Cell::new(Vec::new()) };
    /// Buffers that their answers are written into.
    static WRITTEN: Cell<Vec<Vec<u8>>> = const { Cell::new(Vec::new()) };
}

/// Unused buffers of a thread.
type Home = &'static LocalKey<Cell<Vec<Vec<u8>>>>;

/// A buffer that this thread's connections use in turn: a connection in the middle of something has
/// one, and a waiting one has none.
pub(crate) struct Spare {
    bytes: Vec<u8>,
    home: Home,
}

impl Spare {
    pub(super) const fn none() -> Self {
        Self { bytes: Vec::new(), home: &READ }
    }

    pub(super) fn to_read() -> Self {
        let mut bytes = taken_from(&READ);
        bytes.resize(limits::WIRE_BYTES, 0);
        Self { bytes, home: &READ }
    }

    /// An empty buffer to write into.
    pub(crate) fn to_write() -> Self {
        let mut bytes = taken_from(&WRITTEN);
        bytes.clear();
        Self { bytes, home: &WRITTEN }
    }
}

fn taken_from(home: Home) -> Vec<u8> {
    let mut spares = home.take();
    let bytes = spares.pop().unwrap_or_default();
    home.set(spares);
    bytes
}

impl Drop for Spare {
    fn drop(&mut self) {
        if (1..=limits::SPARE_BYTES).contains(&self.bytes.capacity()) {
            // A thread that ends has no use for it.
            let _ = self.home.try_with(|home| {
                let mut spares = home.take();
                if spares.len() < limits::SPARES {
                    spares.push(std::mem::take(&mut self.bytes));
                }
                home.set(spares);
            });
        }
    }
}

impl Deref for Spare {
    type Target = Vec<u8>;
    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Spare {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}
