//! What is kept: keys, HTTP's policy, entries, the store, and the fills that make them.

pub mod capacity;
pub mod content;
pub mod entry;
pub mod fill;
pub mod key;
pub mod policy;
pub mod store;
