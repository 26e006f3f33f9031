//! A route's migration from its current upstream to a candidate that has the same records: OLD,
//! CHECK, NEW.
//!
//! Under CHECK some of the current upstream's replies are compared with the candidate's; under NEW
//! the candidate answers for a share of the records. [`candidate`] says which upstream answers and
//! how the candidate is asked, [`comparison`] compares the two, [`trial`] does so at once for an
//! operator who examines a configuration, and [`tally`] counts what was found.

pub mod candidate;
pub mod comparison;
pub mod limits;
pub mod tally;
#[cfg(test)]
mod tests;
pub(crate) mod trial;
