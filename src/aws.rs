//! AWS calls and SNS messages: clients, queues, envelopes, signatures and certificates.

pub mod certificate;
pub mod clients;
mod direct;
pub mod engine_clients;
pub mod envelope;
pub mod failure;
pub mod faults;
pub(crate) mod limits;
pub(crate) mod policy;
mod profile;
pub mod remembered;
pub mod sdk_settings;
pub mod sqs;
mod token_client;
mod usable;
pub mod verify;
