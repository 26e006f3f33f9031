//! Outcome of a fill for its readers: a reply and its origin, or the reason for having none.

use std::sync::Arc;

use crate::cache::entry::Entry;
use crate::config::Route;
use crate::http::exchange::Reply;
use crate::model::ids::Version;
use crate::protocol::label::Label;
use crate::race::attempted::Attempted;
use crate::race::floors;
use crate::shape::cookies::Cookies;

/// The result of a fill, for each of its readers.
#[derive(Clone)]
pub enum Filled {
    Got(Got),
    Failed(Arc<Failed>),
    /// A good reply that is too large to hold: each reader streams its own.
    TooLarge,
    /// Too large for the memory left: later it may be held.
    NoRoom,
    /// The bound on fills is reached.
    Busy,
}

/// A reply and how it was obtained.
#[derive(Clone)]
pub struct Got {
    pub entry: Arc<Entry>,
    /// The region's status: 304 when it confirmed what was stored.
    pub fwd_status: u16,
    pub stored: bool,
    /// True if readers who joined may have it, not only the first.
    pub shareable: bool,
    /// Why it cannot be called fresh, if it cannot.
    pub label: Option<Label>,
    /// For the reader who began the fill.
    pub cookies: Cookies,
}

pub struct Failed {
    /// The best real reply among the failures, to be passed on.
    pub best_error: Option<BestError>,
    /// Who was asked, and the outcome of each.
    pub asked: Vec<Attempted>,
    pub lack: Lack,
}

/// Reason for which a fill has nothing to give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lack {
    /// A reply that could be given to anybody.
    #[default]
    Answers,
    /// A reply at the floor: all were below it, and strict mode forbids them.
    NewerContent,
    /// A region that knows the newest grants: older ones allowed it, and must not decide (R22).
    Grants,
}

#[derive(Clone)]
pub struct BestError {
    pub entry: Arc<Entry>,
    /// For the reader who began the fill.
    pub cookies: Cookies,
}

/// Error to pass on when `reply` is the best of a race without a good one.
pub(crate) fn best_error(reply: &Reply, cookies: Cookies) -> BestError {
    BestError { entry: Arc::new(Entry::passing(reply)), cookies }
}

impl Failed {
    /// Copy for later readers: without the first reader's cookies.
    pub(crate) fn for_others(self: &Arc<Self>) -> Arc<Self> {
        match &self.best_error {
            Some(error) if !error.cookies.is_empty() => {
                let best_error = Some(BestError { entry: error.entry.clone(), cookies: Cookies::NONE });
                Arc::new(Self { best_error, asked: self.asked.clone(), lack: self.lack })
            }
            _ => self.clone(),
        }
    }
}

/// Role of a reader in its fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leader,
    Follower,
    /// It got the result of one that failed moments ago.
    Remembered,
}

impl Role {
    /// The region's cookies for this reader: only those that came with the answer to its own
    /// request.
    pub fn cookies(self, cookies: &Cookies) -> Cookies {
        if self == Self::Leader { cookies.clone() } else { Cookies::NONE }
    }
}

impl Filled {
    /// True if it shows each record at this version or a newer one, or is no reply: asking again
    /// would not improve it.
    pub(crate) fn meets(&self, floor: &[Version]) -> bool {
        match self {
            Self::Got(got) => floors::are_met(floor, &got.entry),
            Self::Failed(_) | Self::TooLarge | Self::NoRoom | Self::Busy => true,
        }
    }

    /// True if regions answered the reader who asked, and nobody else: where each caller asks for itself,
    /// another one may get something better.
    pub(crate) fn is_for_its_reader(&self) -> bool {
        match self {
            Self::Failed(failed) => failed.best_error.is_some() || failed.lack == Lack::Grants,
            Self::Got(got) => !got.shareable,
            Self::TooLarge | Self::NoRoom | Self::Busy => false,
        }
    }

    /// The fill itself broke. This is a defect, answered like regions that gave nothing.
    pub(crate) fn broken() -> Self {
        Self::Failed(Arc::new(Failed { best_error: None, asked: Vec::new(), lack: Lack::Answers }))
    }
}

/// The cookies that a reply brings for the caller whose request it answers. What a region sets for
/// the sidecar's own credentials is for no caller.
pub(crate) fn cookies_for(reply: &Reply, route: &Route) -> Cookies {
    if route.identity.own().is_some() { Cookies::NONE } else { Cookies::of(&reply.headers) }
}
