//! The regions: one region, one try, all of them in a race, and what a reply is worth.

pub mod attempt;
pub mod budget;
mod connect;
mod drained;
pub mod health;
mod incoming;
mod line;
mod pass;
pub mod plan;
pub mod race;
pub mod region;
mod renewal;
pub mod reply;
#[cfg(test)]
mod scripted;
mod tls;
mod two;
pub mod verdict;
