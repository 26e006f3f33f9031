//! What a failed call to AWS means for the services: whose fault it is, and on which resource.

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use super::super::EngineError;
use crate::aws::failure::{CallFailure, CallFault, of_answer};

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
            // Credentials are refreshed, roles attached, keys enabled and clocks set while a process
            // waits.
            CallFault::Credentials(_)
            | CallFault::Clock(_)
            | CallFault::Settings(_)
            | CallFault::Key(_)
            | CallFault::Account(_)
            | CallFault::Unreachable(_)
            | CallFault::Unconfirmed => self.unavailable(&format!("{fault}; {}", fault.advice())),
        }
    }

    /// AWS names both: "User: ... is not authorized to perform: ACTION on resource: ARN because ..."
    fn denied(self, said: &str) -> EngineError {
        let after = |words: &str| said.split_once(words)?.1.split_whitespace().next();
        EngineError::Denied {
            action: after("to perform: ").unwrap_or(self.action).to_owned(),
            resource: after("on resource: ").unwrap_or(self.resource).to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked<'_> = Asked { action: "dynamodb:PutItem", resource: "p-records" };

    #[test]
    fn a_denial_names_the_action_and_the_resource_that_aws_named() {
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
    fn a_denial_without_names_names_what_was_asked() {
        let denied = EngineError::Denied { action: "dynamodb:PutItem".to_owned(), resource: "p-records".to_owned() };
        assert_eq!(ASKED.meaning(CallFault::Denied("no".to_owned())), denied);
    }

    #[test]
    fn whose_fault_it_is_decides_whether_a_retry_helps() {
        let word = |code: &str, status| ASKED.meaning(of_answer(Some(code), Some(status), None)).word();
        assert_eq!(word("ResourceNotFoundException", 400), "missing");
        assert_eq!(word("ThrottlingException", 400), "throttled");
        assert_eq!(word("ExpiredToken", 400), "unavailable");
        assert_eq!(word("InternalServerError", 500), "unavailable");
        assert_eq!(word("com.amazonaws.dynamodb.v20120810#TransactionInProgressException", 400), "unavailable");
        assert_eq!(word("ValidationException", 400), "refused");
        assert_eq!(word("ItemCollectionSizeLimitExceededException", 400), "refused");
        // No code of AWS's: something on the way answered.
        assert_eq!(word("NeverDocumented", 502), "unavailable");
        assert_eq!(ASKED.meaning(CallFault::Unreachable("no answer in time")).word(), "unavailable");
    }

    #[test]
    fn kms_key_and_clock_are_named_with_advice() {
        for (code, advice) in [("KMSDisabledException", "enable the KMS key"), ("RequestExpired", "clock (NTP)")] {
            let error = ASKED.meaning(of_answer(Some(code), Some(400), None));
            assert_eq!(error.word(), "unavailable", "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing = ASKED.meaning(CallFault::Gone).to_string();
        assert!(missing.starts_with("p-records does not exist: create it"), "{missing}");
    }
}
