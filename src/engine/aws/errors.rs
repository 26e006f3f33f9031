//! Meaning of a failed call to AWS for the services: whose fault it is, and on which resource.

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use super::super::EngineError;
use crate::aws::failure::{CallFailure, CallFault, of_answer};

/// Advice where an endpoint does not answer.
const REACH: &str = "check the direct way to its endpoint (VPC endpoint, NAT, firewall; no proxy is used), or \
                     engine.endpoint_url";

/// A call, in the words of IAM.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    /// `dynamodb:PutItem`
    pub action: &'static str,
    /// The names of tables, a stream or a topic.
    pub resource: &'a str,
}

impl Asked<'_> {
    pub(super) fn failed<E, R>(self, error: &SdkError<E, R>) -> EngineError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
        R: std::fmt::Debug + 'static,
    {
        self.meaning(CallFailure::of(self.action, error).fault)
    }

    pub(super) fn refused(self, why: &str) -> EngineError {
        EngineError::Refused { what: self.what(), why: why.to_owned() }
    }

    pub(super) fn unavailable(self, why: &str) -> EngineError {
        EngineError::Unavailable { what: self.what(), why: why.to_owned() }
    }

    pub(super) fn throttled(self) -> EngineError {
        EngineError::Throttled { what: self.what() }
    }

    /// The meaning of a code that stands inside an answer.
    pub(super) fn coded(self, code: &str) -> EngineError {
        self.meaning(of_answer(Some(code), None, None))
    }

    fn what(self) -> String {
        format!("{} on {}", self.action, self.resource)
    }

    fn meaning(self, fault: CallFault) -> EngineError {
        match fault {
            CallFault::Gone => EngineError::Missing {
                what: self.resource.to_owned(),
                advice: "create it (`nearside setup`), or correct the prefix, the region or the account".to_owned(),
            },
            CallFault::Throttled(_) => self.throttled(),
            CallFault::Denied(said) => self.denied(&said),
            CallFault::Refused(code) => self.refused(&code),
            CallFault::Passing(_) => self.unavailable(&fault.to_string()),
            CallFault::Unreachable(_) => self.unavailable(&format!("{fault}; {REACH}")),
            // Credentials are refreshed, roles attached, keys enabled and clocks set while a process
            // waits.
            CallFault::Credentials(_)
            | CallFault::Clock(_)
            | CallFault::Settings(_)
            | CallFault::Key(_)
            | CallFault::Account(_)
            | CallFault::Unconfirmed => self.unavailable(&format!("{fault}; {}", fault.advice())),
        }
    }

    /// AWS names both: "User: ... is not authorized to perform: ACTION on resource: ARN because ..."
    fn denied(self, said: &str) -> EngineError {
        EngineError::Denied {
            action: word_after(said, "to perform: ").unwrap_or(self.action).to_owned(),
            resource: word_after(said, "on resource: ").unwrap_or(self.resource).to_owned(),
        }
    }
}

fn word_after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    text.split_once(words)?.1.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked<'_> = Asked { action: "dynamodb:PutItem", resource: "p-records" };

    #[test]
    fn denial_names_action_and_resource() {
        let said = "User: arn:aws:sts::1:assumed-role/r/s is not authorized to perform: dynamodb:ConditionCheckItem \
                    on resource: arn:aws:dynamodb:eu-west-1:1:table/p-history because no identity-based policy allows \
                    the dynamodb:ConditionCheckItem action";
        let denied = EngineError::Denied {
            action: "dynamodb:ConditionCheckItem".to_owned(),
            resource: "arn:aws:dynamodb:eu-west-1:1:table/p-history".to_owned(),
        };
        assert_eq!(ASKED.meaning(CallFault::Denied(said.to_owned())), denied);
    }

    #[test]
    fn bare_denial_names_requested_action() {
        let denied = EngineError::Denied { action: "dynamodb:PutItem".to_owned(), resource: "p-records".to_owned() };
        assert_eq!(ASKED.meaning(CallFault::Denied("no".to_owned())), denied);
    }

    #[test]
    fn error_code_decides_retryability() {
        assert_eq!(word("ResourceNotFoundException", 400), "missing");
        assert_eq!(word("ThrottlingException", 400), "throttled");
        assert_eq!(word("ExpiredToken", 400), "unavailable");
        assert_eq!(word("InternalServerError", 500), "unavailable");
        assert_eq!(word("com.amazonaws.dynamodb.v20120810#TransactionInProgressException", 400), "unavailable");
        assert_eq!(word("ValidationException", 400), "refused");
        assert_eq!(word("ItemCollectionSizeLimitExceededException", 400), "refused");
        // No code of AWS's: something on the way answered.
        assert_eq!(word("NeverDocumented", 502), "unavailable");
        let unreachable = ASKED.meaning(CallFault::Unreachable("no answer in time"));
        assert_eq!(unreachable.into_str(), "unavailable");
        assert!(unreachable.to_string().contains("engine.endpoint_url"), "{unreachable}");
    }

    fn word(code: &str, status: u16) -> &'static str {
        ASKED.meaning(of_answer(Some(code), Some(status), None)).into_str()
    }

    #[test]
    fn kms_and_clock_errors_carry_advice() {
        for (code, advice) in [("KMSDisabledException", "enable the KMS key"), ("RequestExpired", "clock (NTP)")] {
            let error = ASKED.meaning(of_answer(Some(code), Some(400), None));
            assert_eq!(error.into_str(), "unavailable", "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }

    #[test]
    fn missing_resource_is_named() {
        let missing = ASKED.meaning(CallFault::Gone).to_string();
        assert!(missing.starts_with("p-records does not exist: create it"), "{missing}");
    }
}
