//! The vocabulary of the program: ids, versions, times, sizes.

pub mod ids;
pub mod limits;
pub mod size;
pub mod time;
