//! Meaning of every error code that AWS documents: the one table that says what failed, how long to
//! wait, and what to do.
//!
//! SNS and STS speak the query protocol, SQS, DynamoDB and Kinesis speak JSON, so the same fault has
//! several codes. A code that is in no row means what its HTTP status says ([`by_status`]).

mod table;

use std::time::Duration;

use self::table::{CLOCK, KEY_STATE, OURS, QUOTA};
pub use self::table::{CREDENTIALS, DENIED, GONE, GONE_QUEUE, PASSING, TABLE, THROTTLED};

/// Meaning of an error code for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The topic, queue, table or stream does not exist.
    Gone,
    /// Too many calls a second.
    Throttled,
    /// The credentials are known but do not allow the call.
    Denied,
    /// AWS does not know the credentials, or no longer.
    Credentials,
    /// This machine's clock is off.
    Clock,
    /// A KMS key cannot be used.
    Key,
    /// The account lacks something: an opted-in region, a subscription, a larger quota.
    Account,
    /// AWS's own fault, or a state that passes by itself.
    Passing,
    /// The request itself, or the setting that it was made of.
    Refused,
}

impl Meaning {
    /// Its name in `docs/operations.md`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Throttled => "throttled",
            Self::Denied => "denied",
            Self::Credentials => "credentials",
            Self::Clock => "clock",
            Self::Key => "key",
            Self::Account => "account",
            Self::Passing => "passing",
            Self::Refused => "refused",
        }
    }
}

/// One meaning of one or more codes.
#[derive(Debug)]
pub struct FaultRow {
    pub codes: &'static [&'static str],
    pub meaning: Meaning,
    /// Shortest wait before the next try, where the caller's own first wait is too short.
    pub least_wait: Duration,
    pub advice: &'static str,
}

const fn row(meaning: Meaning, least_wait_s: u64, codes: &'static [&'static str], advice: &'static str) -> FaultRow {
    FaultRow { codes, meaning, least_wait: Duration::from_secs(least_wait_s), advice }
}

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
