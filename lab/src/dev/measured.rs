//! Measurements of the story's steps: only what a caller, a region or a topic saw, never what was
//! expected.

use std::time::Duration;

use nearside::model::time::Wall;

use super::reader::{Seen, Spread};

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Story {
    /// A cold key.
    pub miss: Miss,
    /// Same key again and again.
    pub hits: StoryHits,
    /// Same records in other shapes.
    pub shapes: StoryShapes,
    /// A change in the catalogue.
    pub change: StoryChange,
    /// A change of a record that many views need.
    pub joined: StoryJoined,
    /// Cold keys while a region is switched off.
    pub dead_region: DeadRegion,
    /// Changed keys while the fastest region lags.
    pub lagging: Lagging,
    /// A changed key while no region answers.
    pub all_down: AllDown,
    /// Callers with and without grants; `None` where nobody is refused.
    pub access: Option<StoryAccess>,
    /// Duration of the whole story.
    pub took: Duration,
}

/// One region's part in a race, as the region saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryAttempt {
    pub region: String,
    /// From the request's arrival there to its reply; `None` if it did not answer.
    pub took: Option<Duration>,
    /// The version that it showed.
    pub version: Option<u64>,
}

/// Step 1: a miss.
#[derive(Clone, Debug)]
pub struct Miss {
    pub seen: Seen,
    /// The region that won, according to the label.
    pub winner: Option<String>,
    pub attempts: Vec<StoryAttempt>,
}

/// Step 2: hits.
#[derive(Clone, Copy, Debug)]
pub struct StoryHits {
    /// Requests sent, one after another.
    pub asked: usize,
    /// Requests answered from the store.
    pub hits: usize,
    /// Requests not answered with 200.
    pub failed: usize,
    pub spread: Spread,
}

/// Step 3: what callers ask for besides one record as it is.
#[derive(Clone, Debug)]
pub struct StoryShapes {
    pub json: Seen,
    pub protobuf: Seen,
    /// The fields that were asked for, and what came.
    pub fields: (&'static str, Seen),
    /// Number of cold records asked for in one request, and its reply.
    pub batch: (usize, Seen),
    /// Requests that reached each region for those.
    pub requests: Vec<(String, u64)>,
}

/// Step 4: a change.
#[derive(Clone, Debug)]
pub struct StoryChange {
    /// The view's version before the change, as the caller saw it.
    pub before: Option<u64>,
    /// The view's version from then on, as the caller saw it.
    pub version: u64,
    /// From the put until a caller saw it.
    pub visible: Duration,
    /// From the put until each region's announcement was applied and acknowledged.
    pub arrivals: Vec<(String, Option<Duration>)>,
}

/// Step 5: a view made of two records.
#[derive(Clone, Debug)]
pub struct StoryJoined {
    /// The record that was changed.
    pub shard: String,
    /// Views that were made again, of those that show it and of all others.
    pub made: usize,
    pub others: usize,
    /// Number of changes that the regions announced, together.
    pub announcements: usize,
    /// From the put until a caller saw one of them.
    pub visible: Duration,
    /// From the put until all of them were applied and acknowledged, from every region.
    pub applied: Duration,
}

/// Step 6: a region dies.
#[derive(Clone, Debug)]
pub struct DeadRegion {
    /// The region that was switched off.
    pub region: String,
    /// Cold keys asked for.
    pub asked: usize,
    /// After how many of them the region was switched off.
    pub off_after: usize,
    /// Requests not answered with 200.
    pub failed: usize,
    /// The latency before that.
    pub before: Spread,
    /// The latency from then on.
    pub during: Spread,
}

/// Step 7: a region lags.
#[derive(Clone, Debug)]
pub struct Lagging {
    /// The region that lagged and was the fastest.
    pub region: String,
    /// Changed keys asked for, half of them stored before, half cold.
    pub asked: usize,
    /// Number of races in which the lagging region answered first, with the old version.
    pub answered_first: usize,
    /// Number of callers that got the old version.
    pub old_served: usize,
    /// Requests not answered with 200.
    pub failed: usize,
    pub attempts: Vec<StoryAttempt>,
}

/// Step 8: all regions are down.
#[derive(Clone, Debug)]
pub struct AllDown {
    /// The version that was announced and that no region can deliver.
    pub announced: u64,
    /// Reply to the caller of that key.
    pub stored: Seen,
    /// Reply to a caller of another stored key.
    pub other: Seen,
    /// Reply to a caller of a cold key.
    pub cold: Seen,
    /// From the regions' return until a caller saw the announced version.
    pub recovered: Duration,
}

/// Step 9: who may read.
#[derive(Clone, Debug)]
pub struct StoryAccess {
    /// The region that was asked directly.
    pub region: String,
    /// Its reply to a caller without a token.
    pub anonymous: Seen,
    /// Its reply to a consumer that has no grant for the view.
    pub foreign: Seen,
    /// Its reply to the same consumer about the view that it has.
    pub own: Seen,
    pub stop: StoryStop,
}

/// A consumer whose rights were taken away, and given back.
#[derive(Clone, Debug)]
pub struct StoryStop {
    pub at: Wall,
    /// From then until each region refused it.
    pub regions: Vec<(String, Duration)>,
    /// From then until the sidecar refused its caller what it had stored.
    pub caller: Duration,
    /// From the return of the grant until the caller was answered again.
    pub given_back: Duration,
}

/// Event of the story, as it happens.
#[derive(Clone, Copy, Debug)]
pub enum StoryEvent<'a> {
    /// A step begins, with this title.
    Begin(&'static str),
    /// Part of a step that is done, and the whole.
    Progress(usize, usize),
    /// Step 1 is done; the others follow.
    Miss(&'a Miss),
    Hits(&'a StoryHits),
    Shapes(&'a StoryShapes),
    Change(&'a StoryChange),
    Joined(&'a StoryJoined),
    DeadRegion(&'a DeadRegion),
    Lagging(&'a Lagging),
    AllDown(&'a AllDown),
    Access(&'a StoryAccess),
}
