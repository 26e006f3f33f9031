//! What it takes to have some fields of a JSON body, by where they stand and how many they are.

use std::hint::black_box;

use serde_json::Value;

use super::airports::{Airports, WireForm};
use super::cpu::CpuBudget;
use crate::payload::mask::Mask;
use crate::payload::projection::{Index, project};

/// A field of a reply: `airports`, a record's key, a field's name.
pub(crate) type FieldPath = [String; 3];

/// A way to have fields of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldsWay {
    /// Parses the whole body, as a caller without projections does, and looks the fields up.
    Parse,
    /// What the first caller of a version costs the sidecar: an index, if the body deserves one, and
    /// a cut.
    First,
    /// What the same fields cost from then on.
    Again,
}

impl FieldsWay {
    pub(crate) const ALL: [Self; 3] = [Self::Parse, Self::First, Self::Again];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Parse => "parsed by serde_json",
            Self::First => "cut, a version's first",
            Self::Again => "cut, again",
        }
    }
}

/// How many fields, and where they stand.
pub(crate) const ASKED: [(usize, FieldPlace); 9] = [
    (1, FieldPlace::First),
    (1, FieldPlace::Middle),
    (1, FieldPlace::Last),
    (10, FieldPlace::First),
    (10, FieldPlace::Middle),
    (10, FieldPlace::Last),
    (50, FieldPlace::First),
    (50, FieldPlace::Middle),
    (50, FieldPlace::Last),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldPlace {
    First,
    Middle,
    Last,
}

impl FieldPlace {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Middle => "mid",
            Self::Last => "last",
        }
    }
}

/// How many of the fields are in a body.
fn parsed(body: &[u8], paths: &[FieldPath]) -> usize {
    let whole: Value = serde_json::from_slice(body).unwrap_or_default();
    let found = |path: &&FieldPath| path.iter().try_fold(&whole, |value, name| value.get(name)).is_some();
    paths.iter().filter(found).count()
}

fn indexed(body: &[u8]) -> Option<Index> {
    Index::pays_for(body).then(|| Index::of(body).ok()).flatten()
}

/// What each of [`ASKED`] takes of a reply, in microseconds; `None` where a field was not found.
pub(crate) fn taken(reply: &Airports, way: FieldsWay, budget: CpuBudget) -> Vec<Option<f64>> {
    let body = WireForm::Json.written(reply);
    let one = |(count, place)| {
        let paths = paths(reply, count, place);
        let mask = Mask::literal(&paths.iter().map(|path| path.join(".")).collect::<Vec<_>>().join(",")).ok()?;
        let index = indexed(&body);
        let cut = project(&body, index.as_ref(), &mask).ok()?;
        if parsed(cut.as_ref(), &paths) != count {
            return None;
        }
        let work: &dyn Fn() = match way {
            FieldsWay::Parse => &|| {
                black_box(parsed(&body, &paths));
            },
            FieldsWay::First => &|| drop(black_box(project(&body, indexed(&body).as_ref(), &mask))),
            FieldsWay::Again => &|| drop(black_box(project(&body, index.as_ref(), &mask))),
        };
        Some(budget.spent_us(work))
    };
    ASKED.map(one).to_vec()
}

/// Fields that stand one behind the other, at one place of all fields of the reply.
fn paths(reply: &Airports, count: usize, place: FieldPlace) -> Vec<FieldPath> {
    const NAMES: [&str; 11] =
        ["icao", "iata", "name", "city", "subd", "country", "elevation", "lat", "lon", "tz", "lid"];
    let all = reply.airports.len() * NAMES.len();
    let skipped = match place {
        FieldPlace::First => 0,
        FieldPlace::Middle => all.saturating_sub(count) / 2,
        FieldPlace::Last => all.saturating_sub(count),
    };
    let fields = reply.airports.keys().flat_map(|key| NAMES.map(|name| (key, name)));
    let path = |(key, name): (&String, &str)| ["airports".to_owned(), key.clone(), name.to_owned()];
    fields.skip(skipped).take(count).map(path).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::airports::tests::made_up;
    use super::*;

    #[test]
    fn fields_stand_where_they_are_asked_for_and_each_is_found() {
        let reply = &made_up().replies(2000, 1)[0];
        let keys: Vec<&String> = reply.airports.keys().collect();
        assert_eq!(paths(reply, 1, FieldPlace::First)[0], ["airports", keys[0], "icao"].map(str::to_owned));
        let last = paths(reply, 10, FieldPlace::Last);
        assert_eq!((last.len(), &last[9]), (10, &["airports", keys[keys.len() - 1], "lid"].map(str::to_owned)));
        assert_ne!(paths(reply, 50, FieldPlace::Middle), paths(reply, 50, FieldPlace::Last));
        let budget = CpuBudget { parts: 1, part: Duration::ZERO };
        for way in FieldsWay::ALL {
            assert!(taken(reply, way, budget).iter().all(|us| us.is_some_and(|us| us > 0.0)), "{way:?}");
        }
        let few = &made_up().replies(300, 1)[0];
        assert!(taken(few, FieldsWay::Parse, budget).iter().any(Option::is_none), "it has no fifty fields");
    }
}
