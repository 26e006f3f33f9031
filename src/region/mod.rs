//! A region: the ingester takes changes of views from the feed into the region's table and
//! announces them; nodes answer reads.

pub mod ingest;
pub mod limits;
pub mod publisher;
