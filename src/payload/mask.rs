//! stub
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct MaskError;
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask;
pub struct Taken<'t> { pub value: Option<String>, pub path_and_query: std::borrow::Cow<'t, str> }
pub fn take<'t>(_: &'t str, _: &str) -> Result<Taken<'t>, MaskError> { Err(MaskError) }
impl Mask { pub fn parse(_: &str, _: impl Fn(&[&str]) -> Option<Vec<String>>) -> Result<Self, MaskError> { Err(MaskError) } pub fn is_everything(&self) -> bool { true } pub fn id(&self) -> u64 { 0 } }
