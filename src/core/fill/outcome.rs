//! What a fill gives its readers: a reply and how it was obtained, or why there is none.

use std::sync::Arc;

use crate::cache::entry::Entry;
use crate::core::answer::{Attempted, Cookies};
use crate::core::floors;
use crate::http::exchange::Reply;
use crate::model::ids::Version;
use crate::protocol::label::Label;

/// The result of a fill, for each of its readers.
#[derive(Clone)]
pub enum Filled {
    Got(Got),
    Failed(Arc<Failed>),
    /// A good reply that is too large to hold: each reader streams its own.
    TooLarge,
    /// The same for want of memory: later it may be held.
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
    /// Whether readers who joined may have it, or only the first.
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
    /// There were replies, all below the floor, and strict mode forbids them.
    pub below_floor: bool,
}

#[derive(Clone)]
pub struct BestError {
    pub entry: Arc<Entry>,
    /// For the reader who began the fill.
    pub cookies: Cookies,
}

/// What to pass on when `reply` is the best of a race without a good one.
pub(crate) fn best_error(reply: &Reply, cookies: Cookies) -> BestError {
    BestError { entry: Arc::new(Entry::passing(reply)), cookies }
}

impl Failed {
    /// What later readers are told of it: without the first reader's cookies.
    pub(crate) fn for_others(self: &Arc<Self>) -> Arc<Self> {
        match &self.best_error {
            Some(error) if !error.cookies.is_empty() => {
                let best_error = Some(BestError { entry: error.entry.clone(), cookies: Cookies::NONE });
                Arc::new(Self { best_error, asked: self.asked.clone(), below_floor: self.below_floor })
            }
            _ => self.clone(),
        }
    }
}

/// How a reader got its fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leader,
    Follower,
    /// It was told of one that failed moments ago.
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
    /// Whether it shows each record at this version or a newer one. What is no reply would not get
    /// better by asking again.
    pub(crate) fn meets(&self, floor: &[Version]) -> bool {
        match self {
            Self::Got(got) => floors::are_met(floor, &got.entry),
            Self::Failed(_) | Self::TooLarge | Self::NoRoom | Self::Busy => true,
        }
    }

    /// The fill itself broke. This is a defect, answered like regions that gave nothing.
    pub(crate) fn broken() -> Self {
        Self::Failed(Arc::new(Failed { best_error: None, asked: Vec::new(), below_floor: false }))
    }
}
