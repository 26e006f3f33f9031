//! The regions: one region, one try, all of them in a race, and what a reply is worth.

pub mod attempt;
pub mod budget;
pub mod connect;
pub mod health;
pub mod pass;
pub mod race;
pub mod region;
pub mod reply;
pub mod verdict;
