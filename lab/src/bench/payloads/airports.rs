//! The public data set: 28,000 airports of the Python package airportsdata, in two halves. A
//! dictionary for each form was trained on one half; `tests/payloads/setup.sh` makes all of it.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use nearside::payload::coding::Dictionary;
use prost::Message;
use serde::{Deserialize, Serialize};

/// Folder of the set, from the root of the repository.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub(crate) enum WireForm {
    #[strum(to_string = "JSON")]
    Json,
    Protobuf,
}

impl WireForm {
    pub(crate) const ALL: [Self; 2] = [Self::Json, Self::Protobuf];

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
    /// Dictionaries by form.
    dictionaries: [Dictionary; 2],
}

impl AirportSet {
    /// Reads the set; `None` if it was not made, or by another version of the script.
    pub(crate) fn find(place: &Path) -> Option<Self> {
        let dictionaries = [dictionary(place, WireForm::Json)?, dictionary(place, WireForm::Protobuf)?];
        Self::new(records(&place.join("measured.jsonl"))?, records(&place.join("trained.jsonl"))?, dictionaries)
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
        let replies = (0..count).map(|_| {
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
        });
        replies.collect()
    }
}

fn records(path: &Path) -> Option<Vec<Airport>> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().map(|line| serde_json::from_str(line).ok()).collect()
}

fn dictionary(place: &Path, form: WireForm) -> Option<Dictionary> {
    let name = format!("{form}.dictionary").to_lowercase();
    let hash = std::fs::read_to_string(place.join(format!("{name}.sha256"))).ok()?;
    Dictionary::read(std::fs::read(place.join(name)).ok()?, hash.trim()).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use aws_lc_rs::digest::{SHA256, digest};

    use super::*;

    /// A small set of made-up records; its dictionaries are records of the other half.
    pub(in crate::bench) fn made_up() -> AirportSet {
        let trained: Vec<Airport> = (500..600).map(record).collect();
        let dictionaries = WireForm::ALL.map(|form| {
            let airports = trained.iter().map(|record| (record.icao.clone(), record.clone())).collect();
            let content = form.written(&Airports { airports });
            let hash = digest(&SHA256, &content);
            let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            Dictionary::read(content, &hex).unwrap()
        });
        AirportSet::new((0..200).map(record).collect(), trained, dictionaries).unwrap()
    }

    fn record(number: i32) -> Airport {
        Airport {
            icao: format!("K{number:03}"),
            name: format!("Airfield {} North", number * 7919 % 1000),
            city: format!("Town {}", number * 104_729 % 1000),
            country: "NO".into(),
            elevation: number,
            lat: 60.0 + f64::from(number) / 7.0,
            lon: -f64::from(number) / 3.0,
            tz: "Europe/Oslo".into(),
            ..Airport::default()
        }
    }

    #[test]
    fn reply_round_trips_in_either_form() {
        for reply in made_up().replies(2000, 3) {
            for form in WireForm::ALL {
                assert_eq!(form.read(&form.written(&reply)).as_ref(), Some(&reply), "{form:?}");
            }
        }
    }

    #[test]
    fn replies_have_requested_length_unique_records() {
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
    fn missing_or_damaged_set_is_none() {
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
