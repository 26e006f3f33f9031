//! Nearside against real engines: SNS and SQS (an emulator that speaks their protocols), real sockets, real clients.
//!
//! One binary, so that everything shares one emulator.

#[cfg(test)]
mod announcements;
#[cfg(test)]
mod check;
#[cfg(test)]
mod emulator;
#[cfg(test)]
mod failing;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod lagging;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod stampede;
