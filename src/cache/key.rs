//! The key that tells representations apart: entries are stored under it, and fills are shared by
//! it.
//!
//! Two requests have the same key only if every part is the same; each part goes in with its
//! length. The method is not part of a key under which something is stored, because HEAD is
//! answered from what GET stored; only [`KeyBuffer::whole_request`] has it. The hash is computed
//! once, under the [`HashKey`] of this process, because callers choose what it covers. A lookup
//! allocates nothing beyond one reusable buffer.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher128};

use crate::cache::limits;
use crate::model::ids::RouteId;

#[cfg(test)]
mod tests;

/// The hash key of this process, which is secret, so that no caller can choose keys that collide.
#[derive(Clone, Copy)]
pub struct HashKey(u64, u64);

impl HashKey {
    /// Drawn from the standard library's source of randomness.
    pub fn random() -> Self {
        let random = RandomState::new();
        Self(random.hash_one(0_u8), random.hash_one(1_u8))
    }

    /// For tests and simulations that must repeat.
    pub const fn fixed(number: u64) -> Self {
        Self(number, !number)
    }

    /// Key of another hash, by its number: who sees hashes under one learns nothing of the others.
    pub(crate) fn derived(self, number: u64) -> (u64, u64) {
        let mut hasher = SipHasher128::new_with_keys(self.0, self.1);
        hasher.write_u64(number);
        hasher.finish128().as_u64()
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(..)")
    }
}

/// An owned key. Clones share the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    hash: u64,
    bytes: Arc<[u8]>,
}

/// A borrowed key, from a [`KeyBuffer`] or from what is stored under it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyRef<'a> {
    hash: u64,
    bytes: &'a [u8],
}

impl Key {
    pub fn as_ref(&self) -> KeyRef<'_> {
        KeyRef { hash: self.hash, bytes: &self.bytes }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// A key of its own for what is remembered under this one and `more`, which is a keyed hash.
    pub(crate) fn extended(&self, more: &[u8; 16]) -> Self {
        let hash = more.chunks_exact(8).fold(self.hash, |hash, chunk| {
            hash.rotate_left(7) ^ u64::from_le_bytes(chunk.try_into().unwrap_or_default())
        });
        Self { hash, bytes: [&self.bytes[..], more].concat().into() }
    }

    /// False: every key starts with its kind. Clippy wants it beside `len`.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl<'a> KeyRef<'a> {
    /// The key of a stored entry, which holds `bytes` itself.
    pub(super) const fn kept(hash: u64, bytes: &'a [u8]) -> Self {
        Self { hash, bytes }
    }

    /// The bytes to store with the entry.
    pub const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    pub fn to_key(self) -> Key {
        Key { hash: self.hash, bytes: self.bytes.into() }
    }

    /// The path and query, as the caller wrote them.
    pub fn target(&self) -> &str {
        let begin = size_of::<u8>() + size_of::<u32>();
        let length =
            self.bytes.get(1..begin).map_or(0, |length| u32::from_le_bytes(length.try_into().unwrap_or_default()));
        let target = self.bytes.get(begin..begin + length as usize).unwrap_or_default();
        std::str::from_utf8(target).expect("a key's first part was a string")
    }

    /// The hash under the process's [`HashKey`], for the few places that spread work by it.
    pub const fn hash(self) -> u64 {
        self.hash
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Shows no content: keys hold what callers asked for, which must not reach a log or an error.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl fmt::Debug for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:016x})", self.hash)
    }
}

/// The parts of a routed representation's key.
#[derive(Clone, Copy, Debug)]
pub struct Representation<'a> {
    /// The route's id ([`crate::routing::router`]).
    pub route: RouteId,
    /// Exactly as the caller wrote it.
    pub path_and_query: &'a str,
    /// The caller's headers. Only `Accept`, `Accept-Encoding` and the forwarded ones count.
    pub headers: &'a HeaderMap,
    pub forward: &'a [HeaderName],
    /// The route knows the form that is asked for: `Accept` does not count.
    pub is_form_known: bool,
    /// Without a content coding, whatever the caller accepts: the reply is transformed here.
    pub is_uncoded: bool,
    /// Whose reply it is; one constant where all who may read share it.
    pub identity: u128,
}

