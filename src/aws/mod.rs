//! AWS calls and SNS messages: clients, queues, envelopes, signatures and certificates.

pub mod certificate;
pub mod clients;
mod direct;
pub mod engine_clients;
pub mod envelope;
pub(crate) mod limits;
pub(crate) mod policy;
pub mod remembered;
pub mod sqs;
pub mod verify;
