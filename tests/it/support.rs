//! Foundations of the suites: the emulator, the program, a scripted service, a stage with a world,
//! and one with topics.

pub(crate) mod announced;
pub(crate) mod deployed;
pub(crate) mod emulator;
pub(crate) mod program;
pub(crate) mod relay;
pub(crate) mod scripted_aws;
pub(crate) mod service;
pub(crate) mod stage;
