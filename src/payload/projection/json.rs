//! JSON as far as cutting needs it: where a string, a value, a container ends. What is stepped over
//! is not judged: a number may be no number.

use memchr::memchr2;

use crate::payload::projection::error::ProjectionError;

/// Meaning of a byte outside of strings in the search for the end of a container.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Other,
    Quote,
    Open,
    Close,
}

const SIGNS: [Sign; 256] = {
    let mut signs = [Sign::Other; 256];
    signs[b'"' as usize] = Sign::Quote;
    signs[b'{' as usize] = Sign::Open;
    signs[b'[' as usize] = Sign::Open;
    signs[b'}' as usize] = Sign::Close;
    signs[b']' as usize] = Sign::Close;
    signs
};

/// The byte at `at`, or one that stands nowhere in JSON.
pub(super) fn byte(body: &[u8], at: usize) -> u8 {
    body.get(at).copied().unwrap_or(0)
}

/// Index of the first byte from `at` on that is not white space.
pub(super) fn after_space(body: &[u8], mut at: usize) -> usize {
    while matches!(byte(body, at), b' ' | b'\n' | b'\r' | b'\t') {
        at += 1;
    }
    at
}

/// End of the string whose first byte behind the quote is at `at`: the index behind its second
/// quote.
pub(super) fn string_end(body: &[u8], mut at: usize) -> Result<usize, ProjectionError> {
    loop {
        let rest = body.get(at..).unwrap_or_default();
        let found = memchr2(b'"', b'\\', rest).ok_or(ProjectionError::Malformed)?;
        if rest[found] == b'"' {
            return Ok(at + found + 1);
        }
        at += found + 2;
    }
}

/// The next quote or bracket from `at` on, and where it stands.
pub(super) fn next_sign(body: &[u8], mut at: usize) -> Option<(Sign, usize)> {
    loop {
        let sign = SIGNS[usize::from(*body.get(at)?)];
        if sign != Sign::Other {
            return Some((sign, at));
        }
        at += 1;
    }
}

/// End of the object or list that begins at `at`.
pub(super) fn container_end(body: &[u8], at: usize) -> Result<usize, ProjectionError> {
    let (mut at, mut depth) = (at, 0_usize);
    while let Some((sign, place)) = next_sign(body, at) {
        at = place + 1;
        match sign {
            Sign::Quote => at = string_end(body, at)?,
            Sign::Open => depth += 1,
            Sign::Close if depth == 1 => return Ok(at),
            Sign::Close => depth -= 1,
            Sign::Other => {}
        }
    }
    Err(ProjectionError::Malformed)
}

/// End of the number or word that begins at `at`.
pub(super) fn scalar_end(body: &[u8], at: usize) -> Result<usize, ProjectionError> {
    let rest = body.get(at..).unwrap_or_default();
    let len = rest
        .iter()
        .position(|byte| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t'))
        .unwrap_or(rest.len());
    if len == 0 { Err(ProjectionError::Malformed) } else { Ok(at + len) }
}

/// A name as it is meant, of its bytes with their quotes. `None` for one that no mask can mean, as
/// of half a surrogate pair.
pub(super) fn meant(quoted: &[u8]) -> Option<String> {
    serde_json::from_slice(quoted).ok()
}
