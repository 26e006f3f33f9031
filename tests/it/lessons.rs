//! Lessons that others learned the hard way about such services, replayed through a sidecar: a
//! table that fails for a second again and again, a new node under full load, a hot key at its TTL,
//! a whole region off, tables of any latency, a hot change. No request may fail.
//!
//! Regions are whole (ingester, table, topic, nodes, all in this process), but the home region is
//! its table of views alone: no lesson is about the catalogue. Time is compressed where a lesson is
//! about a ratio; each file says so. Nothing is asserted about how long anything took: what is, are
//! counts, versions and labels, which a busy machine does not change.

mod failing;
mod hot_change;
mod hot_key;
mod joining;
mod latency;
mod load;
mod proxy;
mod readers;
mod region_off;
mod stage;
mod table;
