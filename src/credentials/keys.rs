//! The AWS keys of this process, which sign.

use aws_credential_types::Credentials;

use super::claims::Claims;
use super::error::MintError;
use super::limits::UNSTATED_LIFE_OF_KEYS;
use super::sigv4::SigningKeys;
use super::token::{Secret, Token};
use crate::aws::clients::Sdk;
use crate::config::Sigv4Signing;
use crate::model::time::Wall;

/// The keys of this process, by the SDK's chain.
pub(super) async fn of_process(sdk: &Sdk, signing: &Sigv4Signing, now: Wall) -> Result<Token, MintError> {
    let region = signing.regions.values().next().map_or("us-east-1", String::as_str);
    let found = sdk.keys(region).await.map_err(MintError::Keys)?;
    Ok(of_keys(found, now))
}

/// Keys as a token of their life.
pub(super) fn of_keys(found: Credentials, now: Wall) -> Token {
    let left = found.expiry().map(|end| Wall::from_system_time(end).since(now));
    let key_id = Some(found.access_key_id().to_owned());
    let exp = found.expiry().map(|end| Wall::from_system_time(end).as_millis() / 1_000);
    let claims = Claims { key_id, exp, ..Claims::default() };
    let life = left.unwrap_or(UNSTATED_LIFE_OF_KEYS);
    Token { secret: Secret::Keys(SigningKeys(found.into())), claims, life }
}
