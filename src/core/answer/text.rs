//! Owns the memory in which the values of an answer's own headers are written.
//!
//! Before it: [`super`] knows what to say. After it: hyper copies it onto the wire and lets go of it. Invariant: once a
//! thread has its memory, writing a value takes none: the same bytes serve again as soon as the values in them are gone.

use std::cell::RefCell;

use bytes::{BufMut, BytesMut};
use http::HeaderValue;

use crate::core::limits;

thread_local! {
    static MEMORY: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// What `write` writes, as a header's value; `None` when it is none.
pub(crate) fn written(write: impl FnOnce(&mut BytesMut)) -> Option<HeaderValue> {
    MEMORY.with_borrow_mut(|memory| {
        if memory.capacity() < limits::HEADER_VALUE_ROOM {
            // Takes the same bytes again when nobody holds them any more.
            memory.reserve(limits::HEADER_VALUES_BYTES);
        }
        write(memory);
        HeaderValue::from_maybe_shared(memory.split().freeze()).ok()
    })
}

/// A number, as a header's value.
pub(crate) fn decimal(number: u64) -> HeaderValue {
    let value = written(|text| text.put_slice(itoa::Buffer::new().format(number).as_bytes()));
    value.expect("digits are a header's value")
}
