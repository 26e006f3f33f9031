//! stub
use super::mask::Mask;
#[derive(Debug)]
pub struct Index;
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct ProjectionError;
impl Index { pub fn of(_: &[u8]) -> Result<Self, ProjectionError> { Err(ProjectionError) } pub fn weight(&self) -> usize { 0 } }
pub struct Projected(pub Vec<u8>);
impl From<Projected> for bytes::Bytes { fn from(p: Projected) -> Self { p.0.into() } }
pub fn project(_: &[u8], _: Option<&Index>, _: &Mask) -> Result<Projected, ProjectionError> { Err(ProjectionError) }
