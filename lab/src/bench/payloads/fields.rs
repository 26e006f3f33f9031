//! Cost of some fields of a JSON body, by where they stand and how many they are.

use std::hint::black_box;

use nearside::payload::mask::Mask;
use nearside::payload::projection::{Index, project};
use serde_json::Value;

use super::airports::{Airports, WireForm};
use super::cpu::CpuBudget;

/// A field of a reply: `airports`, a record's key, a field's name.
pub(crate) type FieldPath = [String; 3];

/// Access to fields of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub(crate) enum FieldAccess {
    /// Parses the whole body, as a caller without projections does, and looks the fields up.
    #[strum(to_string = "parsed by serde_json")]
    Parse,
    /// First caller of a version: an index, if the body deserves one, and a cut.
    #[strum(to_string = "cut, a version's first")]
    First,
    /// Same fields from then on.
    #[strum(to_string = "cut, again")]
    Again,
}

impl FieldAccess {
    pub(crate) const ALL: [Self; 3] = [Self::Parse, Self::First, Self::Again];
}

/// Numbers of fields, and their places.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum FieldPlace {
    First,
    #[strum(to_string = "mid")]
    Middle,
    Last,
}

/// Returns the number of the fields that are in a body.
fn parsed(body: &[u8], paths: &[FieldPath]) -> usize {
    let whole: Value = serde_json::from_slice(body).unwrap_or_default();
    paths.iter().filter(|path| path.iter().try_fold(&whole, |value, name| value.get(name)).is_some()).count()
}

fn indexed(body: &[u8]) -> Option<Index> {
    Index::pays_for(body).then(|| Index::of(body).ok()).flatten()
}

/// Time that each of [`ASKED`] takes of a reply, in microseconds; `None` where a field was not
/// found.
pub(crate) fn taken(reply: &Airports, access: FieldAccess, budget: CpuBudget) -> Vec<Option<f64>> {
    let body = WireForm::Json.written(reply);
    let taken = ASKED.map(|(count, place)| {
        let paths = paths(reply, count, place);
        let mask = Mask::literal(&paths.iter().map(|path| path.join(".")).collect::<Vec<_>>().join(",")).ok()?;
        let index = indexed(&body);
        let cut = project(&body, index.as_ref(), &mask).ok()?;
        if parsed(cut.as_ref(), &paths) != count {
            return None;
        }
        let work: &dyn Fn() = match access {
            FieldAccess::Parse => &|| {
                black_box(parsed(&body, &paths));
            },
            FieldAccess::First => &|| drop(black_box(project(&body, indexed(&body).as_ref(), &mask))),
            FieldAccess::Again => &|| drop(black_box(project(&body, index.as_ref(), &mask))),
        };
        Some(budget.spent_us(work))
    });
    taken.to_vec()
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
    fields
        .skip(skipped)
        .take(count)
        .map(|(key, name)| ["airports".to_owned(), key.clone(), name.to_owned()])
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::airports::tests::made_up;
    use super::*;

    #[test]
    fn fields_are_placed_and_found() {
        let reply = &made_up().replies(2000, 1)[0];
        let keys: Vec<&String> = reply.airports.keys().collect();
        assert_eq!(paths(reply, 1, FieldPlace::First)[0], ["airports", keys[0], "icao"].map(str::to_owned));
        let last = paths(reply, 10, FieldPlace::Last);
        assert_eq!((last.len(), &last[9]), (10, &["airports", keys[keys.len() - 1], "lid"].map(str::to_owned)));
        assert_ne!(paths(reply, 50, FieldPlace::Middle), paths(reply, 50, FieldPlace::Last));
        let budget = CpuBudget { parts: 1, part: Duration::ZERO };
        for access in FieldAccess::ALL {
            assert!(taken(reply, access, budget).iter().all(|us| us.is_some_and(|us| us > 0.0)), "{access:?}");
        }
        let few = &made_up().replies(300, 1)[0];
        assert!(taken(few, FieldAccess::Parse, budget).iter().any(Option::is_none), "it has no fifty fields");
    }
}