/// The kind of a key: its first byte.
#[derive(Clone, Copy)]
enum Kind {
    Routed = 0,
    Primary = 1,
    Variant = 2,
    Request = 3,
}

/// Builds keys. Its memory is reused for the next key on its thread.
#[derive(Debug)]
pub struct KeyBuffer {
    hash_key: HashKey,
    bytes: Vec<u8>,
}

thread_local! {
    /// The memory of this thread's last key.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Drop for KeyBuffer {
    fn drop(&mut self) {
        if self.bytes.capacity() <= limits::SPARE_KEY_BYTES {
            // The thread may be ending and its storage gone; then the memory has no further use.
            let _ = SPARE.try_with(|spare| spare.set(std::mem::take(&mut self.bytes)));
        }
    }
}

impl KeyBuffer {
    /// An empty buffer, in the memory of this thread's last one.
    pub fn new(hash_key: HashKey) -> Self {
        Self { hash_key, bytes: SPARE.try_with(Cell::take).unwrap_or_default() }
    }

    pub fn routed(&mut self, parts: Representation<'_>) -> KeyRef<'_> {
        self.begin(Kind::Routed, parts.path_and_query);
        self.put_tail(parts);
        self.finish()
    }

    /// The part of [`KeyBuffer::routed`]'s key that does not depend on the path: the same for
    /// everything one caller asks of one route.
    pub fn tail(&mut self, parts: Representation<'_>) -> &[u8] {
        self.bytes.clear();
        self.put_tail(parts);
        &self.bytes
    }

    /// Returns the key of [`KeyBuffer::routed`], built from a path and the [`KeyBuffer::tail`] of
    /// the rest.
    pub fn routed_with(&mut self, path_and_query: &str, tail: &[u8]) -> KeyRef<'_> {
        self.begin(Kind::Routed, path_and_query);
        self.bytes.extend_from_slice(tail);
        self.finish()
    }

    fn put_tail(&mut self, parts: Representation<'_>) {
        self.bytes.extend_from_slice(&u64::from(parts.route.0).to_le_bytes());
        self.bytes.extend_from_slice(&parts.identity.to_le_bytes());
        let codings = if parts.is_uncoded { AcceptEncoding::default() } else { AcceptEncoding::of(parts.headers) };
        self.bytes.push(codings.0);
        if parts.is_form_known {
            // Marker that no real line count equals.
            self.put_len(u32::MAX as usize);
        } else {
            self.put_header(parts.headers, &header::ACCEPT);
        }
        for name in parts.forward {
            self.put_header(parts.headers, name);
        }
    }

