//! The credentials that the sidecar itself sends to regions: those of a file, bearer tokens that it
//! mints, and signatures (decision 0043).
//!
//! One [`Minter`] stands for each distinct setting, and one task of its own mints for all who wait.
//! The `schedule` says when, and does no I/O; `sts`, `jwt` and `oauth` get a token, and know no time;
//! `sigv4` gets the keys of this process in the same way, and signs with them.
//! Nothing here prints a token or a secret: headers are sensitive, and the types have no `Debug` that
//! shows them.

mod claims;
mod error;
mod file;
mod held;
mod jwt;
mod keys;
pub(crate) mod limits;
mod minter;
mod minters;
mod oauth;
mod schedule;
#[cfg(test)]
pub(crate) mod scripted;
mod sigv4;
mod source;
mod sts;
#[cfg(test)]
mod tests;
mod token;

pub use claims::Claims;
pub use error::{CredentialsError, MintError};
pub use file::FileCredentials;
pub use held::{HeldCredentials, MintedCredentials};
pub use minter::{Carried, Credential, MintDeps, Minter};
pub use minters::{MinterStatus, Minters};
pub use sigv4::{Scope, refusal};
