//! stub
use super::schema::Schema;
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct FormError;
pub struct Converted {
    pub body: Vec<u8>,
    pub unknown_fields: usize,
}
impl Schema {
    pub fn to_json(&self, _: &[u8]) -> Result<Converted, FormError> {
        Err(FormError)
    }
    pub fn to_protobuf(&self, _: &[u8]) -> Result<Converted, FormError> {
        Err(FormError)
    }
}
