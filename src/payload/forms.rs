//! One record in two forms: Protobuf to JSON and back, by the rules of Protobuf's JSON mapping, for
//! messages that are known at run time.
//!
//! Both ways are one pass without a tree between. What is read was sent by a region: its size,
//! depth and what is held of it are bounded, and no error shows a value of it.

mod converted;
mod error;
pub(super) mod json;
mod print;
mod read;
mod scalar;
mod well_known;
mod wire;

pub use converted::Converted;
pub use error::FormError;

use super::limits::FORM_BYTES;
use super::schema::Schema;
pub(super) use error::Problem;

impl Schema {
    /// The JSON form of a record in Protobuf.
    pub fn to_json(&self, protobuf: &[u8]) -> Result<Converted, FormError> {
        if protobuf.len() > FORM_BYTES {
            return Err(Problem::TooLarge.into());
        }
        print::printed(&self.types, self.root, protobuf)
    }

    /// The Protobuf form of a record in JSON.
    pub fn to_protobuf(&self, json: &[u8]) -> Result<Converted, FormError> {
        if json.len() > FORM_BYTES {
            return Err(Problem::TooLarge.into());
        }
        read::read(&self.types, self.root, json)
    }
}

#[cfg(test)]
mod tests;
