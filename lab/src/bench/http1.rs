//! HTTP/1.1 as a load generator needs it: requests prepared as bytes, replies read only as far as
//! they are checked. Bytes may arrive cut anywhere. Nothing is allocated per reply unless its head
//! arrives in pieces. A byte after the reply is an error, because no further request was sent.

use nearside::http::limits::REPLY_HEAD_BYTES;

use super::subject::Proof;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawReply {
    pub status: u16,
    pub body_bytes: u64,
    /// True if it carried the proof.
    pub proven: bool,
    /// True if the server will close the connection.
    pub closes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    /// A status line, a header line or a number is missing where one belongs.
    #[error("the reply is not HTTP/1.1")]
    Malformed,
    /// Neither a length nor chunks: the body would end with the connection.
    #[error("the reply states no length")]
    NoLength,
    /// A head that does not end.
    #[error("the reply's head is too long")]
    TooLong,
    /// Bytes that nobody asked for.
    #[error("there are bytes after the reply")]
    Beyond,
}

/// Reads the replies of one connection, one after another.
#[derive(Debug, Default)]
pub(super) struct ReplyReader {
    /// The beginning of an incomplete head.
    head: Vec<u8>,
    /// The reply whose body is being read, and where in the body.
    open: Option<(RawReply, Body)>,
}

#[derive(Clone, Copy, Debug)]
enum Body {
    Left(u64),
    Chunks(Chunks),
}

/// Position of the reader in a chunked body.
#[derive(Clone, Copy, Debug)]
enum Chunks {
    /// Digits of a size, with the size so far.
    Size(u64),
    /// After the digits, up to the end of the line.
    Extension(u64),
    /// Data of a chunk, with the bytes left.
    Data(u64),
    /// Line end after a chunk.
    DataEnd,
    /// Trailer, with the number of bytes seen in its current line.
    Trailer(u64),
}

impl ReplyReader {
    /// Forgets a reply that will never be complete.
    pub(super) fn reset(&mut self) {
        self.head.clear();
        self.open = None;
    }

    /// True if nothing of a reply has come.
    pub(super) fn is_between_replies(&self) -> bool {
        self.head.is_empty() && self.open.is_none()
    }

    /// Takes the next bytes; returns a reply when they complete it.
    pub(super) fn read(&mut self, mut bytes: &[u8], proof: &Proof) -> Result<Option<RawReply>, Broken> {
        if self.open.is_none() {
            let opened = if self.head.is_empty() {
                head(bytes, proof)?.map(|(reply, body, length)| (reply, body, &bytes[length..]))
            } else {
                let before = self.head.len();
                self.head.extend_from_slice(bytes);
                head(&self.head, proof)?.map(|(reply, body, length)| (reply, body, &bytes[length - before..]))
            };
            let Some((reply, body, rest)) = opened else {
                if self.head.is_empty() {
                    self.head.extend_from_slice(bytes);
                }
                return if self.head.len() > REPLY_HEAD_BYTES { Err(Broken::TooLong) } else { Ok(None) };
            };
            self.head.clear();
            self.open = Some((reply, body));
            bytes = rest;
        }
        let Some((reply, body)) = &mut self.open else { return Ok(None) };
        let ended = match body {
            Body::Left(left) => {
                let taken = (*left).min(bytes.len() as u64);
                *left -= taken;
                reply.body_bytes += taken;
                bytes = &bytes[taken as usize..];
                *left == 0
            }
            Body::Chunks(chunks) => chunks.read(&mut bytes, &mut reply.body_bytes)?,
        };
        if !ended {
            return Ok(None);
        }
        let reply = *reply;
        self.open = None;
        if bytes.is_empty() { Ok(Some(reply)) } else { Err(Broken::Beyond) }
    }
}

/// Parses a head: the reply, its body and the head's length; `None` if it is incomplete.
fn head(bytes: &[u8], proof: &Proof) -> Result<Option<(RawReply, Body, usize)>, Broken> {
    let mut reply = RawReply { proven: *proof == Proof::Always, ..RawReply::default() };
    let mut body = None;
    let mut at = 0;
    while let Some(length) = bytes[at..].iter().position(|byte| *byte == b'\n') {
        let line = &bytes[at..at + length];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let first = at == 0;
        at += length + 1;
        if first {
            reply.status = status(line)?;
        } else if line.is_empty() {
            if matches!(reply.status, 204 | 304) {
                body = Some(Body::Left(0));
            }
            return body.map(|body| Some((reply, body, at))).ok_or(Broken::NoLength);
        } else {
            field(line, proof, &mut reply, &mut body)?;
        }
    }
    Ok(None)
}

fn status(line: &[u8]) -> Result<u16, Broken> {
    let digits = line.strip_prefix(b"HTTP/1.1 ").or_else(|| line.strip_prefix(b"HTTP/1.0 "));
    digits.and_then(|digits| number(digits.get(..3)?, 10)).map(|status| status as u16).ok_or(Broken::Malformed)
}

fn field(line: &[u8], proof: &Proof, reply: &mut RawReply, body: &mut Option<Body>) -> Result<(), Broken> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or(Broken::Malformed)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if name.eq_ignore_ascii_case(b"content-length") {
        *body = Some(Body::Left(number(value, 10).ok_or(Broken::Malformed)?));
    } else if name.eq_ignore_ascii_case(b"transfer-encoding") && value.eq_ignore_ascii_case(b"chunked") {
        *body = Some(Body::Chunks(Chunks::Size(0)));
    } else if name.eq_ignore_ascii_case(b"connection") {
        reply.closes = value.eq_ignore_ascii_case(b"close");
    }
    reply.proven |= proves(proof, name, value);
    Ok(())
}

