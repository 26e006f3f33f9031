//! The schema of a file: every setting that it may hold.

use super::section::Section;
use super::setting::Setting;

/// Schema of the file that one program, or several, read.
#[derive(Debug)]
pub(in crate::config) struct Schema {
    /// Commands that read it.
    pub program: &'static str,
    /// Its sections, in the order in which they are documented and printed.
    pub sections: &'static [SectionRows],
    /// Setting for which `AWS_ENDPOINT_URL` stands where it is not written.
    pub aws_endpoint: &'static Setting,
    /// Schema of the other file.
    pub other: &'static Self,
}

/// The rows of a section; those of one field stand together.
#[derive(Clone, Copy, Debug)]
pub(in crate::config) struct SectionRows {
    pub section: Section,
    pub rows: &'static [&'static [Setting]],
}

impl SectionRows {
    pub(in crate::config) fn settings(&self) -> impl Iterator<Item = &'static Setting> + use<> {
        self.rows.iter().copied().flatten()
    }
}

impl Schema {
    pub(in crate::config) fn sections(&self) -> impl Iterator<Item = Section> + Clone + use<> {
        self.sections.iter().map(|rows| rows.section)
    }

    /// Every setting, in the order in which they are documented and printed.
    pub(in crate::config) fn settings(&self) -> impl Iterator<Item = &'static Setting> + use<> {
        self.sections.iter().flat_map(SectionRows::settings)
    }

    /// The settings of one section, in order.
    pub(in crate::config) fn settings_of(&self, section: Section) -> impl Iterator<Item = &'static Setting> + use<> {
        self.settings().filter(move |setting| setting.section == section)
    }

    /// Index of a setting among all of them.
    pub(in crate::config) fn rank(&self, setting: &Setting) -> usize {
        self.settings().position(|known| known == setting).unwrap_or(usize::MAX)
    }
}
