//! stub
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Json,
    Protobuf { media_type: &'static str, or_json: bool },
    AsNamed,
}
impl Choice {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Protobuf { .. } => "protobuf",
            Self::AsNamed => "as-named",
        }
    }
    pub fn of(_: &http::HeaderMap) -> Self {
        Self::Json
    }
}
pub fn is_json(_: &[u8]) -> bool {
    true
}
pub fn is_protobuf(_: &[u8]) -> bool {
    false
}
