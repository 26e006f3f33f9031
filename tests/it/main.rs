//! Nearside against real engines: SNS and SQS (an emulator that speaks their protocols), real sockets, real clients.
//!
//! One binary, so that everything shares one emulator.

#[cfg(test)]
mod abandoned;
#[cfg(test)]
mod announced;
#[cfg(test)]
mod announcements;
#[cfg(test)]
mod check;
#[cfg(test)]
mod emulator;
#[cfg(test)]
mod forged;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod proof;
#[cfg(test)]
mod propagation;
#[cfg(test)]
mod recovery;
