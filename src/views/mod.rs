//! The views service: makes from the catalogue's records what each use case sees, and keeps it
//! true. A change of a record is only a trigger: [`mapper`] reads everything anew and writes what
//! it makes of it, if that is newer than what is there.

mod adoption;
mod counters;
pub mod definition;
mod jobs;
pub mod limits;
mod make;
mod mapper;
mod pointer;
mod reading;
#[cfg(test)]
mod scripted;
mod service;
mod stored;
mod triggers;
pub mod vector;
mod worker;

pub use adoption::{AdoptError, check};
pub use counters::ViewsCounters;
pub use jobs::{JobStatus, jobs};
pub use make::Unmappable;
pub use mapper::{MapOutcome, Mapper};
pub use reading::read;
pub use service::ViewsService;
