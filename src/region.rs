//! A region: the ingester takes changes of views from the feed into the region's table and
//! announces them; nodes answer readers from that table, as a sidecar answers from regions.

mod copy;
pub mod exposition;
pub mod grants;
mod hedge;
pub mod ingest;
pub(crate) mod limits;
pub mod node;
pub mod origin;
pub mod publisher;
pub mod sweep;
