//! Tokens that the sidecar mints for itself.

use prometheus_client::metrics::counter::Counter;

use super::definition::{Family, metrics};
use crate::telemetry::labels::{label_sets, label_values};

/// Kind of credentials that are minted, or signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum MintKind {
    Jwt,
    Oauth,
    Sigv4,
    Sts,
}

/// Outcome of a mint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum MintOutcome {
    Minted,
    Failed,
}

label_values!(MintKind, MintOutcome);

label_sets! {
    MintLabels { kind: MintKind, outcome: MintOutcome }
    MintKindLabels { kind: MintKind }
}

metrics! {
    /// Tokens that the sidecar mints for itself.
    pub struct CredentialsMetrics("credentials_") {
        /// Mints of the sidecar's own credentials, by kind and outcome.
        mints: Family<MintLabels, Counter>,
        /// Tokens of the sidecar's own that were replaced because a region refused them.
        discards: Family<MintKindLabels, Counter>,
    }
}

impl CredentialsMetrics {
    /// A mint ended.
    pub fn mint(&self, kind: MintKind, outcome: MintOutcome) {
        self.mints.at(&MintLabels { kind, outcome }).inc();
    }

    /// A token is replaced because a region refused it.
    pub fn discard(&self, kind: MintKind) {
        self.discards.at(&MintKindLabels { kind }).inc();
    }

    /// Mints of this kind with this outcome.
    pub fn mints(&self, kind: MintKind, outcome: MintOutcome) -> u64 {
        self.mints.at(&MintLabels { kind, outcome }).get()
    }

    /// Tokens of this kind that were replaced because a region refused them.
    pub fn discards(&self, kind: MintKind) -> u64 {
        self.discards.at(&MintKindLabels { kind }).get()
    }
}
