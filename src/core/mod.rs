//! What a sidecar does with a request, and a region's node will: look up, fill, race, answer.

mod actions;
pub mod answer;
pub mod fast_path;
pub mod fill;
pub mod identity;
pub mod limits;
pub mod lookup;
pub mod race;
pub mod router;
#[cfg(test)]
pub(crate) mod scripted;
pub mod sidecar;