/// True if this header is the proof.
pub(super) fn proves(proof: &Proof, name: &[u8], value: &[u8]) -> bool {
    match proof {
        Proof::Header { name: wanted, contains } => {
            name.eq_ignore_ascii_case(wanted.as_bytes()) && is_in(value, contains)
        }
        Proof::HeaderWithout { name: wanted, contains, lacks } => {
            name.eq_ignore_ascii_case(wanted.as_bytes()) && is_in(value, contains) && !is_in(value, lacks)
        }
        Proof::HeaderPresent(wanted) => name.eq_ignore_ascii_case(wanted.as_bytes()),
        Proof::Always => true,
    }
}

/// True if `value` contains `text`, ignoring case.
fn is_in(value: &[u8], text: &str) -> bool {
    value.windows(text.len().max(1)).any(|window| window.eq_ignore_ascii_case(text.as_bytes()))
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

impl Chunks {
    /// Takes what there is; returns whether the body has ended.
    fn read(&mut self, bytes: &mut &[u8], count: &mut u64) -> Result<bool, Broken> {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let Self::Data(left) = self {
                let taken = (*left).min(bytes.len() as u64);
                *count += taken;
                *bytes = &bytes[taken as usize..];
                *self = if *left == taken { Self::DataEnd } else { Self::Data(*left - taken) };
                continue;
            }
            *bytes = rest;
            *self = match (*self, byte) {
                (Self::Size(0) | Self::Extension(0), b'\n') => Self::Trailer(0),
                (Self::Size(size) | Self::Extension(size), b'\n') => Self::Data(size),
                (Self::Size(size) | Self::Extension(size), b'\r' | b';') | (Self::Extension(size), _) => {
                    Self::Extension(size)
                }
                (Self::Size(size), byte) => {
                    let digit = char::from(byte).to_digit(16).ok_or(Broken::Malformed)?;
                    Self::Size(size.checked_mul(16).ok_or(Broken::Malformed)? + u64::from(digit))
                }
                (Self::DataEnd, b'\n') => Self::Size(0),
                (Self::Trailer(0), b'\n') => return Ok(true),
                (Self::Trailer(_), b'\n') => Self::Trailer(0),
                (Self::Trailer(seen), byte) => Self::Trailer(seen + u64::from(byte != b'\r')),
                (same, _) => same,
            };
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIT: &str = "HTTP/1.1 200 OK\r\nX-Cache-Status: hit\r\nContent-Length: 5\r\n\r\nhello";

    fn nginx() -> Proof {
        Proof::Header { name: "x-cache-status".into(), contains: "HIT".into() }
    }

    #[test]
    fn reply_parses_alike_wherever_split() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nx-cache-status: HIT\r\n\r\n\
                       3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nx: y\r\n\r\n";
        let wanted = Some(RawReply { status: 200, body_bytes: 5, proven: true, closes: false });
        for text in [HIT, chunked] {
            let bytes = text.as_bytes();
            for first in 0..bytes.len() {
                for second in first..bytes.len() {
                    let mut reader = ReplyReader::default();
                    let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                    let read = pieces.map(|piece| reader.read(piece, &nginx()).unwrap());
                    assert_eq!(read, [None, None, wanted], "cut at {first} and {second}");
                }
            }
        }
    }

    #[test]
    fn successive_replies_are_proven_separately() {
        let mut reader = ReplyReader::default();
        assert!(reader.read(HIT.as_bytes(), &nginx()).unwrap().unwrap().proven);
        let miss = HIT.replace("hit", "MISS");
        assert!(!reader.read(miss.as_bytes(), &nginx()).unwrap().unwrap().proven);
        let present = Proof::HeaderPresent("X-cache-status".into());
        assert!(reader.read(miss.as_bytes(), &present).unwrap().unwrap().proven);
        let none = reader.read(b"HTTP/1.1 304 Not Modified\r\nconnection: close\r\n\r\n", &Proof::Always);
        assert_eq!(none.unwrap().unwrap(), RawReply { status: 304, body_bytes: 0, proven: true, closes: true });
    }

    #[test]
    fn provisional_hit_proves_no_fresh_hit() {
        let (name, contains) = ("cache-status".to_owned(), "; hit".to_owned());
        let fresh = Proof::HeaderWithout { name, contains, lacks: "provisional".to_owned() };
        assert!(proves(&fresh, b"Cache-Status", b"nearside; hit; ttl=3599; bound=2"));
        assert!(!proves(&fresh, b"Cache-Status", b"nearside; hit; ttl=29; detail=provisional"));
        assert!(!proves(&fresh, b"Cache-Status", b"nearside; fwd=uri-miss"));
        assert!(!proves(&fresh, b"x-cache", b"; hit"));
    }

    #[test]
    fn malformed_replies_are_errors() {
        for (text, broken) in [
            ("SSH-2.0\r\n", Broken::Malformed),
            ("HTTP/1.1 200 OK\r\n\r\n", Broken::NoLength),
            (&format!("{HIT}!"), Broken::Beyond),
            (&format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(70_000)), Broken::TooLong),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", Broken::Malformed),
        ] {
            let read = ReplyReader::default().read(text.as_bytes(), &Proof::Always);
            assert_eq!(read, Err(broken), "{text:.40}");
        }
    }
}
