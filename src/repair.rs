//! Repair of what was written wrongly: what was true at a time.

pub mod limits;
pub mod truth;
