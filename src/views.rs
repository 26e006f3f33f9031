//! The views service: makes from the catalogue's records what each use case sees, and keeps it
//! true. A change of a record is only a trigger: [`mapper`] reads everything anew and writes what
//! it makes of it, if that is newer than what is there.

mod adoption;
mod canary;
mod comparison;
mod counters;
pub mod definition;
mod disagreement;
mod failures;
pub mod grants;
mod jobs;
pub mod limits;
mod make;
mod mapper;
mod pointer;
mod reading;
mod retry;
#[cfg(test)]
mod scripted;
mod service;
mod status;
mod stored;
mod sweep;
mod triggers;
pub mod vector;
mod verify;
mod walk;
mod worker;

pub use adoption::{AdoptError, check, defined};
pub use canary::CANARY;
pub use comparison::{DifferingCopies, DifferingCopy, differing_copies, still_differing_copy};
pub use counters::ViewsCounters;
pub use disagreement::Disagreement;
pub use failures::{FailedView, failures};
pub use jobs::JobStatus;
pub use make::Unmappable;
pub use mapper::{MapOutcome, Mapper};
pub use reading::read;
pub use service::ViewsService;
pub use status::{ViewsState, ViewsStatus};
pub use verify::{Verification, VerifiedRegion, VerifyExample, VerifyReport};
