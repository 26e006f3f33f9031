//! AWS as it is called and as it signs: clients, queues, SNS envelopes, their signatures and certificates.

pub mod certificate;
pub mod clients;
pub mod envelope;
pub mod limits;
pub mod policy;
pub mod remembered;
pub mod sqs;
pub mod verify;
