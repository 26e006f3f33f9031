//! A setting: what it takes, its default, and when a new value takes effect.

use std::time::Duration;

use super::section::Section;

/// The kind of values that a setting takes. Ranges include both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    Text,
    RegionName,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Count(u64, u64),
    /// A number with a unit of time.
    Duration(Duration, Duration),
    /// A number with a unit of bytes.
    Size(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// An address with a port.
    Address,
    /// An address with a port, or `false` or `""` for none.
    AddressOrNone,
    /// A base URL, `http` or `https`.
    Url,
    /// The ARN of an SNS topic.
    Topic,
    /// Name of a record type or a view.
    Name,
    Names,
    /// Names of claims in a token.
    Claims,
    /// Values of `aud` in a token.
    Audiences,
    File,
    /// Permission bits, octal.
    Mode,
    Uids,
    Header,
    Headers,
    /// Names of headers, or `prefix-*`.
    HeaderPatterns,
    /// Host names without a port.
    Hosts,
    /// AWS tags, each `name=value`.
    Tags,
    /// A KMS key, by its alias or id.
    KmsKey,
    /// A path with `{named}` segments.
    Path,
    /// `type:key` templates.
    Records,
    /// A filter of `tracing`: `info`, `nearside=debug`.
    Filter,
    /// A file with descriptors and a message in it: `contexts.binpb#acme.v1.Context`.
    Message,
    /// Name of a query parameter.
    Parameter,
    /// A number from 0 to 1.
    Share,
    /// A base URL in which `{region}` stands for the region's name.
    UrlPerRegion,
    /// A SHA-256 hash in hexadecimal digits.
    Hash,
    /// A file, an `https` URL, or `discovery`.
    KeysSource,
}

/// The value of a setting that is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetValue {
    /// It must be written. Where it is missing or wrong, this stands in for it while the rest is
    /// read, `{N}` being the index of its table.
    Required(&'static str),
    /// This value, written as in a variable; `""` is none.
    Is(&'static str),
    /// The value of this other setting.
    Like(&'static Setting),
}

/// The moment at which a new value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    Live,
    /// Only with a restart: applying it would cost the cache, the subscriptions or the listeners.
    Restart,
}

/// One setting, identified by its section and key.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub section: Section,
    pub key: &'static str,
    pub kind: SettingKind,
    pub preset: PresetValue,
    /// One line about it, for people.
    pub about: &'static str,
    /// The moment at which a new value takes effect.
    pub reload: Reload,
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        (self.section, self.key) == (other.section, other.key)
    }
}

impl Eq for Setting {}
