//! The list of what is measured. A scenario starts its own subjects and leaves none behind.

use crate::bench::error::BenchError;
use crate::bench::result::Scenario;
use crate::bench::session::Bench;

mod announced;
mod batch;
mod fields;
mod hit;
mod ingest;
mod live;
mod million;
mod miss;
mod node;
mod payload;
mod put_to_caller;
mod ratios;
mod redb;
mod start;
mod trouble;

pub(crate) type Measure = fn(&mut Bench<'_>) -> Result<Scenario, BenchError>;

/// All scenarios, in the order of the report.
pub(crate) const ALL: [(&str, Measure); 23] = [
    ("hit-1k", hit::one_kib),
    ("hit-1k-rate", hit::at_one_rate),
    ("hit-1k-one", hit::one_connection),
    ("hit-100k", hit::large),
    ("hit-unix", hit::unix),
    ("hit-h2c", hit::h2c),
    ("hot-10k", hit::hot),
    ("batch", batch::hot),
    ("fields", fields::hot),
    ("miss", miss::fastest),
    ("miss-tail", miss::tail),
    ("start", start::start),
    ("live", live::live),
    ("announced", announced::rates),
    ("million", million::entries),
    ("dying", trouble::dying),
    ("stampede", trouble::stampede),
    ("node-hit", node::hits),
    ("node-miss", node::misses),
    ("ingest", ingest::rates),
    ("put-to-caller", put_to_caller::hops),
    ("redb-million", redb::million),
    ("payload", payload::costs),
];
