//! Reads a plain request from a connection's bytes: one that a stored reply may answer and that
//! ends with its head.
//!
//! A caller repeats itself: request after request comes with the same header lines. So the lines
//! that were admitted last are kept with what they were parsed to. If a head has the same bytes,
//! only its first line is read.
//!
//! hyper would read whatever is plain here to the same head of the same length. Whatever could be
//! read in two ways (a body, a second host, an unusual form of target) is not plain and is left to
//! hyper from its first byte.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use crate::http::admission::{Head, TOKEN};
use crate::http::limits::REQUEST_TARGET_BYTES;
use crate::request::limits;

/// The header lines that this connection's caller sends again and again. One for each connection.
#[derive(Default)]
pub struct Plain {
    /// From after the request line up to and including the blank line.
    lines: Vec<u8>,
    headers: HeaderMap,
}

pub enum Parsed<'a> {
    /// An incomplete head, perhaps an empty one.
    Part,
    /// A plain request, and the length of its head in bytes.
    Plain(Head<'a>, usize),
    Other,
}

struct Line<'a> {
    method: &'static Method,
    path_and_query: &'a str,
    path_len: usize,
    len: usize,
}

impl Plain {
    /// Reads the head that `bytes` begin with. `admits` is called once for lines that are new.
    pub fn read<'a>(&'a mut self, bytes: &'a [u8], admits: impl FnOnce(&HeaderMap) -> bool) -> Parsed<'a> {
        let Line { method, path_and_query, path_len, len } = match line(bytes) {
            Ok(line) => line,
            Err(found) => return found,
        };
        let rest = &bytes[len..];
        let known = !self.lines.is_empty() && rest.starts_with(&self.lines);
        if !known && let Some(found) = self.learn(rest, admits) {
            return found;
        }
        Parsed::Plain(Head { method, path_and_query, path_len, headers: &self.headers }, len + self.lines.len())
    }

    /// Remembers the lines at the beginning of `rest`, if they are a plain request's.
    fn learn(&mut self, rest: &[u8], admits: impl FnOnce(&HeaderMap) -> bool) -> Option<Parsed<'static>> {
        self.lines.clear();
        self.headers.clear();
        let mut room = [httparse::EMPTY_HEADER; limits::PLAIN_HEADERS];
        let (len, parsed) = match httparse::parse_headers(rest, &mut room) {
            Ok(httparse::Status::Complete(complete)) => complete,
            Ok(httparse::Status::Partial) => return Some(Parsed::Part),
            Err(_) => return Some(Parsed::Other),
        };
        for line in parsed {
            let name = HeaderName::from_bytes(line.name.as_bytes());
            let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(line.value)) else {
                return Some(Parsed::Other);
            };
            self.headers.append(name, value);
        }
        if !is_plain(&self.headers) || !admits(&self.headers) {
            return Some(Parsed::Other);
        }
        self.headers.remove(&TOKEN);
        self.lines.extend_from_slice(&rest[..len]);
        None
    }
}

/// True if nothing follows the head and the connection stays open.
fn is_plain(headers: &HeaderMap) -> bool {
    const NEVER: [HeaderName; 5] =
        [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::UPGRADE, header::EXPECT, header::TRAILER];
    !NEVER.iter().any(|name| headers.contains_key(name))
        && headers.get_all(header::CONNECTION).iter().all(|value| value.as_bytes().eq_ignore_ascii_case(b"keep-alive"))
        // Several cookie lines are joined by [`crate::http::admission`].
        && headers.get_all(header::COOKIE).iter().count() <= 1
}

/// `GET` or `HEAD`, a path, and `HTTP/1.1`, with single spaces.
fn line(bytes: &[u8]) -> Result<Line<'_>, Parsed<'static>> {
    const END: &[u8] = b" HTTP/1.1\r\n";
    let (method, from) = match bytes {
        [b'G', b'E', b'T', b' ', ..] => (&Method::GET, 4),
        [b'H', b'E', b'A', b'D', b' ', ..] => (&Method::HEAD, 5),
        _ if b"GET ".starts_with(bytes) || b"HEAD ".starts_with(bytes) => return Err(Parsed::Part),
        _ => return Err(Parsed::Other),
    };
    let rest = &bytes[from..];
    let Some(end) = rest.iter().position(|byte| !IN_TARGET[usize::from(*byte)]) else {
        return Err(if rest.len() > REQUEST_TARGET_BYTES { Parsed::Other } else { Parsed::Part });
    };
    let (target, after) = rest.split_at(end);
    if !after.starts_with(END) {
        return Err(if END.starts_with(after) { Parsed::Part } else { Parsed::Other });
    }
    let path_and_query = match std::str::from_utf8(target) {
        Ok(target) if target.starts_with('/') && target.len() <= REQUEST_TARGET_BYTES => target,
        _ => return Err(Parsed::Other),
    };
    let path_len = memchr::memchr(b'?', target).unwrap_or(end);
    Ok(Line { method, path_and_query, path_len, len: from + end + END.len() })
}

/// The characters that RFC 3986 allows in paths and queries. Some parsers let others through, and
/// some change them.
const IN_TARGET: [bool; 256] = {
    let mut table = [false; 256];
    let fits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@%/?";
    let mut place = 0;
    while place < fits.len() {
        table[fits[place] as usize] = true;
        place += 1;
    }
    table
};

#[cfg(test)]
mod tests;
