//! Keeps the SDK from two failures: opening profile files that block, and panicking on credentials
//! that no header can hold.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

#[expect(deprecated, reason = "the names that replace these are in a crate of the SDK's own")]
use aws_config::profile::profile_file::{ProfileFileKind, ProfileFiles};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};

use super::failure::UnusableCredentials;
use super::sdk_settings::SdkSettings;

/// The profile files as they were read, so that the SDK opens none: a pipe would keep it waiting.
#[expect(deprecated, reason = "the names that replace these are in a crate of the SDK's own")]
pub(super) fn profiles(settings: &SdkSettings) -> ProfileFiles {
    ProfileFiles::builder()
        .with_contents(ProfileFileKind::Config, settings.config.clone())
        .with_contents(ProfileFileKind::Credentials, settings.credentials.clone())
        .build()
}

/// A provider that has no credentials, and the reason.
#[derive(Debug)]
pub(super) struct NoCredentials(pub(super) String);

impl ProvideCredentials for NoCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err(unusable(self.0.clone())))
    }
}

/// Credentials by the SDK's chain, if a header can hold them.
#[derive(Debug)]
pub(super) struct CheckedCredentials(pub(super) SharedCredentialsProvider);

impl ProvideCredentials for CheckedCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            let mut asked = pin!(self.0.provide_credentials());
            let found = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| asked.as_mut().poll(cx))) {
                Ok(polled) => polled,
                Err(_) => Poll::Ready(Err(unusable("the AWS SDK panicked: the log says where".to_owned()))),
            });
            check_header_safe(found.await?)
        })
    }

    fn fallback_on_interrupt(&self) -> Option<Credentials> {
        self.0.fallback_on_interrupt()
    }
}

fn unusable(why: String) -> CredentialsError {
    CredentialsError::invalid_configuration(UnusableCredentials(why))
}

fn check_header_safe(found: Credentials) -> Result<Credentials, CredentialsError> {
    let parts = [
        ("access key id", Some(found.access_key_id())),
        ("secret access key", Some(found.secret_access_key())),
        ("session token", found.session_token()),
    ];
    for (what, part) in parts {
        if part.is_some_and(|part| part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(unusable(format!(
                "the {what} is empty or has characters other than visible ASCII; write it without them"
            )));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_invalid_in_headers_are_refused() {
        assert!(is_usable("AKIA", "s/+=", None) && is_usable("AKIA", "s", Some("t")));
        assert!(
            !is_usable("AKIA\n", "s", None)
                && !is_usable("AKIA", "s ", None)
                && !is_usable("AKIA", "s", Some("t\r"))
                && !is_usable("", "s", None)
        );
    }

    fn is_usable(id: &str, secret: &str, token: Option<&str>) -> bool {
        check_header_safe(Credentials::new(id, secret, token.map(str::to_owned), None, "test")).is_ok()
    }
}
