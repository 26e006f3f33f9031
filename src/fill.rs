//! Fills: a representation is asked of the regions once for all who want it, judged, stored, and
//! asked for again where it must be.
//!
//! [`settings`] says what fills share, [`flight`] who shares a fill, [`routed`] what one does. What
//! follows a fill later ([`background`], [`audit`]) stands above them.

pub mod ask;
pub mod audit;
pub mod auditor;
pub mod background;
pub(crate) mod compare;
pub mod effects;
mod errors;
pub mod files;
pub mod flight;
pub mod flights;
mod leader;
mod lending;
pub(crate) mod lent;
pub mod limits;
mod log_limits;
pub mod memory;
pub(crate) mod orders;
pub mod outcome;
mod pending;
pub mod permits;
pub(crate) mod prepare;
pub mod purge;
mod routed;
mod run;
pub mod settings;
pub(crate) mod stored;
#[cfg(test)]
mod tests;
mod unrouted;
