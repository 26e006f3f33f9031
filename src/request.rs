//! The request path: look up, ask, answer. A sidecar runs it, and so does a region's node.
//!
//! Building it binds nothing, asks no region and starts at most the watches over a credentials file and
//! over issuers' keys. With a simulated clock, a scripted origin, a fixed hash key, one thread and an earlier call of
//! `fastrand::seed`, the same requests get the same answers.

pub mod answer;
pub mod batch;
pub(crate) mod beside;
pub mod caller;
mod churn;
mod claimant;
pub mod current;
pub mod fast_path;
pub mod found;
pub(crate) mod gated;
pub mod limits;
pub mod lookup;
pub(crate) mod pass;
mod permit_turn;
mod permitted;
mod report;
#[cfg(test)]
pub(crate) mod scripted;
pub mod sent;
pub mod serve;
pub mod settings;
mod shaping;
mod stored;
#[cfg(test)]
mod tests;
pub(crate) mod trial;
mod under_permit;
mod write;
