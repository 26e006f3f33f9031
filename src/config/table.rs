//! The form in which settings are written: a section is a struct, and a setting one row of it. A row
//! has a line about the setting, the field and its type, and then
//!
//! - `CONSTANT(kind, default)`: the key is the field's name, and `FromRaw` of the type reads the
//!   value; or
//! - `function[ ROW; .. ]`, where several settings make one value, or none does: the function gets
//!   the rows' constants, and after `=>` what else it needs of the fields before.
//!
//! `Restart` at the end keeps the running value at a reload. Of all this come the constants, the
//! struct, its reading and its merging.

use super::scope::{Collector, SettingScope};
use super::settings::{Schema, SectionRows, Setting};
use super::tree::{Raw, TomlTable, Value};
use crate::config::error::{ConfigError, ConfigProblem, Place};

/// The settings of a field that several, or none, make.
pub(in crate::config) type Rows<const N: usize> = [&'static Setting; N];

/// A section of a file.
pub(in crate::config) trait Table: Sized {
    const ROWS: SectionRows;

    /// Reads each setting, in order.
    fn read(collector: &mut Collector, scope: &SettingScope) -> Self;

    /// Takes what needs a restart from the `running` settings.
    fn keep_running(&mut self, running: &Self);
}

pub(in crate::config) const fn rows<T: Table>() -> SectionRows {
    T::ROWS
}

/// The section where nothing is written.
pub(in crate::config) fn unwritten<T: Table>(schema: &'static Schema) -> T {
    let table = TomlTable::empty(Place::Default);
    T::read(&mut Collector::new(schema, Place::Default), &SettingScope { table, item: None })
}

/// The section of this type, empty where it is not written.
pub(in crate::config) fn section<T: Table>(collector: &mut Collector, root: &TomlTable) -> T {
    let scope = collector.table(root, T::ROWS.section);
    T::read(collector, &scope)
}

/// The tables of a list, such as `[[service.region]]`.
pub(in crate::config) fn list<T: Table>(collector: &mut Collector, scope: &SettingScope, _: Rows<0>) -> Vec<T> {
    let items = collector.items(&scope.table, T::ROWS.section);
    items.iter().map(|scope| T::read(collector, scope)).collect()
}

/// The table inside this one, if it is written.
pub(in crate::config) fn inner<T: Table>(collector: &mut Collector, scope: &SettingScope, _: Rows<0>) -> Option<T> {
    let section = T::ROWS.section;
    let raw = scope.table.get(section.inner_key()?)?;
    let Some(table) = table_of(raw) else {
        let problem = ConfigProblem::new(format!("{} where a table belongs", raw.kind()), section.example());
        collector.errors.push(ConfigError::new(raw.place.clone(), section.path(), problem));
        return None;
    };
    let scope = collector.checked_scope(table.clone(), section, scope.item);
    Some(T::read(collector, &scope))
}

/// The table inside this one, or its defaults.
pub(in crate::config) fn inner_or_empty<T: Table>(
    collector: &mut Collector,
    scope: &SettingScope,
    rows: Rows<0>,
) -> T {
    inner(collector, scope, rows).unwrap_or_else(|| {
        let empty = TomlTable::empty(scope.table.place.clone());
        let scope = collector.checked_scope(empty, T::ROWS.section, scope.item);
        T::read(collector, &scope)
    })
}

fn table_of(raw: &Raw) -> Option<&TomlTable> {
    if let Value::Table(table) = &raw.value { Some(table) } else { None }
}

/// A field that no file sets.
pub(in crate::config) fn unset<T: Default>(_: &mut Collector, _: &SettingScope, _: Rows<0>) -> T {
    T::default()
}

/// Writes a section with its rows.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident in $section:ident {
            $(
                $(#[doc = $about:literal])+
                $field:ident: $type:ty = $($how:ident)::+ $(($($row:tt)*))? $([$($rows:tt)*])?
                    $(=> ($($known:expr),+))? $($reload:ident)?;
            )+
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $( $(#[doc = $about])+ pub $field: $type, )+
        }

        $( $crate::config::table::constants! {
            $section, stringify!($field), concat!($($about),+), $crate::config::table::reload!($($reload)?),
            $($how)::+ $(($($row)*))? $([$($rows)*])?
        } )+

        impl $crate::config::table::Table for $name {
            const ROWS: $crate::config::settings::SectionRows = $crate::config::settings::SectionRows {
                section: $crate::config::settings::Section::$section,
                rows: &[$( $crate::config::table::row!($($how)::+ $(($($row)*))? $([$($rows)*])?) ),+],
            };

            fn read(
                collector: &mut $crate::config::scope::Collector,
                scope: &$crate::config::scope::SettingScope,
            ) -> Self {
                $( let $field: $type = $crate::config::table::value!(
                    collector, scope, ($($($known),+)?), $($how)::+ $(($($row)*))? $([$($rows)*])?
                ); )+
                Self { $($field),+ }
            }

            fn keep_running(&mut self, running: &Self) {
                let _ = running;
                $( $crate::config::table::keep!(self, running, $field, $($reload)?); )+
            }
        }
    };
}

/// The constants of one field's settings.
macro_rules! constants {
    ($section:ident, $key:expr, $about:expr, $reload:expr, $name:ident($kind:expr, $preset:expr)) => {
        #[doc = $about]
        pub(crate) const $name: $crate::config::settings::Setting = {
            use $crate::config::settings::rows::*;
            $crate::config::settings::Setting {
                section: $crate::config::settings::Section::$section,
                key: $key,
                kind: $kind,
                preset: $preset,
                about: $about.trim_ascii_start(),
                reload: $reload,
            }
        };
    };
    (
        $section:ident, $key:expr, $about:expr, $reload:expr, $($how:ident)::+
        [$( $(#[doc = $own:literal])+ $name:ident($own_key:literal, $kind:expr, $preset:expr); )*]
    ) => {
        $( $crate::config::table::constants! {
            $section, $own_key, concat!($($own),+), $reload, $name($kind, $preset)
        } )*
    };
}

/// The settings of one field.
macro_rules! row {
    ($name:ident($($row:tt)*)) => { &[$name] };
    ($($how:ident)::+ [$( $(#[$own:meta])+ $name:ident $row:tt; )*]) => { &[$($name),*] };
}

/// The value of one field.
macro_rules! value {
    ($collector:ident, $scope:ident, (), $name:ident($($row:tt)*)) => { $scope.get($collector, &$name) };
    (
        $collector:ident, $scope:ident, ($($known:expr),*), $($how:ident)::+
        [$( $(#[$own:meta])+ $name:ident $row:tt; )*]
    ) => { $($how)::+($collector, $scope, [$(&$name),*] $(, $known)*) };
}

/// Keeps a running value.
macro_rules! keep {
    ($self:ident, $running:ident, $field:ident,) => {};
    ($self:ident, $running:ident, $field:ident, Restart) => {
        $self.$field.clone_from(&$running.$field);
    };
}

macro_rules! reload {
    () => {
        $crate::config::settings::Reload::Live
    };
    ($reload:ident) => {
        $crate::config::settings::Reload::$reload
    };
}

pub(in crate::config) use {constants, keep, reload, row, settings, value};
