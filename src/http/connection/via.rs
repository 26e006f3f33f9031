//! The listeners by which requests reach us.

/// Way by which a request came in; decides which checks apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A TCP port: `Host` is checked.
    Tcp,
    /// The Unix socket: the peer's uid was checked instead.
    Unix,
}
