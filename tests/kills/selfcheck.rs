//! The proof that the checker sees what it is for, before every run: histories with one broken
//! promise each, and their honest twins.

use super::asked::{Condition, Histories, Outcome, Part, Record, Request, Version, body, limits_of};
use super::check::{Rule, goes_backwards, is_current, judge};

fn put(number: u64, record: &Record) -> Part {
    Part { record: record.clone(), body: Some(body(record, number, true, 0)), only_if: Condition::None }
}

fn deletion(record: &Record) -> Part {
    Part { record: record.clone(), body: None, only_if: Condition::None }
}

fn request(at: u64, parts: Vec<Part>, outcome: Outcome) -> Request {
    Request { parts, idempotency_key: None, sent: at, answered: at + 1, outcome, again: Vec::new() }
}

fn given(version: u64) -> Outcome {
    Outcome::Acknowledged(vec![version])
}

fn unknown() -> Outcome {
    Outcome::Unknown("the connection ended".to_owned())
}

fn refused() -> Outcome {
    Outcome::Refused("412".to_owned())
}

fn line(version: u64, part: &Part) -> Version {
    Version { version, body: part.body.clone() }
}

fn rules(requests: &[Request], lines: &[(&Record, Vec<Version>)]) -> Vec<Rule> {
    let histories: Histories = lines.iter().map(|(record, versions)| ((*record).clone(), versions.clone())).collect();
    judge(requests, &histories).into_iter().map(|violation| violation.rule).collect()
}

/// Panics when the checker is blind.
pub(crate) fn proves_itself() {
    an_acknowledged_write_that_is_not_there_is_lost();
    what_nobody_asked_for_is_invented();
    a_write_that_is_there_twice_is_found_and_so_is_half_a_batch();
    versions_that_do_not_grow_are_found();
    a_condition_that_did_not_hold_is_found();
    two_answers_to_one_key_are_found();
    a_record_that_is_not_its_histories_last_version_is_found();
    an_answer_below_an_earlier_one_is_found_unless_it_says_so();
    a_view_shows_its_records();
}

fn an_acknowledged_write_that_is_not_there_is_lost() {
    let record = Record::tenant(1);
    let (one, two) = (put(1, &record), put(2, &record));
    let asked = [request(0, vec![one.clone()], given(10)), request(2, vec![two.clone()], given(11))];
    let whole = vec![line(10, &one), line(11, &two)];
    assert_eq!(rules(&asked, &[(&record, whole)]), []);
    assert_eq!(rules(&asked, &[(&record, vec![line(11, &two)])]), [Rule::Lost]);
    assert_eq!(rules(&asked, &[]), [Rule::Lost, Rule::Lost]);
    let exchanged = vec![line(10, &two), line(11, &one)];
    assert_eq!(rules(&asked, &[(&record, exchanged)]), [Rule::Lost, Rule::Lost], "under the other's version");
    let unanswered = [asked[0].clone(), request(2, vec![two.clone()], unknown())];
    assert_eq!(rules(&unanswered, &[(&record, vec![line(10, &one)])]), []);
    assert_eq!(rules(&unanswered, &[(&record, vec![line(10, &one), line(11, &two)])]), []);
    let gone = [asked[0].clone(), request(2, vec![deletion(&record)], given(11))];
    assert_eq!(rules(&gone, &[(&record, vec![line(10, &one)])]), [Rule::Lost], "a deletion too");
}

fn what_nobody_asked_for_is_invented() {
    let (record, other) = (Record::tenant(1), Record::tenant(2));
    let (one, two) = (put(1, &record), put(2, &record));
    let asked = [request(0, vec![one.clone()], given(10))];
    assert_eq!(rules(&asked, &[(&record, vec![line(10, &one), line(11, &two)])]), [Rule::Invented]);
    let denied = [asked[0].clone(), request(2, vec![two.clone()], refused())];
    assert_eq!(rules(&denied, &[(&record, vec![line(10, &one), line(11, &two)])]), [Rule::Invented]);
    let strayed = [(&record, vec![line(10, &one)]), (&other, vec![line(11, &one)])];
    assert_eq!(rules(&asked, &strayed), [Rule::Invented], "another record's");
    let gone = vec![line(10, &one), line(11, &deletion(&record))];
    assert_eq!(rules(&asked, &[(&record, gone.clone())]), [Rule::Invented]);
    let maybe = [asked[0].clone(), request(2, vec![deletion(&record)], unknown())];
    assert_eq!(rules(&maybe, &[(&record, gone)]), []);
}

