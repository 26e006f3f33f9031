//! A world to run against: catalogue, regions, topics and chaos, embedded by `nearside dev`.

pub mod catalogue;
pub mod chaos;
pub mod demo;
pub mod region;
pub mod topic;
