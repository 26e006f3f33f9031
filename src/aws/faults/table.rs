//! Rows of the table: codes by meaning, each with its advice.

use std::time::Duration;

use super::meaning::Meaning;

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

pub const GONE: &str = "check that the topic, table or stream exists in that region and account";
pub const GONE_QUEUE: &str = "a new queue shows after about a second; one that is deleted is made anew";
pub const THROTTLED: &str = "nothing to do: it is tried again later; if it lasts, raise the account's quota";
pub const DENIED: &str = "allow this process's role sns:Subscribe, sns:Unsubscribe, sns:GetSubscriptionAttributes and \
     sns:ConfirmSubscription on the topic, and with sqs also sqs:CreateQueue, sqs:DeleteQueue, sqs:GetQueueUrl, \
     sqs:GetQueueAttributes, sqs:ReceiveMessage, sqs:DeleteMessage and sqs:TagQueue on nearside-*; with \
     announcements.queue_kms_key also kms:Decrypt on the key";
pub const CREDENTIALS: &str = "give the process credentials: a task role (ECS), a service account or pod identity (EKS), or \
     AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
pub const PASSING: &str = "nothing to do: it is tried again; if it lasts, see AWS's health page for the region";
const UNKNOWN_KEY: &str = "correct the access key id (AWS knows no such key in this partition, or it was deleted or made inactive), or enable \
     the region: one that the account has not opted in to answers the same";
const EXPIRED: &str = "renew the session's credentials: a token of the environment or of a file is never renewed by \
     Nearside, one of a role is";
pub(super) const CLOCK: &str = "set this machine's clock (NTP): AWS takes signatures of at most 5 minutes ago";
const SIGNATURE: &str = "correct AWS_SECRET_ACCESS_KEY (a space or a line end at its end, the secret of another key); if \
     it is right, set this machine's clock";
const MALFORMED: &str = "something on the way changes requests: look for a proxy or gateway before AWS's endpoint";
const OPT_IN: &str =
    "enable the region for the account (Account, AWS Regions), or subscribe the account to the service";
const WEB_IDENTITY: &str = "compare the role's trust policy with the service account's issuer, audience and subject, and \
     AWS_ROLE_ARN with the role";
const KEY_GONE: &str = "correct announcements.queue_kms_key (or the topic's, table's or stream's key): there is no such \
     key in that region";
const KEY_DISABLED: &str = "enable the KMS key again, or set another key";
pub(super) const KEY_STATE: &str =
    "look at the KMS key's state: pending deletion or import, or its key store is unavailable";
const KEY_USAGE: &str = "use a symmetric KMS key for encryption";
const KEY_OPT_IN: &str = "subscribe the account to KMS";
const RECENT: &str = "nothing to do: a queue of that name was deleted less than 60 s ago";
pub(super) const QUOTA: &str = "remove what is unused, or raise the account's quota";
const IN_FLIGHT: &str = "nothing to do: the queue has too many messages in flight; they come again";
pub(super) const OURS: &str =
    "look the code up under the call's name in AWS's documentation; report it if no setting explains it";
const ENDPOINT: &str = "check that announcements.endpoint_url (or engine.endpoint_url) is that service's endpoint";
const CONDITION: &str = "nothing to do: another write came first, and the caller is notified";
const TAGS: &str = "correct announcements.queue_tags, or the account's tag policy";
const EXISTS: &str = "it was made by somebody else with other attributes: remove it, or use another name";
const UNUSED: &str = "report it: Nearside makes no call that leads to this";

