//! The ports of `nearside-lab dev`: known ones, or others where they are taken.

use std::io;

use crate::chaos_server::port::Port;
use crate::names::LabError;

/// The first region's port when ports are fixed; the other regions follow.
pub const REGION_PORT: u16 = 8711;
/// The AWS endpoint's port when ports are fixed.
pub const AWS_PORT: u16 = 8720;
/// The control endpoint's port when ports are fixed.
pub const CONTROL_PORT: u16 = 8730;
/// The catalogue's port when ports are fixed.
pub const CATALOGUE_PORT: u16 = 8740;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ports {
    /// [`REGION_PORT`] and so on; a taken port is replaced by a free one, with a note.
    Fixed,
    /// Any free ports.
    #[default]
    Ephemeral,
}

impl Ports {
    pub(super) fn hold(self, number: u16, what: &str, notes: &mut Vec<String>) -> Result<Port, LabError> {
        if self == Self::Ephemeral {
            return Port::hold_for(0, what);
        }
        match Port::hold_for(number, what) {
            Err(LabError::Port { source, .. }) if source.kind() == io::ErrorKind::AddrInUse => {
                let port = Port::hold_for(0, what)?;
                notes.push(format!("port {number} is in use: {what} is on {} instead", port.address().port()));
                Ok(port)
            }
            outcome => outcome,
        }
    }

    /// `number` if it is free, otherwise 0 (any port) with a note: for what binds by itself.
    pub(super) fn free(self, number: u16, what: &str, notes: &mut Vec<String>) -> u16 {
        match self {
            Self::Ephemeral => 0,
            Self::Fixed if Port::hold(number).is_ok() => number,
            Self::Fixed => {
                notes.push(format!("port {number} is in use: {what} takes another one, as shown above"));
                0
            }
        }
    }
}
