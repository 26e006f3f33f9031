//! Starts the services besides the sidecar.

pub mod region;
