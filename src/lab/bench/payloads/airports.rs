//! The public data set: 28,000 airports of the Python package airportsdata, in two halves. A
//! dictionary for each form was trained on one half; `tests/payloads/setup.sh` makes all of it.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use prost::Message;
use serde::{Deserialize, Serialize};

use crate::payload::coding::Dictionary;

/// Where the set is, from the root of the repository.
pub(crate) const PLACE: &str = "target/payloads/set";

/// One record.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(crate) struct Airport {
    #[prost(string, tag = "1")]
    pub icao: String,
    #[prost(string, tag = "2")]
    pub iata: String,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub city: String,
    #[prost(string, tag = "5")]
    pub subd: String,
    #[prost(string, tag = "6")]
    pub country: String,
    #[prost(sint32, tag = "7")]
    pub elevation: i32,
    #[prost(double, tag = "8")]
    pub lat: f64,
    #[prost(double, tag = "9")]
    pub lon: f64,
    #[prost(string, tag = "10")]
    pub tz: String,
    #[prost(string, tag = "11")]
    pub lid: String,
}

/// A reply: records by their keys.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(crate) struct Airports {
    #[prost(btree_map = "string, message", tag = "1")]
    pub airports: BTreeMap<String, Airport>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireForm {
    Json,
    Protobuf,
}

impl WireForm {
    pub(crate) const ALL: [Self; 2] = [Self::Json, Self::Protobuf];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Protobuf => "Protobuf",
        }
    }

    pub(crate) fn written(self, reply: &Airports) -> Bytes {
        match self {
            Self::Json => serde_json::to_vec(reply).expect("strings and finite numbers").into(),
            Self::Protobuf => reply.encode_to_vec().into(),
        }
    }

    /// `None` if the body is not of that form.
    pub(crate) fn read(self, body: &[u8]) -> Option<Airports> {
        match self {
            Self::Json => serde_json::from_slice(body).ok(),
            Self::Protobuf => Airports::decode(body).ok(),
        }
    }
}

/// The set as it is measured.
pub(crate) struct AirportSet {
    /// The half that no dictionary has seen.
    measured: Vec<Airport>,
    /// The other one: for bodies that are longer than the first.
    trained: Vec<Airport>,
    /// By form.
    dictionaries: [Dictionary; 2],
}

impl AirportSet {
    /// Reads the set; `None` if it was not made, or by another version of the script.
    pub(crate) fn find(place: &Path) -> Option<Self> {
        let records = |name: &str| -> Option<Vec<Airport>> {
            let text = std::fs::read_to_string(place.join(name)).ok()?;
            text.lines().map(|line| serde_json::from_str(line).ok()).collect()
        };
        let dictionary = |form: WireForm| {
            let name = format!("{}.dictionary", form.word().to_lowercase());
            let hash = std::fs::read_to_string(place.join(format!("{name}.sha256"))).ok()?;
            Dictionary::read(std::fs::read(place.join(name)).ok()?, hash.trim()).ok()
        };
        let dictionaries = [dictionary(WireForm::Json)?, dictionary(WireForm::Protobuf)?];
        Self::new(records("measured.jsonl")?, records("trained.jsonl")?, dictionaries)
    }

    fn new(measured: Vec<Airport>, trained: Vec<Airport>, dictionaries: [Dictionary; 2]) -> Option<Self> {
        (!measured.is_empty()).then_some(Self { measured, trained, dictionaries })
    }

    pub(crate) fn dictionary(&self, form: WireForm) -> &Dictionary {
        &self.dictionaries[form as usize]
    }

    /// The records of the half that is measured, one by one.
    pub(crate) fn records(&self) -> &[Airport] {
        &self.measured
    }

    /// `count` replies of about `bytes` each as JSON, of at least one record and at most all. Beyond
    /// the end of the set it begins again.
    pub(crate) fn replies(&self, bytes: usize, count: usize) -> Vec<Airports> {
        let all = self.measured.len() + self.trained.len();
        let mut records = self.measured.iter().chain(&self.trained).cycle();
        let mut reply = || {
            let (mut length, mut airports) = (0, BTreeMap::new());
            while airports.len() < all {
                let Some(record) = records.next() else { break };
                length += serde_json::to_string(record).map_or(0, |text| text.len()) + record.icao.len() + 4;
                airports.insert(record.icao.clone(), record.clone());
                // Another one like it would take it further from its length than it is.
                if length + length / airports.len() / 2 > bytes {
                    break;
                }
            }
            Airports { airports }
        };
        (0..count).map(|_| reply()).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use aws_lc_rs::digest::{SHA256, digest};

    use super::*;

    /// A small set of made-up records; its dictionaries are records of the other half.
    pub(in crate::lab::bench) fn made_up() -> AirportSet {
        let record = |number: i32| Airport {
            icao: format!("K{number:03}"),
            name: format!("Airfield {} North", number * 7919 % 1000),
            city: format!("Town {}", number * 104_729 % 1000),
            country: "NO".into(),
            elevation: number,
            lat: 60.0 + f64::from(number) / 7.0,
            lon: -f64::from(number) / 3.0,
            tz: "Europe/Oslo".into(),
            ..Airport::default()
        };
        let trained: Vec<Airport> = (500..600).map(record).collect();
        let dictionary = |form: WireForm| {
            let airports = trained.iter().map(|record| (record.icao.clone(), record.clone())).collect();
            let content = form.written(&Airports { airports });
            let hash = digest(&SHA256, &content);
            let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            Dictionary::read(content, &hex).unwrap()
        };
        let dictionaries = WireForm::ALL.map(dictionary);
        AirportSet::new((0..200).map(record).collect(), trained, dictionaries).unwrap()
    }

    #[test]
    fn a_reply_reads_back_from_either_form() {
        for reply in made_up().replies(2000, 3) {
            for form in WireForm::ALL {
                assert_eq!(form.read(&form.written(&reply)).as_ref(), Some(&reply), "{form:?}");
            }
        }
    }

    #[test]
    fn replies_are_as_long_as_asked_for_and_no_record_is_twice_in_one() {
        let set = made_up();
        for (bytes, count) in [(150, 3), (1000, 20), (20_000, 2)] {
            let replies = set.replies(bytes, count);
            assert_eq!(replies.len(), count);
            for reply in &replies {
                let length = WireForm::Json.written(reply).len();
                assert!(length.abs_diff(bytes) < 120, "{length} of {bytes}");
            }
        }
        assert_eq!(set.replies(1, 1)[0].airports.len(), 1);
        assert_eq!(set.replies(usize::MAX / 2, 1)[0].airports.len(), 300, "all there are");
    }

    #[test]
    fn what_is_not_there_or_damaged_is_no_set() {
        let folder = tempfile::tempdir().unwrap();
        assert!(AirportSet::find(folder.path()).is_none());
        for form in ["json", "protobuf"] {
            std::fs::write(folder.path().join(format!("{form}.dictionary")), "abc").unwrap();
            let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n";
            std::fs::write(folder.path().join(format!("{form}.dictionary.sha256")), hash).unwrap();
        }
        let record = serde_json::to_string(&made_up().records()[0]).unwrap();
        for name in ["measured.jsonl", "trained.jsonl"] {
            std::fs::write(folder.path().join(name), format!("{record}\n")).unwrap();
        }
        assert_eq!(AirportSet::find(folder.path()).unwrap().records().len(), 1);
        std::fs::write(folder.path().join("json.dictionary"), "abd").unwrap();
        assert!(AirportSet::find(folder.path()).is_none());
    }
}
