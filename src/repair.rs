//! Repair of what was written wrongly: who changed what since when, and what was true then.
//!
//! It looks at the records that there are. One that is gone from its table is seen by `nearside verify`.

pub mod changes;
pub mod limits;
mod reading;
pub mod truth;
