//! The coding in which a route's replies are asked for.

use std::path::PathBuf;

use super::scope::{Collector, SettingScope};
use super::table::{Rows, inner, settings};
use super::value::words;

/// `compression` of a route, and its `dictionary`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compression {
    Gzip,
    /// Else gzip.
    Zstd(Option<DictionaryFile>),
}

words! {
    pub(super) enum CompressionWord {
        Off,
        Gzip,
        Zstd,
    }
}

impl Compression {
    pub(super) fn read(collector: &mut Collector, scope: &SettingScope, [compression]: Rows<1>) -> Option<Self> {
        let dictionary = inner(collector, scope, []);
        match scope.get(collector, compression) {
            CompressionWord::Off => None,
            CompressionWord::Gzip => Some(Self::Gzip),
            CompressionWord::Zstd => Some(Self::Zstd(dictionary)),
        }
    }
}

settings! {
    /// `dictionary` of a route: a file, and the SHA-256 hash that it must have.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DictionaryFile in Dictionary {
        /// With `zstd` and every region over https: a dictionary that regions have too, at most 1 MiB.
        file: PathBuf = DICTIONARY_FILE(File, Required(""));
        /// The SHA-256 hash of that file, by which regions know it.
        hash: String = DICTIONARY_HASH(
            Hash,
            Required("0000000000000000000000000000000000000000000000000000000000000000")
        );
    }
}
