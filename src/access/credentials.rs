//! Credentials of a request: its header lines, and the certificate of its connection.

use http::HeaderMap;

use crate::http::server_tls::peer::PeerCertificate;

/// Everything by which a caller may prove who it is.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'r> {
    pub headers: &'r HeaderMap,
    /// Proven to be the caller's; whether anybody vouches for it is another matter.
    pub certificate: Option<&'r PeerCertificate>,
}

impl<'r> Credentials<'r> {
    #[must_use]
    pub const fn of(headers: &'r HeaderMap, certificate: Option<&'r PeerCertificate>) -> Self {
        Self { headers, certificate }
    }
}
