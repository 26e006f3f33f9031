//! The protocol (FRESHNESS.md) as pure code: no I/O, no clock of its own.

pub mod event;
pub mod horizon;
pub mod record;
pub mod region;
pub mod standing;
pub mod vote;
pub mod words;
