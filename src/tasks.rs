//! The only place in the program that spawns tasks.
//!
//! A task is named, counted and drained under a deadline. Long-lived tasks are supervised
//! ([`supervision`]), watch [`Tasks::stopping`] and end by themselves; short ones (fills,
//! connections) are simply waited for. A panic is counted by the name of its task. When
//! [`Tasks::drain`] has returned, no task that [`Tasks::spawn`] started is still running.

mod blocking;
mod counts;
mod draining;
pub(crate) mod file_stamp;
mod group;
mod handle;
mod limits;
mod panics;
pub mod permits;
pub mod supervision;
pub(crate) mod wake_gated;

pub use blocking::{on_blocking_pool, on_bounded_threads, on_disk};
pub use counts::FailingTask;
pub use draining::Draining;
pub use group::{NoResult, TaskGroup};
pub use handle::Tasks;
pub use panics::unless_panicked;
