//! Nearside against real engines: SNS and SQS (an emulator that speaks their protocols), real sockets, real clients.
//!
//! One binary, so that everything shares one emulator.

#[cfg(test)]
mod announcements;
#[cfg(test)]
mod check;
#[cfg(test)]
mod door;
#[cfg(test)]
mod emulator;
#[cfg(test)]
mod rfc9111;
#[cfg(test)]
mod routed;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod wire;
