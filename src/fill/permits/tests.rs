//! Permits under a simulated clock.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::*;
use crate::cache::content::Content;
use crate::cache::derived::Derived;
use crate::cache::entry::Validity;
use crate::model::ids::RegionId;
use crate::model::time::ShortSpan;

const KEY: PermitKey = PermitKey(7, 7);
/// Regions are held to nothing newer than they state.
const FLOOR: u64 = 0;
const RECHECK: Duration = Duration::from_secs(300);

fn at(second: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(10_000 + second)
}

fn terms() -> PermitsConfig {
    PermitsConfig { recheck: RECHECK, ..PermitsConfig::default() }
}

fn entry(bytes: usize) -> Arc<Entry> {
    Arc::new(Entry {
        status: StatusCode::FORBIDDEN,
        content: Content::new(&HeaderMap::new(), &Bytes::from(vec![0; bytes])),
        region: RegionId(0),
        sent: at(0),
        age_at_receipt: ShortSpan::default(),
        derived: Derived::NONE,
        json: Default::default(),
        validity: Validity::Uncacheable,
    })
}

/// A word for the permission at `floor` and `second`.
fn word(permits: &Permits, floor: u64, second: u64) -> &'static str {
    match permits.permission(KEY, floor, at(second), &terms()) {
        Permission::Granted { recheck: false, .. } => "granted",
        Permission::Granted { recheck: true, .. } => "recheck",
        Permission::Unproven => "unproven",
        Permission::Refused(_) => "refused",
        Permission::Unknown => "unknown",
        Permission::Withheld => "withheld",
    }
}

#[test]
fn refusal_beats_an_unchecked_permit() {
    let permits = Permits::default();
    permits.unchecked(KEY, 5, at(0), Moment::NEVER);
    assert_eq!([word(&permits, 5, 299), word(&permits, 5, 300)], ["recheck", "unknown"]);
    permits.refused(KEY, 5, &entry(1), (5, RECHECK), at(10));
    permits.unchecked(KEY, 5, at(11), Moment::NEVER);
    assert_eq!(word(&permits, 5, 11), "refused");
    // By newer grants nobody refused it.
    permits.unchecked(KEY, 6, at(12), Moment::NEVER);
    assert_eq!(word(&permits, 6, 12), "granted");
    // What a region that checks allowed stands against another's word by the same grants.
    permits.granted(KEY, 6, 6, at(13), Moment::NEVER);
    permits.unchecked(KEY, 6, at(14), Moment::NEVER);
    permits.refused(KEY, 6, &entry(1), (6, RECHECK), at(15));
    assert_eq!(word(&permits, 6, 15), "granted");
}

#[test]
fn permit_holds_until_its_recheck() {
    let permits = Permits::default();
    assert_eq!(word(&permits, 5, 0), "unknown");
    permits.granted(KEY, 5, FLOOR, at(0), Moment::NEVER);
    assert_eq!(word(&permits, 5, 0), "granted");
    assert_eq!(word(&permits, 5, 239), "granted");
    assert_eq!(word(&permits, 5, 240), "recheck");
    // One request is enough for the moment.
    assert_eq!(word(&permits, 5, 240), "granted");
    assert_eq!(word(&permits, 5, 241), "recheck");
    assert_eq!(word(&permits, 5, 300), "unknown");
}

#[test]
fn moved_floor_ends_a_permit() {
    let permits = Permits::default();
    permits.granted(KEY, 5, FLOOR, at(0), Moment::NEVER);
    // The race that brought it was over a moment ago.
    permits.tried(KEY, 5, at(0), at(0));
    assert_eq!(word(&permits, 6, 0), "unknown");
    permits.granted(KEY, 6, FLOOR, at(1), Moment::NEVER);
    assert_eq!(word(&permits, 6, 1), "granted");
    // An older region's word takes nothing back.
    permits.granted(KEY, 5, 6, at(2), Moment::NEVER);
    assert_eq!(word(&permits, 6, 2), "granted");
}

#[test]
fn unconfirmed_permit_goes_on_labelled() {
    let permits = Permits::default();
    permits.granted(KEY, 5, FLOOR, at(0), Moment::NEVER);
    permits.tried(KEY, 6, at(10), at(10));
    assert_eq!(word(&permits, 6, 10), "unproven");
    // Between 1 and 5 s later regions are asked again.
    assert_eq!(word(&permits, 6, 15), "unknown");
    permits.tried(KEY, 6, at(3_599), at(3_599));
    assert_eq!(word(&permits, 6, 3_599), "unproven");
    assert_eq!(word(&permits, 6, 3_600), "withheld");
    let refusing = PermitsConfig { when_unknown: WhenUnknown::Refuse, ..terms() };
    permits.tried(KEY, 6, at(20), at(20));
    assert!(matches!(permits.permission(KEY, 6, at(20), &refusing), Permission::Withheld));
}

