//! Notices of the http transport's endpoint to a region's lifecycle.

use tokio::sync::mpsc;

use crate::model::time::Wall;

/// Notice of the endpoint to a region's lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// ConfirmSubscription succeeded.
    Confirmed,
    /// A verified UnsubscribeConfirmation came, published at this time.
    Unsubscribed(Wall),
}

/// Resolves when the endpoint has given the awaited notice. Others are late or replayed, and are
/// skipped.
pub(super) async fn awaited(notices: &mut mpsc::Receiver<Notice>, is_awaited: impl Fn(Notice) -> bool) {
    loop {
        match notices.recv().await {
            Some(notice) if is_awaited(notice) => return,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}
