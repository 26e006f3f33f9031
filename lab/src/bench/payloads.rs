//! Payloads of the scenario `payload`: bodies made of a public data set, the forms they are written
//! in, and the CPU time of what is done with them in the harness's own process.

pub(crate) mod airports;
pub(crate) mod coded;
pub(crate) mod cpu;
pub(crate) mod fields;
