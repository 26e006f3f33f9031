//! Failures as AWS and the SDK report them.

use super::*;

fn fault(code: &str) -> CallFault {
    of_answer(Some(code), Some(400), Some("why"))
}

#[test]
fn both_protocols_mean_the_same_fault() {
    assert_eq!(fault("AWS.SimpleQueueService.NonExistentQueue"), CallFault::Gone);
    assert_eq!(fault("com.amazonaws.sqs#QueueDoesNotExist"), CallFault::Gone);
    assert_eq!(fault("QueueDoesNotExist:http://internal.amazon.com/coral/"), CallFault::Gone);
    assert_eq!(fault("NotFound"), CallFault::Gone);
    assert_eq!(fault("Throttling"), CallFault::Throttled("Throttling".to_owned()));
    assert_eq!(fault("AuthorizationError"), CallFault::Denied("why".to_owned()));
    assert_eq!(fault("ExpiredToken"), CallFault::Credentials("ExpiredToken".to_owned()));
    assert_eq!(fault("InvalidParameter"), CallFault::Refused("InvalidParameter".to_owned()));
}

#[test]
fn missing_kms_key_is_not_queue() {
    for code in ["KMS.NotFoundException", "KMSNotFound", "com.amazonaws.sqs#KmsNotFound"] {
        assert_eq!(fault(code), CallFault::Key(faults::bare(code).to_owned()));
    }
    let failure = CallFailure { call: "ReceiveMessage", fault: fault("KMS.NotFoundException") };
    assert!(!failure.is_gone() && !failure.is_passing());
    assert!(failure.advice().contains("queue_kms_key"));
}

#[test]
fn server_errors_are_transient_not_refusals() {
    for (code, status) in [
        (Some("InternalError"), 500),
        (Some("ServiceUnavailable"), 503),
        (Some("NeverDocumented"), 500),
        (None, 503),
        (None, 502),
        (None, 429),
    ] {
        let failure = CallFailure { call: "ReceiveMessage", fault: of_answer(code, Some(status), None) };
        assert!(failure.is_passing(), "{code:?} {status}: {failure}");
    }
    assert_eq!(of_answer(None, Some(400), None), CallFault::Refused("HTTP status 400".to_owned()));
    assert_eq!(of_answer(None, Some(403), None), CallFault::Denied("no reason given".to_owned()));
}

#[test]
fn clock_skew_explains_refused_signature() {
    let expired = "Signature expired: 20261125T063612Z is now earlier than 20261125T070112Z";
    for code in ["SignatureDoesNotMatch", "InvalidSignatureException"] {
        let clock = of_answer(Some(code), Some(403), Some(expired));
        assert_eq!(clock, CallFault::Clock(code.to_owned()));
        assert!(clock.advice().contains("clock"), "{}", clock.advice());
        let secret = of_answer(Some(code), Some(403), Some("The request signature we calculated does not match"));
        assert_eq!(secret, CallFault::Credentials(code.to_owned()));
        assert!(secret.advice().contains("AWS_SECRET_ACCESS_KEY"), "{}", secret.advice());
    }
    assert!(fault("RequestExpired").advice().contains("clock"));
}

#[test]
fn advice_fits_call_and_code() {
    assert!(advice("Subscribe", "NotFound").contains("topic"));
    assert!(advice("ReceiveMessage", "QueueDoesNotExist").contains("a new queue"));
    assert!(advice("Subscribe", "OptInRequired").contains("enable the region"));
    assert!(advice("CreateQueue", "KMS.DisabledException").contains("enable the KMS key"));
    assert!(advice("Subscribe", "InvalidClientTokenId").contains("access key id"));
    let waits = CallFailure { call: "CreateQueue", fault: fault("QueueDeletedRecently") };
    assert_eq!(waits.least_wait(), Duration::from_secs(60));
}

fn advice(call: &'static str, code: &str) -> &'static str {
    CallFailure { call, fault: fault(code) }.advice()
}

#[test]
fn only_denial_repeats_what_aws_said() {
    for (code, repeats) in [("InvalidParameter", false), ("ExpiredToken", false), ("AccessDenied", true)] {
        let said = of_answer(Some(code), Some(400), Some("token=secret")).to_string();
        assert_eq!(said.contains("secret"), repeats, "{said}");
    }
}

#[test]
fn missing_credentials_name_expected_source() {
    assert_eq!(source_named_by(CredentialsError::not_loaded("x")), "none found");
    assert!(source_named_by(CredentialsError::provider_timed_out(Duration::ZERO)).contains("in time"));
    let unusable = UnusableCredentials("AWS_ACCESS_KEY_ID holds a line end".to_owned());
    let wrapped = ConnectorError::other(CredentialsError::invalid_configuration(unusable).into(), None);
    assert_eq!(super::unusable(&wrapped).unwrap(), "AWS_ACCESS_KEY_ID holds a line end");
    let absent = std::io::Error::from(std::io::ErrorKind::NotFound);
    assert_eq!(source_named_by(CredentialsError::provider_error(absent)), "what gives them failed: entity not found");
    assert_eq!(of_credentials(&ConnectorError::other("x".into(), None)), None);
}

fn source_named_by(error: CredentialsError) -> String {
    of_credentials(&ConnectorError::other(error.into(), None)).unwrap()
}
