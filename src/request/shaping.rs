//! An outcome in the shape that its caller asked for, where the store did not answer.

use http::HeaderMap;

use super::answer::Outcome;
use super::settings::Settings;
use crate::cache::key::Key;
use crate::shape::shapes::Shape;
use crate::shape::show::{Shaped, Unshaped};

pub(super) async fn in_shape(
    settings: &Settings,
    shape: Shape,
    key: &Key,
    headers: &HeaderMap,
    outcome: Outcome,
) -> Outcome {
    match outcome {
        Outcome::Shown(shown) => {
            outcome_of(Unshaped { shown, shape, key: key.clone() }.away(&settings.shared.deriver, headers).await)
        }
        other => other,
    }
}

pub(super) fn outcome_of(shaped: Shaped) -> Outcome {
    match shaped {
        Shaped::Shown(shown) => Outcome::Shown(shown),
        Shaped::Refused(refused) => Outcome::Unshaped(refused),
    }
}
