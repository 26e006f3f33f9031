//! Failed calls to AWS: which call, and why, in the words of [`super::faults`].

use std::any::Any;
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sns::config::http::HttpResponse;
use aws_sdk_sns::error::{ConnectorError, ProvideErrorMetadata, SdkError};

use crate::aws::faults::{self, Meaning};

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {fault}")]
pub struct CallFailure {
    /// The API call, by its AWS name.
    pub call: &'static str,
    pub fault: CallFault,
}

/// The cause of a failed call. A retry helps with all, though with most only once somebody has
/// acted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFault {
    #[error("it does not exist")]
    Gone,
    /// Too many calls per second in this account and region. Holds the code.
    #[error("throttled ({0})")]
    Throttled(String),
    /// The credentials are known but do not allow this call. Holds AWS's own words.
    #[error("denied: {0}")]
    Denied(String),
    /// No credentials were found, or AWS does not know them. Holds a code or a stable word.
    #[error("no usable credentials ({0})")]
    Credentials(String),
    /// Settings of the SDK cannot be used, so nothing was called. Holds the first of them.
    #[error("the AWS SDK's settings cannot be used: {0}")]
    Settings(String),
    /// This machine's clock is off. Holds the code.
    #[error("AWS's clock and this machine's differ ({0})")]
    Clock(String),
    /// A KMS key cannot be used. Holds the code.
    #[error("a KMS key cannot be used ({0})")]
    Key(String),
    /// The account lacks something. Holds the code.
    #[error("the account does not allow it ({0})")]
    Account(String),
    /// AWS's own fault, or a state that passes. Holds the code, or the HTTP status.
    #[error("AWS failed ({0})")]
    Passing(String),
    /// AWS could not be reached, or did not answer in time. Holds the reason.
    #[error("AWS cannot be reached ({0})")]
    Unreachable(&'static str),
    /// AWS answered with another error. Holds its code only: the message may quote what was sent.
    #[error("refused with {0}")]
    Refused(String),
    /// SNS did not post a confirmation in time.
    #[error("no confirmation arrived")]
    Unconfirmed,
}

impl CallFault {
    /// Advice to the operator about the fault.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Gone => faults::GONE,
            Self::Throttled(code) => advice_on(code, Meaning::Throttled),
            Self::Denied(_) => faults::DENIED,
            Self::Credentials(code) => advice_on(code, Meaning::Credentials),
            // Some of AWS's codes for a refused signature mean its time.
            Self::Clock(_) => faults::advice(Meaning::Clock),
            Self::Key(code) => advice_on(code, Meaning::Key),
            Self::Account(code) => advice_on(code, Meaning::Account),
            Self::Passing(code) => advice_on(code, Meaning::Passing),
            Self::Refused(code) => advice_on(code, Meaning::Refused),
            Self::Settings(_) => {
                "correct it (a variable, or a service, needs a new start): nearside check shows all that is wrong, each with \
                 its place"
            }
            Self::Unreachable(_) => {
                "check the direct way to the region's SNS and SQS endpoints (VPC endpoint, NAT, firewall; no proxy is \
                 used) or announcements.endpoint_url"
            }
            Self::Unconfirmed => "check that SNS can reach announcements.http_public_url from the internet",
        }
    }

    fn least_wait(&self) -> Duration {
        match self {
            Self::Throttled(code) | Self::Account(code) | Self::Passing(code) => {
                faults::find(code).map_or(Duration::ZERO, |row| row.least_wait)
            }
            _ => Duration::ZERO,
        }
    }
}

