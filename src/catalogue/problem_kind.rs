//! Kinds of problems that the catalogue answers with.

use http::StatusCode;

/// Each problem once: its name, whose word is its `type`, and its status.
macro_rules! problems {
    ($($name:ident = $status:ident,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
        #[strum(serialize_all = "kebab-case", const_into_str)]
        pub(crate) enum ProblemKind { $($name,)* }

        impl ProblemKind {
            pub(crate) const fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }
        }
    };
}

problems! {
    BadJson = BAD_REQUEST,
    BadKey = BAD_REQUEST,
    BadBatch = BAD_REQUEST,
    BadCursor = BAD_REQUEST,
    BadQuery = BAD_REQUEST,
    BadHeader = BAD_REQUEST,
    NoCredential = UNAUTHORIZED,
    BadCredential = UNAUTHORIZED,
    NotGranted = FORBIDDEN,
    NotFound = NOT_FOUND,
    UnknownType = NOT_FOUND,
    UnknownPath = NOT_FOUND,
    Method = METHOD_NOT_ALLOWED,
    SlowBody = REQUEST_TIMEOUT,
    PreconditionFailed = PRECONDITION_FAILED,
    LargeBody = PAYLOAD_TOO_LARGE,
    NotJson = UNSUPPORTED_MEDIA_TYPE,
    Schema = UNPROCESSABLE_ENTITY,
    SchemaCost = UNPROCESSABLE_ENTITY,
    BadGrants = UNPROCESSABLE_ENTITY,
    IdempotencyKeyReused = UNPROCESSABLE_ENTITY,
    StoreFailed = INTERNAL_SERVER_ERROR,
    Damaged = INTERNAL_SERVER_ERROR,
    KeysUnknown = SERVICE_UNAVAILABLE,
    VerificationBusy = SERVICE_UNAVAILABLE,
    GrantsUnknown = SERVICE_UNAVAILABLE,
    Busy = SERVICE_UNAVAILABLE,
    Contended = SERVICE_UNAVAILABLE,
    StoreUnavailable = SERVICE_UNAVAILABLE,
    OutcomeUnknown = SERVICE_UNAVAILABLE,
    StoreFull = INSUFFICIENT_STORAGE,
}
