//! The announcement path: subscribe, receive, verify, decode, apply, acknowledge.

pub mod apply;
pub mod certificate;
pub mod decode;
pub mod envelope;
pub mod heartbeat;
pub mod http;
pub mod janitor;
pub mod message;
pub mod remembered;
pub mod signer;
pub mod sqs;
pub mod subscription;
pub mod verify;
