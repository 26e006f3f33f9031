//! What a fill brings its readers: a reply and how it was come by, or why there is none.

use std::sync::Arc;

use crate::cache::entry::Entry;
use crate::core::answer::{Attempted, Cookies};
use crate::http::exchange::Reply;
/// The label of an answer below its record's floor (R1).
pub const BELOW_FLOOR: &str = "below-floor";

/// The label of an answer about a record whose floor was dropped, or whose version jumped (R15).
pub const FLOOR_ESCAPED: &str = "floor-escaped";

/// What a fill comes to, for each of its readers.
#[derive(Clone)]
pub enum Filled {
    /// A reply that may be served.
    Got(Got),
    /// Nothing that may.
    Failed(Arc<Failed>),
    /// A good reply that is too large to hold: each reader streams its own.
    TooLarge,
    /// The bound on fills is reached.
    Busy,
}

/// A reply and how it was come by.
#[derive(Clone)]
pub struct Got {
    /// What to serve.
    pub entry: Arc<Entry>,
    /// The region's status: 304 when it confirmed what was stored.
    pub fwd_status: u16,
    /// It was stored.
    pub stored: bool,
    /// It may be given to readers who joined; otherwise only to the first.
    pub shareable: bool,
    /// Why it cannot be called fresh, if it cannot.
    pub label: Option<&'static str>,
    /// For the reader who began the fill.
    pub cookies: Cookies,
}

/// Why there is no reply.
pub struct Failed {
    /// The best real reply among the failures, to be passed on.
    pub best_error: Option<BestError>,
    /// Who was asked, and what became of each.
    pub asked: Vec<Attempted>,
    /// There were replies, all below the floor, and strict mode forbids them.
    pub below_floor: bool,
}

/// A real reply that is an error.
#[derive(Clone)]
pub struct BestError {
    /// What to serve.
    pub entry: Arc<Entry>,
    /// For the reader who began the fill.
    pub cookies: Cookies,
}

/// What there is to pass on when `reply` is the best of a race without a good one.
pub(crate) fn best_error(reply: &Reply, cookies: Cookies) -> BestError {
    BestError { entry: Arc::new(Entry::passing(reply)), cookies }
}

impl Failed {
    /// What those who ask later are told of it.
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

/// How a reader came by its fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It began the fill.
    Leader,
    /// It joined one that was under way.
    Follower,
    /// It was told of one that failed moments ago.
    Remembered,
}

impl Role {
    /// A region's cookies for this reader: those that came with an answer to its own request.
    pub fn cookies(self, cookies: &Cookies) -> Cookies {
        if self == Self::Leader { cookies.clone() } else { Cookies::NONE }
    }
}

impl Filled {
    /// The fill itself broke: a defect, answered like regions that gave nothing.
    pub(crate) fn broken() -> Self {
        Self::Failed(Arc::new(Failed { best_error: None, asked: Vec::new(), below_floor: false }))
    }
}
