//! What keeps the SDK from what it cannot use: profile files read already, and credentials checked
//! before they are put into a header, where it would panic.

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

/// None, and why.
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

/// What the SDK's chain finds, if a header can hold it.
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
            check(found.await?)
        })
    }

    fn fallback_on_interrupt(&self) -> Option<Credentials> {
        self.0.fallback_on_interrupt()
    }
}

fn unusable(why: String) -> CredentialsError {
    CredentialsError::invalid_configuration(UnusableCredentials(why))
}

fn check(found: Credentials) -> Result<Credentials, CredentialsError> {
    let parts = [
        ("access key id", Some(found.access_key_id())),
        ("secret access key", Some(found.secret_access_key())),
        ("session token", found.session_token()),
    ];
    for (what, part) in parts {
        if part.is_some_and(|part| part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(unusable(format!(
                "the {what} is empty, or holds a space or a line end; write it without that"
            )));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_that_no_header_takes_are_refused() {
        let with = |id: &str, secret: &str, token: Option<&str>| {
            check(Credentials::new(id, secret, token.map(str::to_owned), None, "test")).is_ok()
        };
        assert!(with("AKIA", "s/+=", None) && with("AKIA", "s", Some("t")));
        assert!(
            !with("AKIA\n", "s", None)
                && !with("AKIA", "s ", None)
                && !with("AKIA", "s", Some("t\r"))
                && !with("", "s", None)
        );
    }
}
