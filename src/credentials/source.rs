//! The origins of tokens: one mint, without any decision about time.

use super::error::MintError;
use super::jwt;
use super::oauth::OauthClient;
use super::token::Token;
use super::{keys, sts};
use crate::aws::clients::Sdk;
use crate::config::Minting;
use crate::model::time::Wall;
use crate::tasks::on_disk;
use crate::tasks::supervision::pass_panic_on;

/// Origin of the tokens of one setting.
pub(super) enum Source {
    Sts(Sdk),
    Sigv4(Sdk),
    Jwt,
    Oauth(OauthClient),
    #[cfg(test)]
    Given(Given),
}

/// Source of a test's tokens.
#[cfg(test)]
pub(super) type Given =
    Box<dyn Fn() -> futures_util::future::BoxFuture<'static, Result<Token, MintError>> + Send + Sync>;

impl Source {
    /// Checks the file that it needs, so that a start fails early.
    pub(super) fn new(minting: &Minting, sdk: &Sdk) -> Result<Self, MintError> {
        Ok(match minting {
            Minting::Sts(_) => Self::Sts(sdk.clone()),
            Minting::Sigv4(_) => Self::Sigv4(sdk.clone()),
            Minting::Jwt(jwt) => jwt::key(&jwt.key_file).map(|_| Self::Jwt)?,
            Minting::Oauth(oauth) => {
                super::oauth::secret(&oauth.secret_file)?;
                Self::Oauth(OauthClient::default())
            }
        })
    }

    /// A new token; `now` is what this machine's clock says.
    pub(super) async fn mint(&self, minting: &Minting, now: Wall) -> Result<Token, MintError> {
        match (self, minting) {
            (Self::Sts(sdk), Minting::Sts(minting)) => sts::mint(sdk, minting).await,
            (Self::Sigv4(sdk), Minting::Sigv4(signing)) => keys::of_process(sdk, signing, now).await,
            #[cfg(test)]
            (Self::Given(mint), _) => mint().await,
            (Self::Oauth(client), Minting::Oauth(minting)) => client.mint(minting).await,
            (_, Minting::Jwt(minting)) => {
                let minting = minting.clone();
                let signed = on_disk(move || jwt::mint(&minting, now)).await;
                signed.unwrap_or_else(|| pass_panic_on())
            }
            // A source is made of its setting.
            (_, Minting::Sts(_) | Minting::Oauth(_) | Minting::Sigv4(_)) => Err(MintError::Late),
        }
    }
}