#[test]
fn given_permit_is_asked_for_when_it_ends() {
    let (permits, short) = (Permits::default(), PermitsConfig { recheck: Duration::from_secs(1), ..terms() });
    permits.granted(KEY, 5, FLOOR, at(0), Moment::NEVER);
    permits.tried(KEY, 5, at(0), at(0));
    assert!(matches!(permits.permission(KEY, 5, at(1), &short), Permission::Unknown));
}

#[test]
fn caller_without_permit_gets_nothing() {
    let permits = Permits::default();
    permits.tried(KEY, 5, at(0), at(0));
    assert_eq!(word(&permits, 5, 0), "withheld");
    assert_eq!(word(&permits, 5, 5), "unknown");
}

#[test]
fn refusal_is_remembered_for_a_moment() {
    let permits = Permits::default();
    permits.granted(KEY, 5, FLOOR, at(0), Moment::NEVER);
    permits.refused(KEY, 6, &entry(100), (6, RECHECK), at(1));
    assert_eq!(word(&permits, 6, 1), "refused");
    assert!(permits.is_refused_since(KEY, 5));
    // The floor moved: perhaps it was granted again.
    assert_eq!(word(&permits, 7, 1), "unknown");
    permits.granted(KEY, 7, FLOOR, at(2), Moment::NEVER);
    assert_eq!(word(&permits, 7, 2), "granted");
    assert!(!permits.is_refused_since(KEY, 5));
}

#[test]
fn refusal_at_one_version_is_no_withdrawal() {
    let permits = Permits::default();
    permits.granted(KEY, 6, FLOOR, at(0), Moment::NEVER);
    permits.refused(KEY, 6, &entry(100), (6, RECHECK), at(1));
    permits.refused(KEY, 5, &entry(100), (6, RECHECK), at(1));
    assert_eq!(word(&permits, 6, 1), "granted");
    permits.turned_away(KEY, &entry(100), 6, at(1));
    assert_eq!(word(&permits, 6, 1), "granted");
    // Nobody has allowed it again in time: the region that did was left in `observe`.
    permits.refused(KEY, 6, &entry(REFUSAL_BYTES + 1), (6, RECHECK), at(300));
    permits.tried(KEY, 6, at(300), at(300));
    assert_eq!(word(&permits, 6, 300), "withheld");
}

#[test]
fn older_grant_revives_nothing() {
    let permits = Permits::default();
    permits.granted(KEY, 5, FLOOR, at(0), Moment::NEVER);
    permits.refused(KEY, 6, &entry(REFUSAL_BYTES + 1), (6, RECHECK), at(1));
    permits.granted(KEY, 5, 6, at(2), Moment::NEVER);
    assert_eq!(word(&permits, 6, 2), "unknown");
    permits.tried(KEY, 6, at(2), at(2));
    assert_eq!(word(&permits, 6, 2), "withheld");
    // It turned out that no second region has those grants: what the others say holds.
    permits.granted(KEY, 5, 5, at(2), Moment::NEVER);
    assert_eq!(word(&permits, 5, 2), "granted");
}

#[test]
fn permit_ends_with_its_token() {
    let permits = Permits::default();
    permits.granted(KEY, 5, FLOOR, at(0), at(10));
    assert_eq!(word(&permits, 5, 9), "granted");
    assert_eq!(word(&permits, 5, 10), "unknown");
    permits.turned_away(KEY, &entry(100), 5, at(10));
    assert_eq!(word(&permits, 5, 10), "refused");
}

#[test]
fn one_reader_asks_for_all() {
    let permits = Permits::default();
    let Turn::Lead(guard) = permits.turn(KEY) else { panic!("nobody has asked yet") };
    let Turn::Follow(waiting) = permits.turn(KEY) else { panic!("somebody asks") };
    assert!(matches!(permits.turn(PermitKey(7, 8)), Turn::Lead(_)));
    assert!(!waiting.is_cancelled());
    drop(guard);
    assert!(waiting.is_cancelled());
    assert!(matches!(permits.turn(KEY), Turn::Lead(_)));
}

#[test]
fn permits_and_refusals_are_bounded() {
    let permits = Permits::default();
    for number in 0..2 * PERMITS as u64 {
        let key = PermitKey(number, number);
        permits.refused(key, 6, &entry(1), (6, RECHECK), at(0));
        permits.granted(key, 6, FLOOR, at(0), Moment::NEVER);
    }
    assert_eq!(permits.remembered(), PERMITS);
    for number in 0..2 * PERMITS as u64 {
        permits.refused(PermitKey(number, number), 7, &entry(1), (7, RECHECK), at(0));
    }
    let refusals: usize = permits.shards.iter().map(|shard| shard.lock().refusals.len()).sum();
    assert_eq!(refusals, REFUSALS);
}