impl CallFailure {
    /// True if AWS could not be asked, or is refusing to answer for now: no proof, and no loss.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.fault, CallFault::Throttled(_) | CallFault::Unreachable(_) | CallFault::Passing(_))
    }

    /// Advice to the operator about it.
    pub fn advice(&self) -> &'static str {
        match self.fault {
            CallFault::Gone if OF_QUEUES.contains(&self.call) => faults::GONE_QUEUE,
            ref fault => fault.advice(),
        }
    }

    /// Shortest wait before the call is tried again.
    pub(crate) fn least_wait(&self) -> Duration {
        self.fault.least_wait()
    }

    /// Interprets the error of a failed `call`.
    pub fn of<E: ProvideErrorMetadata + std::error::Error + 'static, R: std::fmt::Debug + 'static>(
        call: &'static str,
        error: &SdkError<E, R>,
    ) -> Self {
        if let Some(why) = unusable(error) {
            return Self { call, fault: CallFault::Settings(why) };
        }
        let fault = match error {
            SdkError::TimeoutError(_) => CallFault::Unreachable("no answer in time"),
            SdkError::ConstructionFailure(_) => CallFault::Credentials("none found".to_owned()),
            SdkError::DispatchFailure(failure) if failure.is_timeout() => CallFault::Unreachable("no answer in time"),
            SdkError::DispatchFailure(failure) if failure.is_io() => CallFault::Unreachable("connection failed"),
            SdkError::DispatchFailure(failure) => failure
                .as_connector_error()
                .and_then(of_credentials)
                .map_or(CallFault::Unreachable("the request could not be sent"), CallFault::Credentials),
            SdkError::ResponseError(_) => CallFault::Unreachable("what answered does not speak AWS's protocol"),
            SdkError::ServiceError(answer) => {
                let status =
                    (answer.raw() as &dyn Any).downcast_ref::<HttpResponse>().map(|raw| raw.status().as_u16());
                of_answer(answer.err().code(), status, answer.err().message())
            }
            _ => CallFault::Unreachable("unknown"),
        };
        Self { call, fault }
    }

    pub fn is_gone(&self) -> bool {
        self.fault == CallFault::Gone
    }
}

/// The calls to SQS that name a queue.
const OF_QUEUES: &[&str] = &[
    "CreateQueue",
    "DeleteMessageBatch",
    "DeleteQueue",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListQueueTags",
    "ReceiveMessage",
    "TagQueue",
];

/// A reason for which no credentials are asked for. The SDK carries it inside its own error.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnusableCredentials(pub(crate) String);

/// Our own reason anywhere below an error of the SDK's.
fn unusable(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut source = Some(error);
    while let Some(error) = source {
        if let Some(ours) = error.downcast_ref::<UnusableCredentials>() {
            return Some(ours.to_string());
        }
        source = error.source();
    }
    None
}

/// Why there are no credentials. The SDK reports a failed credentials chain as a dispatch failure;
/// only the error's source tells the difference. Of the SDK's own texts nothing is quoted: they may
/// quote what an endpoint answered.
fn of_credentials(failure: &ConnectorError) -> Option<String> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(failure);
    let mut found = None;
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<CredentialsError>() {
            found.get_or_insert(word_of(error).to_owned());
        }
        if let Some(error) = error.downcast_ref::<std::io::Error>()
            && found.is_some()
        {
            return Some(format!("what gives them failed: {}", error.kind()));
        }
        source = error.source();
    }
    found
}

const fn word_of(error: &CredentialsError) -> &'static str {
    match error {
        CredentialsError::ProviderTimedOut(_) => "what gives them did not answer in time",
        CredentialsError::InvalidConfiguration(_) => "what names them is wrong: nearside doctor says more",
        CredentialsError::ProviderError(_) => "what gives them failed: nearside doctor says more",
        _ => "none found",
    }
}

/// Reason why a source gives no credentials: ours, or a stable word.
pub(crate) fn of_provider(error: &CredentialsError) -> String {
    unusable(error).unwrap_or_else(|| word_of(error).to_owned())
}

/// Interprets what AWS answered.
pub(crate) fn of_answer(code: Option<&str>, status: Option<u16>, message: Option<&str>) -> CallFault {
    let row = code.and_then(faults::find);
    let meaning = row.map_or(faults::by_status(status), |row| row.meaning);
    let shown = match (code, status) {
        (Some(code), _) => faults::bare(code).to_owned(),
        (None, Some(status)) => format!("HTTP status {status}"),
        (None, None) => "unknown".to_owned(),
    };
    match meaning {
        Meaning::Gone => CallFault::Gone,
        Meaning::Throttled => CallFault::Throttled(shown),
        Meaning::Denied => CallFault::Denied(message.unwrap_or("no reason given").to_owned()),
        Meaning::Credentials if message.is_some_and(faults::is_about_time) => CallFault::Clock(shown),
        Meaning::Credentials => CallFault::Credentials(shown),
        Meaning::Clock => CallFault::Clock(shown),
        Meaning::Key => CallFault::Key(shown),
        Meaning::Account => CallFault::Account(shown),
        Meaning::Passing => CallFault::Passing(shown),
        Meaning::Refused if row.is_none() && code.is_none() && status.is_none() => CallFault::Passing(shown),
        Meaning::Refused => CallFault::Refused(shown),
    }
}

fn advice_on(code: &str, meaning: Meaning) -> &'static str {
    faults::find(code).map_or(faults::advice(meaning), |row| row.advice)
}

#[cfg(test)]
mod tests;
