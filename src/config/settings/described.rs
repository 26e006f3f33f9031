//! Names and descriptions of settings, for people.

use super::setting::Setting;
use super::setting::SettingKind::{
    self, Address, AddressOrNone, Audiences, Claims, Count, File, Filter, Flag, Hash, Header, HeaderPatterns,
    Headers, Hosts, KeysSource, KmsKey, Message, Mode, Name, Names, Parameter, Path, Records, RegionName, Share,
    Size, Tags, Text, Topic, Uids, Url, UrlPerRegion, Word,
};
use crate::config::limits;

/// Beginning of every variable.
pub(in crate::config) const PREFIX: &str = "NEARSIDE__";

impl Setting {
    /// Its full name: `cache.ttl`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section.path(), self.key)
    }

    /// The environment variable that sets it, with `{NAME}` or `{N}` for one table of a list.
    pub fn variable(&self) -> String {
        let words = self.section.variable_words().join("__");
        format!("{PREFIX}{words}__{}", self.key.to_ascii_uppercase())
    }

    /// Values that it takes, in words: `a duration, 1s to 30days`.
    pub fn takes(&self) -> String {
        let time = humantime::format_duration;
        match self.kind {
            Text => "text".to_owned(),
            RegionName => "a name of letters, digits, `-`, `_`, `.`".to_owned(),
            Flag => "`true` or `false`".to_owned(),
            Count(from, to) => format!("a number, {from} to {to}"),
            SettingKind::Duration(from, to) => format!("a duration, {} to {}", time(from), time(to)),
            Size(from, to) => format!("a size, {} to {}", bytesize::ByteSize(from), bytesize::ByteSize(to)),
            Word(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
            Address => "an address and port".to_owned(),
            AddressOrNone => "an address and port, or `false`".to_owned(),
            Url => "an `http` or `https` URL".to_owned(),
            Topic => "the ARN of an SNS topic".to_owned(),
            Name => "a name of lower-case letters, digits, `-`, `_`".to_owned(),
            Names => format!("a list of at most {} names", limits::NAMES),
            Claims => format!("a list of at most {} claims, or `all`", limits::CLAIMS_PER_ROUTE),
            Audiences => format!("a list of at most {} audiences", limits::AUDIENCES),
            File => "a path".to_owned(),
            Mode => "octal bits, `0000` to `0777`".to_owned(),
            Uids => "a list of user ids".to_owned(),
            Header => "the name of a header".to_owned(),
            Headers => format!("a list of at most {} headers", limits::HEADERS_PER_ROUTE),
            HeaderPatterns => format!("a list of at most {} headers", limits::IGNORED_PER_ROUTE),
            Hosts => "a list of hosts".to_owned(),
            Tags => format!("a list of at most {} `name=value`", limits::QUEUE_TAGS),
            KmsKey => "`alias/NAME`, or a key's id".to_owned(),
            Path => "a path template".to_owned(),
            Records => format!("a list of 1 to {} record templates", limits::RECORDS_PER_ROUTE),
            Filter => "a filter".to_owned(),
            Message => "`FILE#MESSAGE`".to_owned(),
            Parameter => "the name of a query parameter".to_owned(),
            Share => "a number, 0 to 1".to_owned(),
            KeysSource => "a path, an `https` URL, or `discovery`".to_owned(),
            Hash => "64 hexadecimal digits".to_owned(),
            UrlPerRegion => "an `http` or `https` URL, perhaps with `{region}`".to_owned(),
        }
    }
}
