//! The vocabulary of the program: ids, versions, times, sizes, exact decimals.

pub(crate) mod decimal;
pub mod identities;
pub mod ids;
pub(crate) mod limits;
pub mod names;
pub mod size;
pub mod stated_grants;
pub mod time;
