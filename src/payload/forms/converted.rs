//! Result of a conversion.

/// A record in its other form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    pub body: Vec<u8>,
    /// Fields and enum values that the schema does not know: the other form is without them.
    pub unknown_fields: usize,
}
