//! Truth at a time against a model that looks at the whole history.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::catalogue::note::ChangeNote;

const MINUTE: u64 = 60_000;

/// A version of which the note says when it was made, if it says it.
fn version(number: u64, at: Option<u64>) -> RecordVersion {
    let note = ChangeNote { at, ..ChangeNote::default() };
    let body = Some(Bytes::from_static(b"{}"));
    RecordVersion { key: "k".to_owned(), version: number, body, is_unreadable: false, note }
}

fn by(number: u64, writer: Option<&str>) -> RecordVersion {
    let mut version = version(number, None);
    version.note.by = writer.map(str::to_owned);
    version
}

fn deleted(number: u64) -> RecordVersion {
    RecordVersion { body: None, ..version(number, None) }
}

fn damaged(number: u64) -> RecordVersion {
    RecordVersion { is_unreadable: true, ..deleted(number) }
}

/// Splits a history as its readers do, and asks.
fn asked(history: &[RecordVersion], at: u64) -> TrueAt {
    let older = history.iter().take_while(|version| version.version <= at).count();
    true_at(history[..older].last(), &history[older..], Wall::from_millis(at))
}

#[test]
fn truth_is_the_last_before_the_first_later() {
    let history = [version(100, None), version(200, None), version(300, None)];
    for (at, expected) in [
        (99, TrueAt::Absent),
        (100, TrueAt::Version(100)),
        (199, TrueAt::Version(100)),
        (200, TrueAt::Version(200)),
        (1_000, TrueAt::Version(300)),
    ] {
        assert_eq!(asked(&history, at), expected, "{at}");
    }
    assert_eq!(asked(&[], 100), TrueAt::Absent);
}

/// Versions of a record that changes within a millisecond run ahead of their times.
#[test]
fn hot_records_go_by_their_notes() {
    let history = [version(100, None), version(101, Some(100)), version(102, Some(100)), version(103, Some(101))];
    assert_eq!(asked(&history, 100), TrueAt::Version(102), "what was made at that time was there");
    assert_eq!(asked(&history, 101), TrueAt::Version(103));
    // A clock that is a little slow does not bring back what came after a later change.
    let slow = [version(100, None), version(200, None), version(201, Some(150))];
    assert_eq!(asked(&slow, 160), TrueAt::Version(100));
    let lying = [version(100, Some(900)), version(200, None)];
    assert_eq!(asked(&lying, 150), TrueAt::Version(100), "no version is before its time");
}

#[test]
fn deleted_and_damaged_are_no_content() {
    let history = [version(100, None), deleted(200), damaged(300), version(400, None)];
    assert_eq!(asked(&history, 200), TrueAt::Deleted(200));
    assert_eq!(asked(&history, 300), TrueAt::Damaged(300));
    assert_eq!(asked(&history, 400), TrueAt::Version(400));
    // The same between versions after the time's milliseconds.
    let ahead = [version(100, None), RecordVersion { body: None, ..version(101, Some(100)) }, version(300, None)];
    assert_eq!(asked(&ahead, 100), TrueAt::Deleted(101));
}

/// A catalogue whose clock is a year ahead makes a version; the others go on behind it at the true time.
#[test]
fn clock_that_was_wrong_makes_it_unclear() {
    let (now, year) = (1_800_000_000_000, 365 * 24 * 60 * MINUTE);
    let wrong = version(now + year, None);
    let good = version(now + year + 1, Some(now + MINUTE));
    assert_eq!(asked(&[version(now, None), wrong, good], now + 5), TrueAt::Unclear);
    for (back, expected) in [(MINUTE, TrueAt::Version(now)), (MINUTE + 1, TrueAt::Unclear)] {
        let [first, second] =
            [version(now + MINUTE + 1, None), version(now + MINUTE + 2, Some(now + MINUTE + 1 - back))];
        assert_eq!(asked(&[version(now, None), first, second], now), expected, "{back}");
    }
    // Slow steps back add up, also from the version that was there.
    let steps = [version(now, None), version(now + 1, Some(now - MINUTE)), version(now + 2, Some(now - MINUTE - 1))];
    assert_eq!(asked(&steps, now), TrueAt::Unclear);
}

#[test]
fn undone_versions_have_writers() {
    let history = [by(100, Some("admin")), by(200, Some("consumer/jira")), by(300, Some("consumer/jira"))];
    for (at, expected) in [(100, 2), (199, 2), (200, 1), (300, 0)] {
        assert_eq!(undone(&history, Wall::from_millis(at)), &history[history.len() - expected..], "{at}");
    }
    assert!(only_by(&history[1..], "consumer/jira") && !only_by(&history, "consumer/jira"));
    assert!(!only_by(&history[1..], "consumer/jir") && only_by(&[], "admin"));
    assert!(!only_by(&[by(100, Some("admin")), by(200, None)], "admin"));
}

/// The version that was there, by a look at everything; `None` where the times disagree.
fn model(history: &[RecordVersion], at: u64) -> Option<Option<&RecordVersion>> {
    let times: Vec<u64> = history.iter().map(|it| it.note.at.unwrap_or(it.version)).collect();
    let from = history.iter().rposition(|version| version.version <= at).unwrap_or(0);
    for (earlier, time) in times.iter().enumerate().skip(from) {
        if times[earlier..].iter().any(|later| later + MINUTE < *time) {
            return None;
        }
    }
    let mut last = None;
    for (version, time) in history.iter().zip(times) {
        if time > at {
            break;
        }
        last = Some(version);
    }
    Some(last)
}

/// Steps between versions, the time by which each runs ahead of its note, and its kind.
fn histories() -> impl Strategy<Value = Vec<RecordVersion>> {
    let behind = prop_oneof![3 => Just(0), 2 => 0..50u64, 1 => 0..3 * MINUTE];
    let step = prop_oneof![2 => 1..3u64, 2 => 1..100u64, 1 => 1..3 * MINUTE];
    proptest::collection::vec((step, behind, 0..4u8), 0..12).prop_map(|steps| {
        let mut number = 10 * MINUTE;
        let versions = steps.into_iter().map(|(step, behind, kind)| {
            number += step;
            let at = Some(number - behind).filter(|at| *at != number);
            let (body, is_unreadable) = (Some(Bytes::from_static(b"{}")).filter(|_| kind > 1), kind == 1);
            RecordVersion { body, is_unreadable, ..version(number, at) }
        });
        versions.collect()
    })
}

proptest! {
    #[test]
    fn truth_agrees_with_the_model(history in histories(), which in any::<prop::sample::Index>(), off in 0..5u64) {
        // Times around the versions and their notes.
        let mut times: Vec<u64> = history.iter().flat_map(|it| [it.version, it.note.at(it.version).as_millis()]).collect();
        times.push(10 * MINUTE);
        let at = times[which.index(times.len())] + off - 2;
        let expected = match model(&history, at) {
            None => TrueAt::Unclear,
            Some(None) => TrueAt::Absent,
            Some(Some(last)) if last.is_unreadable => TrueAt::Damaged(last.version),
            Some(Some(last)) if last.body.is_none() => TrueAt::Deleted(last.version),
            Some(Some(last)) => TrueAt::Version(last.version),
        };
        prop_assert_eq!(asked(&history, at), expected);
    }
}