fn a_write_that_is_there_twice_is_found_and_so_is_half_a_batch() {
    let (record, other) = (Record::tenant(1), Record::tenant(2));
    let (one, two) = (put(1, &record), put(2, &other));
    let asked = [request(0, vec![one.clone()], unknown())];
    assert_eq!(rules(&asked, &[(&record, vec![line(10, &one), line(11, &one)])]), [Rule::Twice]);
    let batch = [request(0, vec![one.clone(), two.clone()], unknown())];
    assert_eq!(rules(&batch, &[(&record, vec![line(10, &one)]), (&other, vec![line(10, &two)])]), []);
    assert_eq!(rules(&batch, &[]), []);
    assert_eq!(rules(&batch, &[(&record, vec![line(10, &one)])]), [Rule::Torn]);
}

fn versions_that_do_not_grow_are_found() {
    let record = Record::tenant(1);
    let (one, two) = (put(1, &record), put(2, &record));
    let asked = [request(0, vec![one.clone()], given(11)), request(2, vec![two.clone()], given(10))];
    let grown = vec![line(10, &two), line(11, &one)];
    assert_eq!(rules(&asked, &[(&record, grown.clone())]), [Rule::Backwards], "the later write got less");
    let mut at_once = asked.clone();
    at_once[1].sent = 0;
    assert_eq!(rules(&at_once, &[(&record, grown)]), [], "they overlap");
    let shrunk = vec![line(11, &one), line(10, &two)];
    assert_eq!(rules(&at_once, &[(&record, shrunk)]), [Rule::Backwards], "the history's own order");
}

fn a_condition_that_did_not_hold_is_found() {
    let record = Record::tenant(1);
    let (one, mut two) = (put(1, &record), put(2, &record));
    for (only_if, found) in [
        (Condition::VersionIs(10), vec![]),
        (Condition::VersionIs(9), vec![Rule::Condition]),
        (Condition::Absent, vec![Rule::Condition]),
    ] {
        two.only_if = only_if;
        let asked = [request(0, vec![one.clone()], given(10)), request(2, vec![two.clone()], given(11))];
        assert_eq!(rules(&asked, &[(&record, vec![line(10, &one), line(11, &two)])]), found, "{only_if:?}");
    }
    let gone = deletion(&record);
    let asked = [request(0, vec![gone.clone()], unknown()), request(2, vec![two.clone()], given(11))];
    assert_eq!(rules(&asked, &[(&record, vec![line(10, &gone), line(11, &two)])]), [], "after its deletion");
}

fn two_answers_to_one_key_are_found() {
    let record = Record::tenant(1);
    let one = put(1, &record);
    let mut asked = [request(0, vec![one.clone()], given(10))];
    let history = [(&record, vec![line(10, &one)])];
    for (again, found) in
        [(given(10), vec![]), (unknown(), vec![]), (given(11), vec![Rule::Replay]), (refused(), vec![Rule::Replay])]
    {
        asked[0].again = vec![again];
        assert_eq!(rules(&asked, &history), found);
    }
}

fn a_record_that_is_not_its_histories_last_version_is_found() {
    let record = Record::tenant(1);
    let (one, two) = (line(10, &put(1, &record)), line(11, &put(2, &record)));
    let gone = line(12, &deletion(&record));
    for (shown, versions, found) in [
        (Some(&two), vec![one.clone(), two.clone()], false),
        (Some(&one), vec![one.clone(), two.clone()], true),
        (None, vec![one.clone(), two.clone()], true),
        (None, vec![one.clone(), gone.clone()], false),
        (Some(&one), vec![one.clone(), gone], true),
        (None, vec![], false),
    ] {
        assert_eq!(is_current(&record, shown, &versions).is_some(), found, "{shown:?} of {versions:?}");
    }
}

fn an_answer_below_an_earlier_one_is_found_unless_it_says_so() {
    assert!(goes_backwards(7, Some(6), None));
    assert!(goes_backwards(7, Some(6), Some("eu-west-1")));
    assert!(goes_backwards(7, Some(6), Some("provisional")), "nothing speaks against it, that says");
    assert!(!goes_backwards(7, Some(7), None));
    assert!(!goes_backwards(7, Some(6), Some("below-floor")));
    assert!(!goes_backwards(7, None, None), "versions are compared");
}

fn a_view_shows_its_records() {
    let (tenant, shard) = (Record::tenant(1), Record::shard(0));
    let made = body(&tenant, 5, true, 0);
    let host = Version { version: 3, body: Some(body(&shard, 4, true, 0)) };
    let gone = Version { version: 4, body: None };
    let there = Histories::from([(shard.clone(), vec![host.clone()])]);
    let shown = limits_of(Some(&made), &there).map(|view| view["host"].clone());
    assert_eq!(shown, Some("host-4.example.com".into()));
    let removed = Histories::from([(shard.clone(), vec![host, gone])]);
    let shown = limits_of(Some(&made), &removed).map(|view| view.get("host").cloned());
    assert_eq!(shown, Some(None));
    assert_eq!(limits_of(None, &Histories::from([(shard, vec![])])), None);
}
