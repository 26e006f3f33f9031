//! Settings: the section, key, kind, range, default and description of each, and the schema that
//! lists those of a file. The settings themselves stand beside what is made of them, in tables
//! ([`super::table`]); [`super::schema`] lists the tables.

mod described;
pub(in crate::config) mod rows;
mod schema;
mod section;
mod setting;

pub(in crate::config) use described::PREFIX;
pub(in crate::config) use schema::{Schema, SectionRows};
pub(crate) use section::{Addressed, Section};
pub(crate) use setting::{PresetValue, Reload, Setting, SettingKind};
