//! Admission of operators: a peer of the operators' socket, by uid, or any that sends the token
//! over TCP. Closed by default.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use axum::http::{HeaderMap, header};

use crate::config::{Admin, UnixSocket};
use crate::http::service::ReachedBy;
use crate::http::token::{self, TokenError};

/// Who acts, as logs name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    /// A process of this user, over the socket.
    Uid(u32),
    /// Somebody who has the token.
    Token,
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uid(uid) => write!(f, "uid {uid}"),
            Self::Token => f.write_str("token"),
        }
    }
}

/// Why somebody may not act. Other settings or another caller help; a retry does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    /// Neither a socket nor a token is configured.
    #[error(
        "commands are closed here; set admin.unix to a path and use that socket, or set admin.token_file and send its \
         content as `Authorization: Bearer TOKEN`"
    )]
    Closed,
    /// There is a socket, but no token.
    #[error(
        "commands are closed on this port; use the socket that admin.unix names, or set admin.token_file and send its \
         content as `Authorization: Bearer TOKEN`"
    )]
    OnlyOnTheSocket,
    /// The socket's peer runs under another uid.
    #[error("uid {} may not use this socket; add it to admin.unix_uids", shown(*.0))]
    Uid(Option<u32>),
    /// A browser asks on behalf of a page.
    #[error("a page in a browser may not act; use nearside ctl, or any client that is no browser")]
    Browser,
    #[error("the token is missing or wrong; send the content of admin.token_file as `Authorization: Bearer TOKEN`")]
    Token,
}

fn shown(uid: Option<u32>) -> String {
    uid.map_or_else(|| "unknown".to_owned(), |uid| uid.to_string())
}

/// Credentials that a command needs. Not `Debug`: it holds the token.
pub struct Access {
    /// The uids of peers that may use the socket; `None` without one.
    uids: ArcSwapOption<Vec<u32>>,
    token: ArcSwapOption<Vec<u8>>,
}

impl Access {
    /// Follows `[admin]`, and reads the token file.
    ///
    /// # Errors
    /// If there is a token file and it cannot be used.
    pub fn new(admin: &Admin) -> Result<Self, TokenError> {
        let token = token::read("admin.token_file", admin.token_file.as_deref())?;
        let access = Self { uids: ArcSwapOption::empty(), token: ArcSwapOption::new(token.map(Arc::new)) };
        access.replace_socket(admin);
        Ok(access)
    }

    /// From now on only the peers that `admin` names may use the socket, if there is one.
    pub fn replace_socket(&self, admin: &Admin) {
        self.uids.store(admin.unix.as_ref().map(|unix| Arc::new(uids_of(unix))));
    }

    /// From now on only this token opens the commands on the port. Returns whether it differs from the
    /// old one.
    pub fn replace_token(&self, token: Option<Vec<u8>>) -> bool {
        let token = token.map(Arc::new);
        self.token.swap(token.clone()) != token
    }

    /// Checks that the peer may use the socket at all.
    pub(in crate::admin) fn welcomes(&self, peer: ReachedBy) -> Result<(), Denied> {
        match peer {
            ReachedBy::Unix(uid) => {
                let uids = self.uids.load();
                let is_named = uid.is_some_and(|uid| uids.as_ref().is_some_and(|uids| uids.contains(&uid)));
                if is_named { Ok(()) } else { Err(Denied::Uid(uid)) }
            }
            ReachedBy::Tcp(_) => Ok(()),
        }
    }

    pub(in crate::admin) fn admit(&self, peer: ReachedBy, headers: &HeaderMap) -> Result<Operator, Denied> {
        self.welcomes(peer)?;
        if let ReachedBy::Unix(Some(uid)) = peer {
            return Ok(Operator::Uid(uid));
        }
        let token = self.token.load();
        let Some(token) = &*token else {
            return Err(if self.uids.load().is_some() { Denied::OnlyOnTheSocket } else { Denied::Closed });
        };
        if is_from_a_page(headers) {
            return Err(Denied::Browser);
        }
        let sent = headers.get(header::AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
        let is_equal =
            sent.is_some_and(|sent| aws_lc_rs::constant_time::verify_slices_are_equal(sent, token).is_ok());
        if is_equal { Ok(Operator::Token) } else { Err(Denied::Token) }
    }
}

/// Uids of the peers that may use the socket: this process's own unless some are named.
fn uids_of(unix: &UnixSocket) -> Vec<u32> {
    if unix.uids.is_empty() { vec![rustix::process::geteuid().as_raw()] } else { unix.uids.clone() }
}

/// Browsers send these headers themselves, and a page cannot set or remove them. The token would
/// stop it anyway.
fn is_from_a_page(headers: &HeaderMap) -> bool {
    let fetched = headers.get("sec-fetch-site").is_some_and(|site| site.as_bytes() != b"none");
    fetched || headers.contains_key(header::ORIGIN)
}

/// The token in `Bearer TOKEN`; the scheme's case does not matter (RFC 9110, 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::UnixSocket;

