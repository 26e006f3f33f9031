//! Lines of a doctor on the tokens that the sidecar mints: what they state, and never the tokens.

use crate::admin::findings::report::{LineState, ReportLine};
use crate::credentials::MinterStatus;

/// A line for each setting by which tokens are minted.
pub(super) fn lines(minters: &[MinterStatus]) -> Vec<ReportLine> {
    minters.iter().map(line).collect()
}

fn line(minter: &MinterStatus) -> ReportLine {
    let claims = minter.claims.as_ref().map(ToString::to_string);
    let (state, saw, advice) = match (claims.filter(|_| minter.is_usable), &minter.failure) {
        (Some(claims), None) => {
            let left = minter.left.unwrap_or_default().as_secs();
            (LineState::Well, format!("{claims}; it ends in {left} s"), String::new())
        }
        (_, failure) => {
            let why = failure.clone().unwrap_or_else(|| "none was minted in time".to_owned());
            let advice = "regions are asked for nothing without one (docs/credentials.md)".to_owned();
            (LineState::Wrong, why, advice)
        }
    };
    ReportLine {
        state,
        subject: minter.kind.into_str().to_owned(),
        check: "credentials",
        title: "the sidecar mints its own credentials",
        saw,
        advice,
    }
}
