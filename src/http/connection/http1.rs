//! An HTTP/1.1 connection: the [`FastPath`] answers plain requests, and hyper everything else.
//!
//! A plain request whose answer is not like a stored reply is given to hyper alone, byte for byte.
//! hyper reads that one head, writes the answer, comes back for more, finds the end, and gives the
//! connection back. After anything that is not a plain request (a body, an old version, rubbish)
//! the connection belongs to hyper.
//!
//! Only one reader at a time decides where one request ends and the next begins, and only a head
//! without a body is ever cut off for hyper.

use std::future::{Future, poll_fn};
use std::pin::Pin;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::answering::Answering;
use super::fast_path::{FastPath, Next};
use super::via::Via;
use super::wire::Wire;
use crate::http::body::Body;
use crate::http::limits::{REQUEST_HEAD_BYTES, REQUEST_HEADERS};

pub(super) async fn serve<S, P, H, F>(
    mut wire: Wire<S>,
    fast_path: Option<P>,
    answering: Answering<H>,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    P: FastPath,
    H: Fn(Request<Incoming>, Via) -> F + Clone + Unpin,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_headers(REQUEST_HEADERS)
        .max_header_size(REQUEST_HEAD_BYTES)
        .max_buf_size(REQUEST_HEAD_BYTES * 2)
        .half_close(true);
    let mut kept = fast_path.map(|fast_path| fast_path.begin(answering.peer.as_ref()));
    loop {
        let next = match &mut kept {
            Some(kept) => P::answer(kept, &mut wire, answering.via).await.unwrap_or(Next::Gone),
            None => Next::All,
        };
        let (allowance, ready) = match next {
            Next::Gone => {
                wire.end().await;
                return Ok(());
            }
            Next::One(len, ready) => (Some(len), Some(ready)),
            Next::All => {
                // The fast path gets nothing of it any more: what it holds may go.
                kept = None;
                (None, None)
            }
        };
        wire.allow(allowance);
        answering.ready.put(ready);
        // Boxed: a connection that only ever hits reserves no room for it.
        let mut connection = Box::new(http.serve_connection(TokioIo::new(wire), answering.clone()));
        let mut said = false;
        poll_fn(|cx| {
            // A single request whose answer is ready is always finished, and then announces the end
            // of the connection itself.
            if !said && allowance.is_none() && answering.pulse.closes() {
                said = true;
                Pin::new(&mut *connection).graceful_shutdown();
            }
            match allowance {
                Some(_) => connection.poll_without_shutdown(cx),
                None => Pin::new(&mut *connection).poll(cx),
            }
        })
        .await?;
        wire = connection.into_parts().io.into_inner();
        if !wire.goes_on() {
            wire.end().await;
            return Ok(());
        }
    }
}
