//! Owns messages as they are on the wire: writing a request, reading what comes, whole or cut
//! short.

use std::path::Path;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;

use super::TIMEOUT;

/// A request or a reply as it was on the wire.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    /// Request line or status line.
    pub(crate) first_line: String,
    /// Header lines in the order and the letter case of the wire.
    pub(crate) headers: Vec<(String, String)>,
    /// Without its framing.
    pub(crate) body: Vec<u8>,
    /// Both ends of a chunked or counted body were there.
    pub(crate) complete: bool,
}

impl Message {
    /// The status of a reply.
    pub(crate) fn status(&self) -> u16 {
        self.first_line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// The target of a request.
    pub(crate) fn target(&self) -> &str {
        self.first_line.split(' ').nth(1).unwrap_or_default()
    }

    /// The method of a request.
    pub(crate) fn method(&self) -> &str {
        self.first_line.split(' ').next().unwrap_or_default()
    }

    /// All lines of a header.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.headers.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value.as_str()).collect()
    }

    /// A header's first line; empty when there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.all(name).first().copied().unwrap_or_default()
    }

    /// True if a header is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        !self.all(name).is_empty()
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of text")
    }

    /// The sidecar's member of `Cache-Status`: the last line.
    pub(crate) fn label(&self) -> &str {
        self.all("cache-status").last().copied().unwrap_or_default()
    }

    /// One parameter of it: `Some("")` for one without a value.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let mut parts =
            self.label().split(';').skip(1).map(|part| part.trim().split_once('=').unwrap_or((part.trim(), "")));
        parts.find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Answered from the store, without asking a region.
    pub(crate) fn is_hit(&self) -> bool {
        self.parameter("hit").is_some()
    }
}

/// Reads one message; `None` when the stream ends before its first byte. `bodiless` is for replies
/// to HEAD.
pub(crate) async fn read_message(stream: &mut (impl AsyncRead + Unpin), bodiless: bool) -> Option<Message> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) if head.is_empty() => return None,
            Err(_) => return Some(Message { first_line: lossy(&head), ..Message::default() }),
        }
    }
    let text = lossy(&head);
    let mut lines = text.trim_end().split("\r\n");
    let first_line = lines.next().unwrap_or_default().to_owned();
    let pairs = lines.filter_map(|line| line.split_once(':'));
    let headers = pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    let mut message = Message { first_line, headers, ..Message::default() };
    let reply = message.first_line.starts_with("HTTP/");
    let without_body = bodiless || matches!(message.status(), 100..=199 | 204 | 304) && reply;
    let length = message.header("content-length").parse::<usize>().ok();
    message.complete = if without_body {
        true
    } else if message.has("transfer-encoding") {
        read_chunks(stream, &mut message.body).await
    } else if let Some(length) = length {
        read_some(stream, length, &mut message.body).await
    } else if reply {
        stream.read_to_end(&mut message.body).await.is_ok()
    } else {
        true
    };
    Some(message)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn read_some(stream: &mut (impl AsyncRead + Unpin), length: usize, body: &mut Vec<u8>) -> bool {
    stream.take(length as u64).read_to_end(body).await.is_ok_and(|read| read == length)
}

async fn read_chunks(stream: &mut (impl AsyncRead + Unpin), body: &mut Vec<u8>) -> bool {
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let Ok(byte) = stream.read_u8().await else { return false };
            line.push(byte);
        }
        let Ok(size) = usize::from_str_radix(lossy(&line).trim(), 16) else { return false };
        if !read_some(stream, size, body).await || !read_some(stream, 2, &mut Vec::new()).await {
            return false;
        }
        if size == 0 {
            return true;
        }
    }
}

/// A request's bytes; `Host` is loopback unless a line says otherwise.
pub(crate) fn request(method: &str, target: &str, lines: &[&str], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    if !lines.iter().any(|line| line.to_ascii_lowercase().starts_with("host:")) {
        head.push_str("Host: 127.0.0.1\r\n");
    }
    for line in lines {
        head.push_str(line);
        head.push_str("\r\n");
    }
    if !body.is_empty() {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

/// Writes `bytes` and reads one reply; `None` when the connection ends without one.
pub(crate) async fn exchange<S>(stream: &mut S, bytes: &[u8], head: bool) -> Option<Message>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let talk = async {
        // A sidecar that refuses may close before it has read all: its answer is what counts.
        let _refused = stream.write_all(bytes).await;
        read_message(stream, head).await
    };
    tokio::time::timeout(TIMEOUT, talk).await.expect("an answer, or an end")
}

/// A connection to a Unix socket.
pub(crate) async fn connect_unix(path: &Path) -> UnixStream {
    UnixStream::connect(path).await.unwrap()
}

/// Everything that still comes, to the end of the connection.
pub(crate) async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end too.
    let _reset = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut bytes)).await.expect("an end");
    bytes
}
