//! The record types that findings say are missed.

use super::*;

fn missed_after(change: fn(&mut Case)) -> Vec<(String, RegionSet)> {
    let mut case = Case::healthy();
    change(&mut case);
    types_with_missed_announcements(&case.evidence())
}

#[test]
fn affected_record_types_are_missed() {
    assert_eq!(missed_after(|_| ()), []);
    assert_eq!(missed_after(|case| case.types[0].1 = TypeWiring::default()), [], "a quiet service loses nothing");
    let (context, eu) = ("context".to_owned(), EU);
    let mut quiet = Case::healthy();
    quiet.announce_unrouted("invoice", EU);
    assert_eq!(types_with_missed_announcements(&quiet.evidence()), [], "other services may share the topic");
    quiet.types[0].1 = TypeWiring::default();
    assert_eq!(types_with_missed_announcements(&quiet.evidence()), [(context.clone(), eu)]);
    let mut typo = Case::healthy();
    typo.announce_unrouted("Context", EU);
    typo.types[0].1.met = RegionSet::EMPTY;
    assert_eq!(
        types_with_missed_announcements(&typo.evidence()),
        [(context.clone(), eu)],
        "it was announced well before"
    );
    let formed = missed_after(|case| {
        case.types[0].1 =
            TypeWiring { announcers: BOTH, named: BOTH, misnamed: BOTH, met: EU, ..TypeWiring::default() };
        case.notes.key_spellings.insert("context".to_owned(), KeySpellings::default());
    });
    assert_eq!(formed, [(context, RegionSet::EMPTY.with(RegionId(1)))]);
}