/// Every documented code, once.
pub const TABLE: &[FaultRow] = &[
    row(
        Meaning::Gone,
        0,
        &["NotFound", "NotFoundException", "ResourceNotFound", "ResourceNotFoundException", "TableNotFoundException"],
        GONE,
    ),
    row(Meaning::Gone, 0, &["QueueDoesNotExist", "NonExistentQueue"], GONE_QUEUE),
    row(
        Meaning::Throttled,
        0,
        &[
            "Throttling",
            "ThrottlingException",
            "Throttled",
            "ThrottledException",
            "RequestThrottled",
            "RequestThrottledException",
            "ThrottlingError",
            "TooManyRequestsException",
            "RequestLimitExceeded",
            "BandwidthLimitExceeded",
            "SlowDown",
            "PriorRequestNotComplete",
            "ProvisionedThroughputExceeded",
            "ProvisionedThroughputExceededException",
            "LimitExceededException",
            "KMS.ThrottlingException",
            "KMSThrottling",
            "KMSThrottlingException",
            "KmsThrottled",
        ],
        THROTTLED,
    ),
    row(Meaning::Throttled, 5, &["OverLimit"], IN_FLIGHT),
    row(
        Meaning::Denied,
        0,
        &[
            "AccessDenied",
            "AccessDeniedException",
            "AuthorizationError",
            "AuthorizationErrorException",
            "NotAuthorized",
            "UnauthorizedOperation",
            "KMS.AccessDeniedException",
            "KMSAccessDenied",
            "KMSAccessDeniedException",
            "KmsAccessDenied",
        ],
        DENIED,
    ),
    row(
        Meaning::Credentials,
        0,
        &["InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "AuthFailure"],
        UNKNOWN_KEY,
    ),
    row(
        Meaning::Credentials,
        0,
        &["ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "ExpiredTradeInTokenException"],
        EXPIRED,
    ),
    row(
        Meaning::Credentials,
        0,
        &["MissingAuthenticationToken", "MissingAuthenticationTokenException", "MissingClientTokenId"],
        CREDENTIALS,
    ),
    row(
        Meaning::Credentials,
        0,
        &["IDPRejectedClaim", "InvalidIdentityToken", "InvalidIdentityTokenException"],
        WEB_IDENTITY,
    ),
    row(
        Meaning::Clock,
        0,
        &["RequestExpired", "RequestTimeTooSkewed", "RequestInTheFuture", "RequestTimeTooSkewedException"],
        CLOCK,
    ),
    row(
        Meaning::Credentials,
        0,
        &[
            "SignatureDoesNotMatch",
            "InvalidSignature",
            "InvalidSignatureException",
            "InvalidSecurity",
            "InvalidSecurityException",
        ],
        SIGNATURE,
    ),
    row(
        Meaning::Refused,
        0,
        &[
            "IncompleteSignature",
            "IncompleteSignatureException",
            "MalformedHttpRequestException",
            "InvalidHttpRequest",
            "MalformedQueryString",
            "InvalidQueryParameter",
            "SerializationException",
            "RequestEntityTooLargeException",
            "UnsupportedMediaTypeException",
        ],
        MALFORMED,
    ),
    row(
        Meaning::Account,
        0,
        &["OptInRequired", "SubscriptionRequiredException", "RegionDisabledException", "RegionDisabled"],
        OPT_IN,
    ),
    row(Meaning::Key, 0, &["KMS.NotFoundException", "KMSNotFound", "KMSNotFoundException", "KmsNotFound"], KEY_GONE),
    row(
        Meaning::Key,
        0,
        &["KMS.DisabledException", "KMSDisabled", "KMSDisabledException", "KmsDisabled"],
        KEY_DISABLED,
    ),
    row(
        Meaning::Key,
        0,
        &["KMS.InvalidStateException", "KMSInvalidState", "KMSInvalidStateException", "KmsInvalidState"],
        KEY_STATE,
    ),
    row(Meaning::Key, 0, &["KMS.InvalidKeyUsageException", "KmsInvalidKeyUsage"], KEY_USAGE),
    row(Meaning::Key, 0, &["KMS.OptInRequired", "KMSOptInRequired", "KmsOptInRequired"], KEY_OPT_IN),
    row(
        Meaning::Account,
        60,
        &[
            "SubscriptionLimitExceeded",
            "SubscriptionLimitExceededException",
            "TopicLimitExceeded",
            "TopicLimitExceededException",
            "FilterPolicyLimitExceeded",
            "FilterPolicyLimitExceededException",
            "ReplayLimitExceeded",
            "ReplayLimitExceededException",
        ],
        QUOTA,
    ),
    row(Meaning::Passing, 60, &["QueueDeletedRecently"], RECENT),
    row(
        Meaning::Passing,
        0,
        &[
            "InternalError",
            "InternalErrorException",
            "InternalFailure",
            "InternalFailureException",
            "InternalServerError",
            "InternalServerErrorException",
            "InternalServiceError",
            "ServiceUnavailable",
            "ServiceUnavailableException",
            "ServiceFailure",
            "RequestTimeout",
            "RequestTimeoutException",
            "RequestAbortedException",
            "IDPCommunicationError",
        ],
        PASSING,
    ),
    row(
        Meaning::Passing,
        0,
        &[
            "ConcurrentAccess",
            "ConcurrentAccessException",
            "ExpiredIteratorException",
            "ExpiredNextTokenException",
            "PurgeQueueInProgress",
            "ReplicatedWriteConflictException",
            "ResourceInUseException",
            "StaleTag",
            "StaleTagException",
            "TableInUseException",
            "TransactionConflictException",
            "TransactionInProgressException",
        ],
        "nothing to do: the state passes, and it is tried again",
    ),
    row(
        Meaning::Refused,
        0,
        &["ConditionalCheckFailedException", "TransactionCanceledException", "DuplicateItemException"],
        CONDITION,
    ),
    row(
        Meaning::Refused,
        0,
        &[
            "InvalidAddress",
            "InvalidAction",
            "InvalidEndpointException",
            "MissingAction",
            "UnknownOperationException",
            "UnsupportedOperation",
            "UnsupportedProtocolException",
            "NoSuchVersion",
        ],
        ENDPOINT,
    ),
    row(
        Meaning::Refused,
        0,
        &["TagLimitExceeded", "TagLimitExceededException", "TagPolicy", "TagPolicyException"],
        TAGS,
    ),
    row(Meaning::Refused, 0, &["QueueAlreadyExists", "QueueNameExists", "TableAlreadyExistsException"], EXISTS),
    row(
        Meaning::Refused,
        0,
        &[
            "BatchEntryIdsNotDistinct",
            "BatchEntryIdsNotDistinctException",
            "BatchRequestTooLong",
            "BatchRequestTooLongException",
            "EmptyBatchRequest",
            "EmptyBatchRequestException",
            "IdempotentParameterMismatchException",
            "InvalidArgumentException",
            "InvalidAttributeName",
            "InvalidAttributeValue",
            "InvalidBatchEntryId",
            "InvalidBatchEntryIdException",
            "InvalidIdFormat",
            "InvalidMessageContents",
            "InvalidParameter",
            "InvalidParameterException",
            "InvalidParameterCombination",
            "InvalidParameterValue",
            "InvalidParameterValueException",
            "InvalidState",
            "InvalidStateException",
            "ItemCollectionSizeLimitExceededException",
            "MessageNotInflight",
            "MissingParameter",
            "ParameterValueInvalid",
            "ReceiptHandleIsInvalid",
            "TooManyEntriesInBatchRequest",
            "TooManyEntriesInBatchRequestException",
            "ValidationError",
            "ValidationException",
        ],
        OURS,
    ),
    row(
        Meaning::Refused,
        0,
        &[
            "BackupInUseException",
            "BackupNotFoundException",
            "ContinuousBackupsUnavailableException",
            "DryRunOperationException",
            "EndpointDisabled",
            "EndpointDisabledException",
            "ExportConflictException",
            "ExportNotFoundException",
            "GlobalTableAlreadyExistsException",
            "GlobalTableNotFoundException",
            "ImportConflictException",
            "ImportNotFoundException",
            "IndexNotFoundException",
            "InvalidAuthorizationMessageException",
            "InvalidExportTimeException",
            "InvalidRestoreTimeException",
            "JWTPayloadSizeExceededException",
            "MalformedPolicyDocument",
            "OptedOut",
            "OptedOutException",
            "OutboundWebIdentityFederationDisabledException",
            "PackedPolicyTooLarge",
            "PlatformApplicationDisabled",
            "PlatformApplicationDisabledException",
            "PointInTimeRecoveryUnavailableException",
            "PolicyNotFoundException",
            "ReplicaAlreadyExistsException",
            "ReplicaNotFoundException",
            "SessionDurationEscalationException",
            "UserError",
            "UserErrorException",
            "VerificationException",
        ],
        UNUSED,
    ),
];
