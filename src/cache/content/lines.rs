//! Header lines in HTTP/1.1 form: `name: value`, CR, LF.

use bytes::{BufMut, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue};

pub(super) const WAS_A_VALUE: &str = "it was a header's value before";
const WAS_A_LINE: &str = "it was written as a header's line";

/// Bytes that the lines take on the wire.
pub(super) fn size<'a>(lines: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>) -> u32 {
    let all: usize = lines.map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    u32::try_from(all).expect("heads are bounded far below")
}

pub(super) fn write<'a>(lines: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>, to: &mut impl BufMut) {
    for (name, value) in lines {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            to.put_slice(part);
        }
    }
}

pub(super) fn put_line(name: &[u8], value: &[u8], to: &mut impl BufMut) {
    to.put_slice(name);
    to.put_slice(b": ");
    to.put_slice(value);
    to.put_slice(b"\r\n");
}

/// Splits text into lines' names and values.
#[inline]
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut begin = 0;
    // A value holds neither CR nor LF.
    memchr::memchr_iter(b'\n', text).map(move |end| {
        let line = &text[begin..end - 1];
        begin = end + 1;
        let colon = line.iter().position(|byte| *byte == b':').expect(WAS_A_LINE);
        (&line[..colon], &line[colon + 2..])
    })
}

pub(super) fn append(text: &Bytes, headers: &mut HeaderMap, wanted: &dyn Fn(&[u8]) -> bool) {
    for (name, value) in lines(text).filter(|(name, _)| wanted(name)) {
        let value = HeaderValue::from_maybe_shared(text.slice_ref(value)).expect(WAS_A_VALUE);
        headers.append(HeaderName::from_bytes(name).expect(WAS_A_LINE), value);
    }
}
