//! Answer of the sidecar itself to a caller of Protobuf when there is no record: a
//! `google.rpc.Status`.

use http::StatusCode;
use prost::Message;
use prost_types::Any;

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.rpc.ErrorInfo`, without its metadata.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
}

/// The body; `word` is the stable one of the problem, `detail` is for people.
pub fn encode(status: StatusCode, word: &str, detail: &str) -> Vec<u8> {
    let info = ErrorInfo { reason: word.to_owned(), domain: "nearside".to_owned() };
    let info = Any { type_url: "type.googleapis.com/google.rpc.ErrorInfo".to_owned(), value: info.encode_to_vec() };
    RpcStatus { code: code(status), message: detail.to_owned(), details: vec![info] }.encode_to_vec()
}

/// The `google.rpc.Code` that is documented for a status (google/rpc/code.proto); of several the
/// most general.
fn code(status: StatusCode) -> i32 {
    match status.as_u16() {
        200..300 => 0,                    // OK
        499 => 1,                         // CANCELLED
        400 | 411 | 413..=415 | 431 => 3, // INVALID_ARGUMENT
        504 => 4,                         // DEADLINE_EXCEEDED
        404 => 5,                         // NOT_FOUND
        403 => 7,                         // PERMISSION_DENIED
        429 => 8,                         // RESOURCE_EXHAUSTED
        412 | 428 => 9,                   // FAILED_PRECONDITION
        409 => 10,                        // ABORTED
        416 => 11,                        // OUT_OF_RANGE
        501 => 12,                        // UNIMPLEMENTED
        502 | 503 => 14,                  // UNAVAILABLE
        401 => 16,                        // UNAUTHENTICATED
        400..500 => 9,                    // FAILED_PRECONDITION: the request, not its values
        500..600 => 13,                   // INTERNAL
        _ => 2,                           // UNKNOWN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_carries_code_word_and_detail() {
        let body = encode(StatusCode::GATEWAY_TIMEOUT, "no-region-in-time", "no region answered in time");
        let status = RpcStatus::decode(&*body).unwrap();
        assert_eq!((status.code, &*status.message), (4, "no region answered in time"));
        assert_eq!(status.details[0].type_url, "type.googleapis.com/google.rpc.ErrorInfo");
        let info = ErrorInfo::decode(&*status.details[0].value).unwrap();
        assert_eq!((&*info.reason, &*info.domain), ("no-region-in-time", "nearside"));
    }

    #[test]
    fn status_codes_match_googles_documentation() {
        let documented = [(200, 0), (499, 1), (500, 13), (400, 3), (504, 4), (404, 5), (409, 10), (403, 7)];
        let more = [(401, 16), (429, 8), (501, 12), (503, 14), (416, 11), (412, 9), (502, 14), (406, 9)];
        for (status, expected) in documented.into_iter().chain(more) {
            assert_eq!(code(StatusCode::from_u16(status).unwrap()), expected, "{status}");
        }
        assert!((300..600).all(|status| code(StatusCode::from_u16(status).unwrap()) != 0));
    }
}