    /// An unrouted URI's primary key (RFC 9111, 2). The stored reply itself is under it if it does
    /// not vary, otherwise the record of how it varies.
    pub fn primary(&mut self, path_and_query: &str) -> KeyRef<'_> {
        self.begin(Kind::Primary, path_and_query);
        self.finish()
    }

    /// The key of the representation that `headers` select among those whose `Vary` nominates
    /// `names` (RFC 9111, 4.1). Values are compared line by line, ignoring surrounding space.
    pub fn variant(&mut self, path_and_query: &str, names: &[HeaderName], headers: &HeaderMap) -> KeyRef<'_> {
        self.begin(Kind::Variant, path_and_query);
        self.put_len(names.len());
        for name in names {
            self.put_bytes(name.as_str().as_bytes());
            if *name == header::HOST {
                // Regions get their own, whatever the caller's is.
                self.put_len(0);
            } else {
                self.put_header(headers, name);
            }
        }
        self.finish()
    }

    /// Key of one whole request: method, target and every header not in `except`, in any order.
    /// Fills of unrouted URIs share it while their `Vary` is unknown; a foreign read uses it only
    /// as a name.
    pub fn whole_request(
        &mut self,
        method: &Method,
        path_and_query: &str,
        headers: &HeaderMap,
        except: &[HeaderName],
    ) -> KeyRef<'_> {
        self.begin(Kind::Request, path_and_query);
        self.put_bytes(method.as_str().as_bytes());
        let mut names: Vec<_> = headers.keys().filter(|name| !except.contains(name)).collect();
        names.sort_unstable_by(|left, right| left.as_str().cmp(right.as_str()));
        self.put_len(names.len());
        for name in names {
            self.put_bytes(name.as_str().as_bytes());
            self.put_header(headers, name);
        }
        self.finish()
    }

    fn begin(&mut self, kind: Kind, path_and_query: &str) {
        self.bytes.clear();
        self.bytes.push(kind as u8);
        self.put_bytes(path_and_query.as_bytes());
    }

    fn put_len(&mut self, len: usize) {
        // Heads and targets are bounded far below this (`limits`), so the length always fits.
        self.bytes.extend_from_slice(&(len as u32).to_le_bytes());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_len(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    fn put_header(&mut self, headers: &HeaderMap, name: &HeaderName) {
        let lines = headers.get_all(name);
        self.put_len(lines.iter().count());
        for line in lines {
            self.put_bytes(line.as_bytes().trim_ascii());
        }
    }

    fn finish(&self) -> KeyRef<'_> {
        let hash = SipHasher13::new_with_keys(self.hash_key.0, self.hash_key.1).hash(&self.bytes);
        KeyRef { hash, bytes: &self.bytes }
    }
}

/// The content codings that a caller accepts, among those worth telling apart. This is the normal
/// form of `Accept-Encoding`, used in the key of routed representations and in requests to regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptEncoding(u8);

const CODINGS: [&str; 3] = ["br", "gzip", "zstd"];

impl AcceptEncoding {
    /// Those of `br`, `gzip` and `zstd` that `headers` accept with a weight above zero (RFC 9110,
    /// 12.5.3). `*` stands for those not named. A missing header accepts none.
    pub fn of(headers: &HeaderMap) -> Self {
        let (mut taken, mut named, mut others) = (0, 0, false);
        for line in headers.get_all(header::ACCEPT_ENCODING) {
            for item in line.to_str().unwrap_or_default().split(',') {
                let (coding, parameters) = item.split_once(';').unwrap_or((item, ""));
                let coding = coding.trim();
                let wanted = weight_above_zero(parameters);
                let known = CODINGS.iter().position(|name| {
                    name.eq_ignore_ascii_case(coding) || *name == "gzip" && coding.eq_ignore_ascii_case("x-gzip")
                });
                if coding == "*" {
                    others = wanted;
                } else if let Some(place) = known {
                    let bit = 1 << place;
                    named |= bit;
                    taken = if wanted { taken | bit } else { taken & !bit };
                }
            }
        }
        Self(if others { taken | (0b111 & !named) } else { taken })
    }

    pub const fn has_zstd(self) -> bool {
        self.0 & 0b100 != 0
    }

    /// The header that asks a region for exactly these codings; `None` if the caller accepts none
    /// of them.
    pub const fn header(self) -> Option<HeaderValue> {
        let text = match self.0 {
            0b001 => "br",
            0b010 => "gzip",
            0b011 => "br, gzip",
            0b100 => "zstd",
            0b101 => "br, zstd",
            0b110 => "gzip, zstd",
            0b111 => "br, gzip, zstd",
            _ => return None,
        };
        Some(HeaderValue::from_static(text))
    }
}

/// True if the weight (`q=`) is missing, or is anything but zero.
fn weight_above_zero(parameters: &str) -> bool {
    let weight = parameters
        .split(';')
        .filter_map(|parameter| parameter.split_once('='))
        .find_map(|(name, value)| name.trim().eq_ignore_ascii_case("q").then(|| value.trim()));
    weight.is_none_or(|weight| weight.parse().unwrap_or(1.0_f32) > 0.0)
}
