//! The regions' grants, as a sidecar comes to know them (R22).

use prometheus_client::metrics::counter::Counter;

use super::definition::{Family, metrics};
use crate::model::ids::RegionId;
use crate::telemetry::labels::{RegionLabel, label_sets, label_values};

/// Outcome of a race that a permit hung on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum PermitOutcome {
    Granted,
    Refused,
    /// No region that knows the newest grants decided.
    Unconfirmed,
}

/// Answer by which a region contradicts others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Contradiction {
    /// It allowed what others refuse by the same grants.
    Allowed,
    /// It refused what others allow by the same grants.
    Refused,
    /// It states no grants, and others do.
    Silent,
}

/// Statement of a region's answer about the caller's grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum GrantsAnswer {
    Allowed,
    Refused,
    /// It states no grants.
    Silent,
    /// A 401: it does not believe the credential.
    Unauthenticated,
}

label_values!(PermitOutcome, Contradiction, GrantsAnswer);

label_sets! {
    PermitLabels { outcome: PermitOutcome }
    ContradictionLabels { region: RegionLabel, answer: Contradiction }
    GrantsAnswerLabels { region: RegionLabel, answer: GrantsAnswer }
}

metrics! {
    /// The regions' grants, as a sidecar comes to know them.
    pub struct GrantsMetrics {
        regions: Regions;
        /// Races that a caller's permit hung on, by what regions said.
        permit_checks: Family<PermitLabels, Counter>,
        /// Answers of regions, by what they say of the caller's grant.
        grants_answers: Family<GrantsAnswerLabels, Counter>,
        /// Answers by which a region contradicts others about a grant.
        grants_contradicted: Family<ContradictionLabels, Counter>,
    }
}

impl GrantsMetrics {
    /// Regions were asked for a permit.
    pub fn checked(&self, outcome: PermitOutcome) {
        self.permit_checks.at(&PermitLabels { outcome }).inc();
    }

    /// A region contradicted others.
    pub fn contradicted(&self, region: RegionId, answer: Contradiction) {
        if let Some(region) = self.regions.label(region) {
            self.grants_contradicted.at(&ContradictionLabels { region, answer }).inc();
        }
    }

    /// A region answered.
    pub fn answered(&self, region: RegionId, answer: GrantsAnswer) {
        if let Some(region) = self.regions.label(region) {
            self.grants_answers.at(&GrantsAnswerLabels { region, answer }).inc();
        }
    }

    /// Answers of a region that say this.
    pub fn answers(&self, region: RegionId, answer: GrantsAnswer) -> u64 {
        let labels = self.regions.label(region).map(|region| GrantsAnswerLabels { region, answer });
        labels.map_or(0, |labels| self.grants_answers.at(&labels).get())
    }

    /// Checks of permits with this outcome.
    pub fn checks(&self, outcome: PermitOutcome) -> u64 {
        self.permit_checks.at(&PermitLabels { outcome }).get()
    }

    /// Contradictions of this kind by a region.
    pub fn contradictions(&self, region: RegionId, answer: Contradiction) -> u64 {
        let labels = self.regions.label(region).map(|region| ContradictionLabels { region, answer });
        labels.map_or(0, |labels| self.grants_contradicted.at(&labels).get())
    }
}