    const OPEN: &[(&str, &str)] = &[("authorization", "Bearer s3cret")];

    fn access(uids: Option<&[u32]>, token: Option<&str>) -> Access {
        let unix = uids.map(|uids| UnixSocket { path: "/run/admin.sock".into(), mode: 0o600, uids: uids.to_vec() });
        let admin = Admin { listen: ([127, 0, 0, 1], 0).into(), unix, ..Default::default() };
        let access = Access::new(&admin).unwrap();
        access.replace_token(token.map(|token| token.as_bytes().to_vec()));
        access
    }

    fn admit(access: &Access, peer: ReachedBy, headers: &[(&'static str, &'static str)]) -> Result<Operator, Denied> {
        let headers = headers.iter().map(|(name, value)| {
            (axum::http::HeaderName::from_static(name), axum::http::HeaderValue::from_static(value))
        });
        access.admit(peer, &headers.collect())
    }

    #[test]
    fn commands_need_socket_or_token() {
        let access = access(None, None);
        for headers in [&[][..], OPEN] {
            let denied = admit(&access, ReachedBy::Tcp(None), headers).unwrap_err();
            assert_eq!(denied, Denied::Closed);
            let reported = denied.to_string();
            assert!(reported.contains("admin.unix") && reported.contains("admin.token_file"), "{reported}");
        }
    }

    #[test]
    fn socket_alone_leaves_port_closed() {
        let access = access(Some(&[7]), None);
        assert_eq!(admit(&access, ReachedBy::Tcp(None), OPEN), Err(Denied::OnlyOnTheSocket));
        assert_eq!(admit(&access, ReachedBy::Unix(Some(7)), &[]), Ok(Operator::Uid(7)));
    }

    #[test]
    fn socket_admits_named_or_own_uid() {
        let own = rustix::process::geteuid().as_raw();
        let named = access(Some(&[own + 1]), Some("s3cret"));
        assert_eq!(admit(&named, ReachedBy::Unix(Some(own)), OPEN), Err(Denied::Uid(Some(own))));
        assert_eq!(admit(&named, ReachedBy::Unix(None), OPEN), Err(Denied::Uid(None)));
        let unnamed = access(Some(&[]), None);
        assert_eq!(admit(&unnamed, ReachedBy::Unix(Some(own)), &[]), Ok(Operator::Uid(own)));
        assert_eq!(admit(&unnamed, ReachedBy::Unix(Some(own + 1)), &[]), Err(Denied::Uid(Some(own + 1))));
    }

    #[test]
    fn port_needs_exact_token() {
        let access = access(None, Some("s3cret"));
        for right in ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret"] {
            assert_eq!(
                admit(&access, ReachedBy::Tcp(None), &[("authorization", right)]),
                Ok(Operator::Token),
                "{right}"
            );
        }
        for wrong in ["Bearer s3cre", "Bearer s3crets", "Bearer", "Bearer ", "Basic s3cret", "s3cret", ""] {
            assert_eq!(
                admit(&access, ReachedBy::Tcp(None), &[("authorization", wrong)]),
                Err(Denied::Token),
                "{wrong}"
            );
        }
        assert_eq!(admit(&access, ReachedBy::Tcp(None), &[("x-nearside-token", "s3cret")]), Err(Denied::Token));
    }

    #[test]
    fn browser_page_with_token_is_refused() {
        let access = access(None, Some("s3cret"));
        for of_a_browser in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
            assert_eq!(admit(&access, ReachedBy::Tcp(None), &[OPEN[0], of_a_browser]), Err(Denied::Browser));
        }
    }
}
