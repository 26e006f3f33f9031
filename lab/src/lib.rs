//! Nearside's lab, which is not part of the product: an emulator of SNS and SQS ([`aws`]), all that
//! can go wrong at a region's port ([`chaos_server`]), a whole service in one process ([`dev`]), and the
//! benchmark ([`mod@bench`]).

pub mod aws;
pub mod bench;
pub mod chaos_server;
pub mod cli;
pub mod dev;
pub mod issuer;
mod limits;
pub mod loopback;
mod names;
pub mod signer;
mod uuid;

pub use names::{LabError, REGION_NAMES, TOPIC};
