//! A region: what runs in each place where readers are. A node answers them from the region's own
//! table, as a sidecar answers from regions.

mod hedge;
pub(crate) mod limits;
pub mod node;
pub mod origin;
