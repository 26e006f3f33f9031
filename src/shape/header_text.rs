//! The memory in which the values of an answer's own headers are written. hyper copies them to the
//! wire and drops them. Once a thread has its memory, writing a value allocates none: the same
//! bytes are reused as soon as the values in them are gone.

use std::cell::RefCell;

use bytes::{BufMut, BytesMut};
use http::HeaderValue;

use super::limits;

thread_local! {
    static MEMORY: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// The header value that `write` writes; `None` if it is not a valid one.
pub(crate) fn written(write: impl FnOnce(&mut BytesMut)) -> Option<HeaderValue> {
    MEMORY.with_borrow_mut(|memory| {
        if memory.capacity() < limits::HEADER_VALUE_ROOM {
            // Reuses the same bytes when nobody holds them any more.
            memory.reserve(limits::HEADER_VALUES_BYTES);
        }
        write(memory);
        HeaderValue::from_maybe_shared(memory.split().freeze()).ok()
    })
}

pub(crate) fn decimal(number: u64) -> HeaderValue {
    let value = written(|text| text.put_slice(itoa::Buffer::new().format(number).as_bytes()));
    value.expect("digits are a header's value")
}
