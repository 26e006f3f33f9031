//! Nearside against real engines: SNS and SQS (an emulator that speaks their protocols), real
//! sockets, real clients.
//!
//! One binary, so that everything shares one emulator.

#[cfg(test)]
mod abandoned;
#[cfg(test)]
mod admission;
#[cfg(test)]
mod announcements;
#[cfg(test)]
mod audited;
#[cfg(test)]
mod bench;
#[cfg(test)]
mod bounded;
#[cfg(test)]
mod broken;
#[cfg(test)]
mod certificates;
#[cfg(test)]
mod check;
#[cfg(test)]
mod compression;
#[cfg(test)]
mod credentials;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod drill;
#[cfg(test)]
mod drop_in;
#[cfg(test)]
mod engines;
#[cfg(test)]
mod failing;
#[cfg(test)]
mod failing_aws;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod flooded;
#[cfg(test)]
mod forged;
#[cfg(test)]
mod headers;
#[cfg(test)]
mod herd;
#[cfg(test)]
mod lagging;
#[cfg(test)]
mod lessons;
#[cfg(test)]
mod migration;
#[cfg(test)]
mod minting;
#[cfg(test)]
mod misconfigurations;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod own_writes;
#[cfg(test)]
mod paused;
#[cfg(test)]
mod payload_forms;
#[cfg(test)]
mod payloads;
#[cfg(test)]
mod process;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod proof;
#[cfg(test)]
mod propagation;
#[cfg(test)]
mod publishers;
#[cfg(test)]
mod readers;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod rfc9111;
#[cfg(test)]
mod routed;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod services;
#[cfg(test)]
mod signed;
#[cfg(test)]
mod stampede;
#[cfg(test)]
mod supervised;
#[cfg(test)]
mod support;
#[cfg(test)]
mod surroundings;
#[cfg(test)]
mod whole;
#[cfg(test)]
mod wire;
#[cfg(test)]
mod words;
#[cfg(test)]
#[path = "../world/mod.rs"]
mod world;

#[cfg(test)]
use support::{announced, deployed, emulator, program, relay, scripted_aws, service, stage};
