//! Writes a stored reply to an HTTP/1.1 connection byte for byte, as [`crate::request::answer::show`]
//! and hyper would; a test compares the two. The stated length is that of the body that follows,
//! whatever the region stated.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

use crate::config::grants_version::GRANTS_VERSION;
use crate::http::fields::belongs_in_not_modified;
use crate::request::answer::states_length;
use crate::request::gated::is_stated;
use crate::shape::cache_status::CACHE_STATUS;
use crate::shape::shown::Shown;

/// Appends the answer to `out`; at a node with the grants that it states. Returns a body that is better sent from where it lies, right after
/// `out`.
#[must_use]
pub fn put(shown: &Shown, stated: Option<&HeaderValue>, names: &[String], out: &mut Vec<u8>) -> Option<Bytes> {
    let Shown { entry, age, not_modified, head, cookies, line, .. } = shown;
    put_status(if *not_modified { StatusCode::NOT_MODIFIED } else { entry.status }, out);
    let content = shown.content();
    if *not_modified {
        for (name, value) in content.lines().filter(|(name, _)| belongs_in_not_modified(name)) {
            put_line(name, value, out);
        }
    } else {
        out.extend_from_slice(content.wire());
    }
    let silent = *not_modified || !states_length(entry.status);
    if !silent {
        put_line(b"content-length", itoa::Buffer::new().format(content.body_len()).as_bytes(), out);
    }
    if !cookies.is_empty() {
        cookies.values().for_each(|cookie| put_line(b"set-cookie", cookie.as_bytes(), out));
    }
    if let Some(age) = age {
        put_line(b"age", itoa::Buffer::new().format(*age).as_bytes(), out);
    }
    if let Some(stated) = stated.filter(|_| is_stated(entry.status)) {
        put_line(GRANTS_VERSION.as_str().as_bytes(), stated.as_bytes(), out);
    }
    out.extend_from_slice(CACHE_STATUS.as_str().as_bytes());
    out.extend_from_slice(b": ");
    line.put(names, out);
    out.extend_from_slice(b"\r\n\r\n");
    if silent || *head {
        return None;
    }
    match content.to_copy() {
        Ok(body) => {
            out.extend_from_slice(body);
            None
        }
        Err(apart) => Some(apart.clone()),
    }
}

fn put_status(status: StatusCode, out: &mut Vec<u8>) {
    if status == StatusCode::OK {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    // What hyper writes for a status without a name.
    out.extend_from_slice(status.canonical_reason().unwrap_or("<none>").as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn put_line(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
