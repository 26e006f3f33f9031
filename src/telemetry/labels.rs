//! Labels of metrics: closed sets of values, so that a misspelt one does not compile.
//!
//! A label's value is the name of a configured region or a variant of an enum, never something that
//! a caller or a region sent. Since each set is closed, every series exists at zero from the start,
//! and the first event of an alarm is an increase like any other.

use std::fmt::{self, Write};
use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

use crate::model::ids::RegionId;
use crate::protocol::limits::{AUDIT_WINDOWS, REGIONS};

/// Set of labels of which all values are known.
pub(crate) trait LabelSet: Sized {
    /// Every combination of values, in order.
    fn all(regions: &Regions) -> Vec<Self>;

    /// Position among all combinations.
    fn position(&self) -> usize;
}

/// Label of which all values are known.
pub(crate) trait Label: Sized {
    /// Number of values; of regions, of which fewer may be configured, the most that there may be. So
    /// a region is the first label of its set.
    const COUNT: usize;

    /// Every value, in order.
    fn all(regions: &Regions) -> Vec<Self>;

    /// Position among all values.
    fn position(&self) -> usize;
}

/// Lets enums be labels, each value under the word that strum gives the variant.
macro_rules! label_values {
    ($($value:ty),+ $(,)?) => {$(
        impl $crate::telemetry::labels::Label for $value {
            const COUNT: usize = <$value as ::strum::VariantArray>::VARIANTS.len();

            fn all(_: &$crate::telemetry::labels::Regions) -> Vec<Self> {
                <$value as ::strum::VariantArray>::VARIANTS.to_vec()
            }

            fn position(&self) -> usize {
                *self as usize
            }
        }

        impl ::prometheus_client::encoding::EncodeLabelValue for $value {
            fn encode(&self, encoder: &mut ::prometheus_client::encoding::LabelValueEncoder<'_>) -> ::std::fmt::Result {
                ::std::fmt::Write::write_str(encoder, self.into_str())
            }
        }
    )+};
}

/// Defines sets of labels: in each, the labels' names and the types of their values.
macro_rules! label_sets {
    ($($set:ident { $($label:ident: $value:ty),+ $(,)? })+) => {$(
        #[derive(Clone, Debug, PartialEq, Eq, ::prometheus_client::encoding::EncodeLabelSet)]
        pub(crate) struct $set {
            $($label: $value,)+
        }

        impl $crate::telemetry::labels::LabelSet for $set {
            fn all(regions: &$crate::telemetry::labels::Regions) -> Vec<Self> {
                let mut all = Vec::new();
                label_sets!(@every all, regions, $set [] $($label: $value,)+);
                all
            }

            fn position(&self) -> usize {
                let position = 0;
                $(
                    let position = position * <$value as $crate::telemetry::labels::Label>::COUNT
                        + $crate::telemetry::labels::Label::position(&self.$label);
                )+
                position
            }
        }
    )+};
    (@every $all:ident, $regions:ident, $set:ident [$($label:ident)+]) => {
        $all.push($set { $($label: $label.clone()),+ })
    };
    (@every $all:ident, $regions:ident, $set:ident [$($outer:ident)*] $label:ident: $value:ty, $($inner:tt)*) => {
        for $label in <$value as $crate::telemetry::labels::Label>::all($regions) {
            label_sets!(@every $all, $regions, $set [$($outer)* $label] $($inner)*);
        }
    };
}

pub(crate) use {label_sets, label_values};

/// Names of the configured regions, in the configuration's order; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Regions(Arc<[RegionLabel]>);

impl Regions {
    pub(crate) fn new(names: &[String]) -> Self {
        let labels = names.iter().enumerate();
        Self(labels.map(|(position, name)| RegionLabel { position, name: name.as_str().into() }).collect())
    }

    /// Label of a configured region.
    pub(crate) fn label(&self, id: RegionId) -> Option<RegionLabel> {
        self.0.get(id.index()).cloned()
    }

    /// Label of a region, or of none.
    pub(crate) fn label_or_none(&self, id: Option<RegionId>) -> RegionOrNone {
        RegionOrNone(id.and_then(|id| self.label(id)))
    }
}

/// A configured region, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegionLabel {
    position: usize,
    name: Arc<str>,
}

impl Label for RegionLabel {
    const COUNT: usize = REGIONS;

    fn all(regions: &Regions) -> Vec<Self> {
        regions.0.to_vec()
    }

    fn position(&self) -> usize {
        self.position
    }
}

impl EncodeLabelValue for RegionLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(&self.name)
    }
}

/// A configured region, or `none`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegionOrNone(Option<RegionLabel>);

impl Label for RegionOrNone {
    const COUNT: usize = 1 + REGIONS;

    fn all(regions: &Regions) -> Vec<Self> {
        [None].into_iter().chain(regions.0.iter().cloned().map(Some)).map(Self).collect()
    }

    fn position(&self) -> usize {
        self.0.as_ref().map_or(0, |region| 1 + region.position)
    }
}

impl EncodeLabelValue for RegionOrNone {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.0.as_ref().map_or("none", |region| &region.name))
    }
}

/// One of [`AUDIT_WINDOWS`], by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuditWindow(pub(crate) usize);

impl Label for AuditWindow {
    const COUNT: usize = AUDIT_WINDOWS.len();

    fn all(_: &Regions) -> Vec<Self> {
        (0..Self::COUNT).map(Self).collect()
    }

    fn position(&self) -> usize {
        self.0
    }
}

impl EncodeLabelValue for AuditWindow {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        write!(encoder, "{}s", AUDIT_WINDOWS[self.0].as_secs())
    }
}
