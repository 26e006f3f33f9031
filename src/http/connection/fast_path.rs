//! The seam for what answers plain requests before hyper reads them.

use std::future::Future;
use std::io;
use std::sync::Arc;

use http::Response;
use tokio::io::{AsyncRead, AsyncWrite};

use super::via::Via;
use super::wire::Wire;
use crate::http::body::Body;
use crate::http::server_tls::peer::PeerCertificate;

/// Answers plain HTTP/1.1 requests before hyper reads them.
pub trait FastPath: Clone + Send + Sync + 'static {
    /// State that one connection keeps from a request to the next.
    type Kept: Send;

    /// Begins a connection, whose caller may have presented a certificate.
    fn begin(&self, peer: Option<&Arc<PeerCertificate>>) -> Self::Kept;

    /// Answers until a request comes that is not plain, or whose answer hyper has to write.
    fn answer<S>(
        kept: &mut Self::Kept,
        wire: &mut Wire<S>,
        via: Via,
    ) -> impl Future<Output = io::Result<Next>> + Send
    where
        S: AsyncRead + AsyncWrite + Unpin + Send;
}

/// Next step for a connection after its fast path.
pub enum Next {
    Gone,
    /// The next request is plain and has this many bytes, and hyper has to write this answer to it.
    /// Then the connection returns to the fast path.
    One(usize, Box<Response<Body>>),
    /// hyper handles it from here on.
    All,
}
