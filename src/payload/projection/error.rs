//! Reasons why a body is not projected.

/// Why a body is not projected. Nobody's fault but for [`Self::Malformed`], which is the region's;
/// the caller gets the body whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProjectionError {
    #[error("the mask leaves nothing out")]
    Everything,
    #[error("the body is neither an object nor a list")]
    Scalar,
    #[error("the body is not JSON")]
    Malformed,
    #[error("the mask leads too deep into objects and lists")]
    TooDeep,
    #[error("the body is too large for an index")]
    TooLarge,
}
