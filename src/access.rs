//! Who may read and who may write: a credential in, a principal out, and a decision over principal,
//! grants and name. `docs/access.md` is the design.
//!
//! [`gate`] is what a port asks. It verifies by [`token`] and [`keys`], goes by the document in
//! [`grants`], and decides by [`decision`]; all of these are pure.

pub mod calendar;
pub mod certificate;
pub mod claims;
pub mod counts;
pub mod credentials;
pub mod decision;
pub mod denial;
mod denial_lines;
pub mod deny_file;
pub mod editing;
pub mod exposition;
pub mod gate;
pub mod grants;
pub mod issuer;
pub mod issuers;
pub mod key_fetch;
pub mod key_file;
pub mod keys;
pub mod known;
pub mod limits;
pub mod names;
pub mod patterns;
pub mod principal;
pub mod record;
pub mod remembered;
pub mod strict_json;
pub mod token;
pub mod verifier;
