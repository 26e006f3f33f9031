//! Names that rows of settings are written with: the kinds, and the numbers that stand in them.

use std::time::Duration;

use strum::VariantNames;

pub(in crate::config) use super::setting::PresetValue::{Is, Like, Required};
pub(in crate::config) use super::setting::SettingKind::*;

/// One of the words of an enum.
pub(in crate::config) const fn words<T: VariantNames>() -> super::setting::SettingKind {
    Word(T::VARIANTS)
}

pub(in crate::config) const fn millis(from: u64, to: u64) -> super::setting::SettingKind {
    Duration(Duration::from_millis(from), Duration::from_millis(to))
}

pub(in crate::config) const fn seconds(from: u64, to: u64) -> super::setting::SettingKind {
    Duration(Duration::from_secs(from), Duration::from_secs(to))
}

pub(in crate::config) const MIB: u64 = 1 << 20;
pub(in crate::config) const TIB: u64 = 1 << 40;
pub(in crate::config) const MINUTE: u64 = 60;
pub(in crate::config) const HOUR: u64 = 60 * MINUTE;
pub(in crate::config) const DAY: u64 = 24 * HOUR;
