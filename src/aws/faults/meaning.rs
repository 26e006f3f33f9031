//! The meanings that error codes have.

/// Meaning of an error code for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
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
