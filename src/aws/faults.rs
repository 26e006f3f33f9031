//! Meaning of every error code that AWS documents: the one table that says what failed, how long to
//! wait, and what to do.
//!
//! SNS and STS speak the query protocol, SQS, DynamoDB and Kinesis speak JSON, so the same fault has
//! several codes. A code that is in no row means what its HTTP status says ([`by_status`]).

mod meaning;
mod table;

pub use meaning::Meaning;
use table::{CLOCK, FaultRow, KEY_STATE, OURS, QUOTA};
pub use table::{CREDENTIALS, DENIED, GONE, GONE_QUEUE, PASSING, TABLE, THROTTLED};

/// The code without what services write around it: `com.amazonaws.sqs#QueueDoesNotExist` and
/// `AWS.SimpleQueueService.NonExistentQueue`. `KMS.` stays: a key that is missing is no missing
/// queue.
pub(crate) fn bare(code: &str) -> &str {
    let code = code.rsplit('#').next().unwrap_or(code);
    let code = code.split(':').next().unwrap_or(code);
    code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code)
}

/// The row of a code.
pub(crate) fn find(code: &str) -> Option<&'static FaultRow> {
    let code = bare(code);
    TABLE.iter().find(|row| row.codes.contains(&code))
}

/// Returns whether a refused signature is refused for its time alone. AWS has no code of its own for that.
pub(crate) fn is_about_time(message: &str) -> bool {
    message.contains("Signature expired") || message.contains("Signature not yet current")
}

/// Meaning of the HTTP status where the code is in no row, or where there is none.
pub(crate) const fn by_status(status: Option<u16>) -> Meaning {
    match status {
        Some(429) => Meaning::Throttled,
        Some(408 | 500..) => Meaning::Passing,
        Some(401) => Meaning::Credentials,
        Some(403) => Meaning::Denied,
        _ => Meaning::Refused,
    }
}

/// Advice about a code that is in no row.
pub(crate) const fn advice(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Gone => GONE,
        Meaning::Throttled => THROTTLED,
        Meaning::Denied => DENIED,
        Meaning::Credentials => CREDENTIALS,
        Meaning::Clock => CLOCK,
        Meaning::Key => KEY_STATE,
        Meaning::Account => QUOTA,
        Meaning::Passing => PASSING,
        Meaning::Refused => OURS,
    }
}

#[cfg(test)]
mod tests;
