//! Tokens of AWS's STS for the role of this process (`GetWebIdentityToken`): RS256, from a regional
//! endpoint, and from the next region's when one fails.

use super::error::MintError;
use super::token::Token;
use crate::aws::clients::Sdk;
use crate::aws::failure::CallFailure;
use crate::config::StsMinting;

/// Asks one region after another.
pub(super) async fn mint(sdk: &Sdk, minting: &StsMinting) -> Result<Token, MintError> {
    let mut failure = MintError::Late;
    for region in &minting.regions {
        match of_region(sdk, minting, region).await {
            Ok(token) => return Ok(token),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn of_region(sdk: &Sdk, minting: &StsMinting, region: &str) -> Result<Token, MintError> {
    let seconds = i32::try_from(minting.lifetime.as_secs()).unwrap_or(i32::MAX);
    let answer = sdk
        .token_client(region)
        .await
        .get_web_identity_token()
        .audience(&minting.audience)
        .duration_seconds(seconds)
        .signing_algorithm("RS256")
        .send()
        .await
        .map_err(|error| {
            let failure = CallFailure::of("GetWebIdentityToken", &error);
            MintError::Sts { region: region.to_owned(), failure }
        })?;
    let token = answer.web_identity_token.and_then(|token| Token::new(token, Some(minting.lifetime)));
    token.ok_or_else(|| MintError::StsAnswer(region.to_owned()))
}

#[cfg(test)]
mod tests;
