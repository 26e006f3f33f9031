//! Every finding appears with its evidence and not without it. A healthy sidecar has none.

mod missed;

use std::time::Duration;

use super::report::{LineState, report};
use super::*;
use crate::admin::readiness::TopicArrivals;
use crate::aws::certificate::RefusedUrl;
use crate::aws::verify::Rejected;
use crate::config::Config;
use crate::config::read::from_toml;
use crate::model::ids::{RecordId, RegionId, TypeId, Version};
use crate::model::time::Moment;
use crate::protocol::event::{Grade, SubscriptionState};
use crate::protocol::region_views::{RegionView, RegionViews};
use crate::protocol::wiring::TypeWiring;
use crate::sidecar::announcements::subscription::{AwsTrouble, Stage, SubscriptionStatus};
use crate::telemetry::leads::RecordVersions;
use crate::telemetry::observed::{
    KeySpellings, Notes, Recent, RegionNotes, RouteNotes, TopicNotes, Undecoded, UnreadKeys, UnroutedType,
};
use strum::VariantArray;

const NOW: Moment = Moment::from_nanos(1_000_000_000_000);
const PATH: &str = "/v1/contexts/{key}/{view}";

/// Healthy evidence for findings, of two regions and one route.
struct Case {
    config: Config,
    notes: Notes,
    region_views: RegionViews,
    arrivals: Vec<TopicArrivals>,
    subscriptions: Vec<SubscriptionStatus>,
    types: Vec<(String, TypeWiring)>,
}

fn recent(yes: usize, no: usize) -> Recent {
    let mut recent = Recent::default();
    (0..no).for_each(|_| recent.push(false));
    (0..yes).for_each(|_| recent.push(true));
    recent
}

const BOTH: RegionSet = RegionSet::first(2);
const EU: RegionSet = RegionSet::first(1);

impl Case {
    fn healthy() -> Self {
        let regions = ["eu-west-1", "us-east-1"].map(|name| {
            format!(
                "[[service.region]]\nname = \"{name}\"\nurl = \"https://{name}.example.com\"\n\
                 topic = \"arn:aws:sns:{name}:123456789012:changes\"\n"
            )
        });
        let route = format!("[[service.route]]\npath = \"{PATH}\"\nrecords = [\"context:{{key}}\"]\n");
        let config = from_toml(&(regions.concat() + &route)).unwrap();
        let notes = RegionNotes {
            topic: TopicNotes {
                versioned: recent(8, 0),
                numbered: recent(8, 0),
                through: recent(8, 0),
                heartbeats: 9,
                undecodable: recent(0, 8),
                ..TopicNotes::default()
            },
            odd: recent(1, 7),
            failed: recent(1, 7),
            unshown: recent(0, 8),
            unannounced: recent(1, 7),
            skews_ms: vec![-900, 40, 0],
            aged: recent(2, 6),
            ..RegionNotes::default()
        };
        let route = RouteNotes {
            asked: 8,
            good: 8,
            versioned: recent(8, 0),
            no_store: recent(0, 8),
            varied: recent(0, 8),
            refused: recent(1, 7),
            too_large: recent(0, 8),
            ..RouteNotes::default()
        };
        let live = RegionView { state: SubscriptionState::Live, grade: Grade::Watermark, ..RegionView::default() };
        let wired = TypeWiring { announcers: BOTH, named: BOTH, met: BOTH, announced: 5, ..TypeWiring::default() };
        Self {
            config,
            notes: Notes {
                regions: vec![notes.clone(), notes],
                routes: [(PATH.to_owned(), route)].into(),
                ..Notes::default()
            },
            region_views: RegionViews { regions: vec![live, live], ..RegionViews::default() },
            arrivals: vec![TopicArrivals { lag_ms: Some(30), ..TopicArrivals::default() }; 2],
            subscriptions: vec![subscribed(0, "eu-west-1"), subscribed(1, "us-east-1")],
            types: vec![("context".to_owned(), wired)],
        }
    }

    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            config: &self.config,
            notes: &self.notes,
            region_views: &self.region_views,
            arrivals: &self.arrivals,
            subscriptions: &self.subscriptions,
            types: &self.types,
            lead_wait: Duration::from_secs(60),
            now: NOW,
        }
    }

    fn eu(&mut self) -> &mut RegionNotes {
        &mut self.notes.regions[0]
    }

    fn route(&mut self) -> &mut RouteNotes {
        self.notes.routes.get_mut(PATH).unwrap()
    }

    /// Regions announce a record type that no route names.
    fn announce_unrouted(&mut self, name: &str, regions: RegionSet) {
        let seen = UnroutedType { count: 4, regions: regions.iter().collect(), last: NOW };
        self.notes.unrouted_types.insert(name.to_owned(), seen);
    }
}

fn subscribed(id: u8, name: &str) -> SubscriptionStatus {
    let stage = Stage::Subscribed;
    let since = NOW.before(Duration::from_secs(60));
    SubscriptionStatus { stage, ..SubscriptionStatus::new(RegionId(id), name, "arn", since) }
}

/// The one finding that `change` makes of healthy evidence.
fn found(change: impl FnOnce(&mut Case)) -> Finding {
    let mut case = Case::healthy();
    change(&mut case);
    let mut found = findings(&case.evidence());
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

#[test]
fn healthy_case_has_no_findings() {
    let case = Case::healthy();
    assert_eq!(findings(&case.evidence()), []);
    let lines = report(&case.evidence());
    assert!(lines.len() > 20 && lines.iter().all(|line| line.state == LineState::Well), "{lines:#?}");
}

#[test]
fn announcement_evidence_is_not_overstated() {
    let mut case = Case::healthy();
    case.eu().unshown = recent(1, 2);
    let lines = report(&case.evidence());
    let line = lines.iter().find(|line| line.check == "topic-swapped" && line.subject == "eu-west-1").unwrap();
    assert_eq!(line.state, LineState::Well);
    assert_eq!(line.saw, "nothing contradicts it: 2 of 3 replies after an announcement showed what was announced");
}

#[test]
fn unseen_is_advised_not_found() {
    let mut case = Case::healthy();
    case.notes = Notes { regions: vec![RegionNotes::default(); 2], ..Notes::default() };
    case.subscriptions.iter_mut().for_each(|status| status.since = NOW.before(Duration::from_secs(3)));
    case.types[0].1 = TypeWiring::default();
    case.arrivals.clear();
    assert_eq!(findings(&case.evidence()), []);
    let unseen: Vec<_> =
        report(&case.evidence()).into_iter().filter(|line| line.state == LineState::Unchecked).collect();
    assert!(unseen.len() > 15 && unseen.iter().all(|line| !line.advice.is_empty()), "{unseen:#?}");
}

/// Asserts that `change` makes a finding at one topic, which says `said`.
fn assert_topic_finding(check: Check, change: fn(&mut Case), said: &str) {
    let finding = found(change);
    assert_eq!((finding.check, finding.subject.as_str()), (check, "eu-west-1"), "{finding:?}");
    assert!(finding.line().contains(said), "{}", finding.line());
}

#[test]
fn topic_faults_name_what_is_lost() {
    assert_topic_finding(
        Check::Access,
        |case| {
            case.subscriptions[0].failure = Some(AwsTrouble {
                saw: "Subscribe: denied".to_owned(),
                advice: "allow this role sns:Subscribe",
                is_passing: false,
            });
        },
        "Subscribe: denied; allow this role",
    );
    assert_topic_finding(
        Check::HeartbeatsMissing,
        |case| {
            (case.eu().topic.heartbeats, case.eu().topic.through) = (0, Recent::default());
            case.region_views.regions[0].grade = Grade::Weak;
        },
        "no heartbeat arrives",
    );
    assert_topic_finding(
        Check::HeartbeatsMissing,
        |case| case.eu().topic.heartbeat_at = Some(NOW.before(Duration::from_secs(190))),
        "its heartbeats ended 190 s ago",
    );
    let mut restarting = Case::healthy();
    restarting.eu().topic.heartbeat_at = Some(NOW.before(Duration::from_secs(60)));
    assert_eq!(findings(&restarting.evidence()), [], "a publisher that restarts is back by then");
    assert_topic_finding(
        Check::NumbersMissing,
        |case| case.eu().topic.numbered = recent(0, 3),
        "no publisher and no sequence",
    );
    assert_topic_finding(Check::ThroughMissing, |case| case.eu().topic.through = recent(0, 3), "bound=none");
    assert_topic_finding(
        Check::Undecodable,
        |case| {
            (case.eu().topic.undecodable, case.eu().topic.undecodable_why) =
                (recent(2, 1), "not valid JSON".to_owned());
        },
        "2 of its last 3 messages are no announcements: not valid JSON",
    );
    assert_topic_finding(
        Check::VersionsUnannounced,
        |case| case.eu().topic.versioned = recent(0, 3),
        "state no version although",
    );
}

fn unverified(signer: Option<&str>) -> Finding {
    found(|case| {
        case.config.announcements.insecure_sns_signer = signer.map(|url| url::Url::parse(url).unwrap());
        case.arrivals[0].unverified = Some(Rejected::CertificateUrl(RefusedUrl::Host));
    })
}

#[test]
fn foreign_certificate_names_signer_setting() {
    let unset = unverified(None);
    assert_eq!((unset.check, unset.subject.as_str()), (Check::Unverified, "eu-west-1"));
    assert!(
        unset.advice.contains("announcements.insecure_sns_signer, which is not set: `certificate_at`"),
        "{unset:?}"
    );
    let other = unverified(Some("http://127.0.0.1:4566/"));
    assert!(other.advice.contains("which says http://127.0.0.1:4566: `certificate_at`"), "{other:?}");
}

#[test]
fn mistyped_record_type_suggests_nearest() {
    let typo = found(|case| {
        case.announce_unrouted("contxt", BOTH);
        case.types[0].1 = TypeWiring::default();
    });
    assert_eq!((typo.check, typo.subject.as_str()), (Check::TypeUnrouted, "contxt"));
    assert!(typo.line().contains("eu-west-1 and us-east-1 announced it 4 times"), "{}", typo.line());
    assert!(typo.line().contains("to announce `context`, use that name"), "{}", typo.line());
    let other = found(|case| {
        case.announce_unrouted("invoice", BOTH);
        case.types[0].1 = TypeWiring::default();
    });
    assert!(other.advice.contains("`invoice:{key}`"), "{}", other.line());
    let mut shared = Case::healthy();
    shared.announce_unrouted("invoice", BOTH);
    shared.announce_unrouted("context-audit", BOTH);
    assert_eq!(findings(&shared.evidence()), [], "other services may announce on the same topic");
    let mut mended = Case::healthy();
    mended.announce_unrouted("contxt", BOTH);
    mended.types[0].1 = TypeWiring::default();
    let later =
        Evidence { now: NOW + crate::admin::limits::LOSS_SHOWN + Duration::from_secs(1), ..mended.evidence() };
    assert_eq!(findings(&later), [], "it came no more");
}

#[test]
fn misformed_keys_suggest_template() {
    let wired = TypeWiring {
        announcers: BOTH,
        named: BOTH,
        unannounced: 2,
        unannounced_at: Some(NOW),
        ..TypeWiring::default()
    };
    let finding = found(|case| case.types[0].1 = wired);
    assert_eq!((finding.check, finding.subject.as_str()), (Check::KeysUnmatched, "context"));
    // When everything is a hit, only audits ask the regions.
    let audited = TypeWiring { announcers: BOTH, named: BOTH, violated: true, missed: true, ..TypeWiring::default() };
    let finding = found(|case| case.types[0].1 = audited);
    assert!(finding.check == Check::KeysUnmatched && finding.saw.contains("an audit saw"), "{}", finding.line());
    assert!(finding.advice.contains("`{key}` of /v1/contexts/{key}/{view}, filled in"), "{}", finding.line());
    assert!(finding.advice.contains("without `context:` before it"), "{}", finding.line());
    assert!(finding.advice.contains("check --announcement FILE --path PATH"), "{}", finding.line());
    let named = TypeWiring { announcers: BOTH, named: BOTH, ..TypeWiring::default() };
    let formed = found(|case| {
        case.types[0].1 = TypeWiring { misnamed: BOTH, ..named };
        let forms = KeySpellings { count: 1, spelling: Some("as `context:{key}`".to_owned()) };
        case.notes.key_spellings.insert("context".to_owned(), forms);
    });
    assert!(
        formed.saw.contains("keys that are read were announced as `context:{key}` (so far: 1)"),
        "{}",
        formed.saw
    );
    let mut by_chance = Case::healthy();
    by_chance.types[0].1 = named;
    by_chance.notes.key_spellings.insert("context".to_owned(), KeySpellings::default());
    assert_eq!(findings(&by_chance.evidence()), []);
    let mixed = found(|case| case.types[0].1 = TypeWiring { other_case: EU, met: BOTH, ..named });
    assert_eq!((mixed.check, mixed.subject.as_str()), (Check::KeysUnmatched, "context"));
    assert!(mixed.saw.starts_with("eu-west-1 announced keys that are read in another letter case"), "{}", mixed.saw);
    assert!(mixed.advice.contains("`{key}` of /v1/contexts/{key}/{view}, filled in"), "{}", mixed.advice);
    let one = found(|case| case.types[0].1 = TypeWiring { pending: 1, ..named });
    assert!(one.saw.contains("meanwhile a record that is read changed and no"), "{}", one.saw);
    let silent = TypeWiring {
        unannounced: 2,
        unannounced_at: Some(NOW),
        announcers: EU,
        named: EU,
        met: EU,
        ..TypeWiring::default()
    };
    let finding = found(|case| case.types[0].1 = silent);
    assert_eq!(finding.check, Check::Unannounced);
    assert!(finding.saw.contains("nobody announced: 2 of 2 seen, each by a higher version"), "{}", finding.line());
    assert!(finding.saw.contains("us-east-1 never announced this type"), "{}", finding.line());
    let audited = TypeWiring {
        announcers: BOTH,
        named: BOTH,
        met: BOTH,
        violated: true,
        missed: true,
        ..TypeWiring::default()
    };
    let finding = found(|case| case.types[0].1 = audited);
    assert_eq!(finding.saw, "an audit saw changes that nobody announced");
    let mut late = Case::healthy();
    late.types[0].1 = TypeWiring { missed: false, ..audited };
    assert_eq!(findings(&late.evidence()), [], "nothing was heard since");
}

/// Findings of a route that shows `record`, after announcements of keys that nobody reads.
fn unread_key_findings(record: &str, keys: &[&str]) -> Vec<String> {
    let mut case = Case::healthy();
    let text = format!("[[service.route]]\npath = \"/v1/{{site}}/{{meter}}\"\nrecords = [\"{record}\"]\n");
    let region = "[[service.region]]\nname = \"eu-west-1\"\nurl = \"https://eu.example.com\"\n";
    case.config = from_toml(&format!("{region}{text}")).unwrap();
    case.notes = Notes::default();
    let punctuation = keys.iter().flat_map(|key| key.chars()).filter(char::is_ascii_punctuation).collect();
    let unread = UnreadKeys { count: keys.len() as u64, punctuation };
    case.notes.unread_keys.insert("meter".to_owned(), unread);
    case.types = vec![("meter".to_owned(), TypeWiring { announcers: EU, named: EU, ..TypeWiring::default() })];
    findings(&case.evidence()).into_iter().map(|finding| finding.line()).collect()
}

#[test]
fn unmatchable_keys_reported_at_first_announcement() {
    let short = unread_key_findings("meter:{site}/{meter}", &["7"]);
    assert!(short[0].contains("no announced key (so far: 1) has the `/` of `{site}/{meter}`"), "{short:?}");
    assert_eq!(
        unread_key_findings("meter:{site}/{meter}", &["7", "bergen/9"]),
        [""; 0],
        "some are of the right form"
    );
    assert_eq!(unread_key_findings("meter:{meter}", &["7"]), [""; 0], "it may be of another meter");
}

fn odd_region(status: u16) -> Finding {
    found(|case| (case.eu().odd, case.eu().odd_status) = (recent(6, 0), status))
}

#[test]
fn deviating_region_is_diagnosed_by_reply() {
    assert!(odd_region(404).line().contains("answers 404 where another region has the record; look at the path in"));
    assert!(odd_region(401).advice.contains("credentials"));
    assert!(odd_region(301).advice.contains("redirects"));
    assert_eq!(odd_region(404).check, Check::RegionOdd);
    let fails = found(|case| (case.eu().failed, case.eu().failure) = (recent(5, 0), "connect".to_owned()));
    assert!(
        fails.line().contains("5 of the last 5 requests to it failed, the last with connect"),
        "{}",
        fails.line()
    );
    assert_eq!(found(|case| case.eu().unshown = recent(4, 0)).check, Check::TopicSwapped);
    assert_eq!(found(|case| case.eu().unannounced = recent(8, 0)).check, Check::TopicSwapped);
    assert_eq!(found(|case| case.eu().aged = recent(8, 0)).check, Check::Aged);
}

/// State of the report's line about codings, if it has one.
fn coding_state(case: &Case) -> Option<LineState> {
    report(&case.evidence()).into_iter().find(|line| line.check == "coding").map(|line| line.state)
}

#[test]
fn undecodable_reply_is_reported_with_advice() {
    for (why, saw, advice) in [
        ("unasked", "the last one came in the coding `br`, which was not asked for", "leave compression out"),
        ("several", "came in several codings one behind the other (`br`)", "leave compression out"),
        ("damaged", "said `br`, and its bytes are not that or are cut short", "look at what stands before it"),
        ("window", "takes a larger window", "a window of 8 MiB"),
        ("other-dictionary", "another dictionary than the one offered", "the file that the route's dictionary names"),
    ] {
        let finding = found(|case| {
            case.eu().undecoded = recent(1, 9);
            case.eu().undecoded_last = Undecoded { why, stated: "br".to_owned(), route: PATH.to_owned() };
        });
        assert_eq!((finding.check, finding.subject.as_str()), (Check::Coding, "eu-west-1"));
        assert!(finding.saw.starts_with("1 of its last 10 replies on routes with compression"), "{}", finding.saw);
        assert!(finding.saw.contains(&format!("on {PATH} ")) && finding.saw.contains(saw), "{}", finding.saw);
        assert!(finding.advice.contains(advice), "{why}: {}", finding.advice);
    }
    assert!(!Check::Coding.touches_freshness(), "other regions' replies are taken");
    let mut well = Case::healthy();
    assert_eq!(coding_state(&well), None, "no route has regions compress");
    well.config.service.routes[0].compression = Some(crate::config::Compression::Gzip);
    assert_eq!(coding_state(&well), Some(LineState::Unchecked));
    well.eu().undecoded = recent(0, 3);
    assert_eq!(coding_state(&well), Some(LineState::Well));
}

#[test]
fn clock_skew_blames_odd_one_out() {
    let ours = found(|case| {
        case.notes.regions.iter_mut().for_each(|region| region.skews_ms = vec![90_400, 90_020, 90_900]);
        case.arrivals.iter_mut().for_each(|arrivals| arrivals.lag_ms = Some(-90_000));
    });
    assert_eq!((ours.check, ours.subject.as_str()), (Check::Clock, "this host"));
    assert!(ours.saw.contains("behind") && ours.saw.contains("90.0 s"), "{}", ours.saw);
    let ahead = found(|case| {
        case.notes.regions.iter_mut().for_each(|region| region.skews_ms = vec![-90_400, -90_020]);
        case.arrivals.iter_mut().for_each(|arrivals| arrivals.lag_ms = Some(90_100));
    });
    assert!(ahead.saw.contains("ahead"), "{}", ahead.saw);
    let theirs = found(|case| case.eu().skews_ms = vec![-30_000, -31_000]);
    assert_eq!((theirs.check, theirs.subject.as_str()), (Check::Clock, "eu-west-1"));
    assert!(theirs.saw.contains("behind this host's clock by 30.0 s"), "{}", theirs.saw);
}

/// The one finding of a route that never had a good reply, and `change`.
fn never_good(change: fn(&mut RouteNotes)) -> Finding {
    found(|case| {
        case.route().good = 0;
        change(case.route());
    })
}

#[test]
fn misfitting_routes_suggest_setting() {
    let unmatched = found(|case| {
        case.notes.routes.clear();
        case.notes.resembled.insert(PATH.to_owned(), 40);
    });
    assert_eq!((unmatched.check, unmatched.subject.as_str()), (Check::RouteUnmatched, PATH));
    let refused = found(|case| {
        (case.route().refused, case.route().refused_status) = (recent(5, 0), 401);
        (case.route().good, case.route().no_store) = (0, Recent::default());
        case.route().dropped = [("x-api-key".to_owned(), 5)].into();
    });
    assert_eq!(refused.check, Check::Refused);
    assert!(
        refused.line().contains("answers 401, and x-api-key of the callers did not go along"),
        "{}",
        refused.line()
    );
    let bare = found(|case| {
        (case.route().refused, case.route().refused_status) = (recent(5, 0), 403);
        (case.route().good, case.route().no_store) = (0, Recent::default());
    });
    assert!(bare.advice.contains("to a region itself"), "{}", bare.line());
    assert!(bare.advice.contains("--header 'authorization: ...' --header 'cookie: ...'"), "{}", bare.line());
    let unsent = found(|case| {
        case.config.service.routes[0].forward = vec![http::HeaderName::from_static("x-tenant")];
        (case.route().refused, case.route().refused_status) = (recent(5, 0), 400);
        (case.route().good, case.route().no_store) = (0, Recent::default());
    });
    assert!(unsent.advice.contains("--header 'x-tenant: ...'"), "{}", unsent.line());
    let vary = found(|case| {
        case.route().varied = recent(5, 0);
        case.route().vary = [("accept-language".to_owned(), 5)].into();
    });
    assert!(vary.advice.contains("write accept-language in the route's forward"), "{}", vary.line());
    assert_eq!(never_good(|route| route.no_store = recent(5, 0)).check, Check::NoStore);
    assert_eq!(never_good(|route| route.too_large = recent(5, 0)).check, Check::TooLarge);
    let unstated = found(|case| case.route().unstated = recent(5, 1));
    assert_eq!(unstated.check, Check::GrantsUnstated);
    let absent = never_good(|route| (route.absent, route.no_store) = (recent(9, 0), Recent::default()));
    assert!(absent.line().contains("perhaps this record does not exist"), "{}", absent.line());
    let versions = found(|case| case.route().versioned = recent(0, 5));
    assert!(versions.line().contains("x-record-version is missing"), "{}", versions.line());
}

#[test]
fn every_check_has_unique_listed_word() {
    let mut words: Vec<_> = Check::VARIANTS.iter().map(|check| check.into_str()).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), Check::VARIANTS.len());
    assert!(Check::VARIANTS.windows(2).all(|pair| pair[0] < pair[1]));
}

/// Text of the report's notes.
fn noted(case: &Case) -> Vec<String> {
    let lines = report(&case.evidence()).into_iter();
    lines.filter(|line| line.state == LineState::Note).map(|line| line.saw).collect()
}

#[test]
fn unrouted_record_types_are_listed() {
    let mut shared = Case::healthy();
    let seen = UnroutedType { count: 4, regions: vec![RegionId(0)], last: NOW.before(Duration::from_secs(9)) };
    shared.notes.unrouted_types.insert("discount".to_owned(), seen.clone());
    // A reload has named it since.
    shared.notes.unrouted_types.insert("context".to_owned(), seen.clone());
    assert_eq!(findings(&shared.evidence()), [], "it may be another service's");
    let listed = unrouted::types(&shared.evidence());
    assert_eq!(listed.len(), 1, "{listed:#?}");
    let discount = &listed[0];
    assert_eq!((discount.record_type.as_str(), discount.announced, discount.last_s), ("discount", 4, 9));
    assert!(discount.advice.contains("records = [..., \"discount:{key}\"]"), "{}", discount.advice);
    let saw = "eu-west-1 announced it 4 times, and no route names it: its changes reach nothing that is stored";
    assert_eq!(noted(&shared), [saw]);
    shared.types[0].1 = TypeWiring::default();
    assert_eq!(noted(&shared), [""; 0], "then it is a finding already");
}

/// A region that has shown a version for so long that those `below` do not have.
fn ahead(seconds: u64, below: RegionSet) -> Case {
    let mut case = Case::healthy();
    for second in [0, seconds] {
        let at = NOW.before(Duration::from_secs(seconds - second));
        let shown: Vec<_> = below.iter().map(|region| (region, Version(4))).collect();
        let shown = [shown, vec![(RegionId(1), Version(9))]].concat();
        let record = RecordId { record_type: TypeId(0), hash: 7 };
        case.notes.leads.compare(&RecordVersions { record, shown: &shown, announced: Version::NONE, at });
    }
    case
}

#[test]
fn region_that_nobody_reaches_is_named() {
    assert_eq!(findings(&ahead(59, EU).evidence()), [], "it may be merely the first");
    assert_eq!(findings(&ahead(90, RegionSet::EMPTY).evidence()), [], "nothing was compared");
    let case = ahead(61, EU);
    let found = findings(&case.evidence());
    assert_eq!((found[0].check, found[0].subject.as_str()), (Check::RegionAhead, "us-east-1"));
    assert!(found[0].saw.contains("that eu-west-1 did not reach in 61 s"), "{}", found[0].saw);
    assert!(found[0].advice.contains("region drain us-east-1"), "{}", found[0].advice);
    let later = Evidence { now: NOW + crate::admin::limits::LOSS_SHOWN + Duration::from_secs(1), ..case.evidence() };
    assert_eq!(findings(&later), [], "it is ahead no more");
    let at_once = ahead(6, EU);
    let lead_wait = Duration::from_secs(5);
    assert_eq!(findings(&Evidence { lead_wait, ..at_once.evidence() }).len(), 1, "a doctor waits less");
}

#[test]
fn versions_that_began_anew_are_named() {
    let back = found(|case| case.route().back = Some(NOW.before(Duration::from_secs(20))));
    assert_eq!((back.check, back.subject.as_str()), (Check::VersionsBack, PATH));
    assert!(back.advice.contains("announce RESET"), "{}", back.advice);
}

#[test]
fn content_changed_under_version_is_named() {
    let other = found(|case| case.route().other_content = Some(NOW.before(Duration::from_secs(20))));
    assert_eq!((other.check, other.subject.as_str()), (Check::SameVersionDiffers, PATH));
    assert!(other.advice.contains("cover everything that a reply shows"), "{}", other.advice);
}

/// Place of a finding by `docs/findings.md`, but for what it adds in parentheses.
fn place(check: Check) -> &'static str {
    match (check.hides_changes(), check.touches_freshness()) {
        (true, _) => "a reason, `doubtful`",
        (false, true) => "a reason",
        (false, false) => "a warning",
    }
}

#[test]
fn findings_page_shows_every_check() {
    let page = include_str!("../../../docs/findings.md");
    let (_, table) = page.split_once("\n| finding |").unwrap();
    let rows: Vec<_> =
        table.lines().skip(2).map(|row| row.trim_matches('|').split(" | ").collect::<Vec<_>>()).collect();
    let places = rows.iter().map(|cells| cells[cells.len() - 1].split(" (").next().unwrap().trim());
    let shown: Vec<_> = rows.iter().map(|cells| cells[0].trim()).zip(places).collect();
    let known = Check::VARIANTS.iter().map(|check| (format!("`{}`", check.into_str()), place(*check)));
    let known: Vec<_> = known.collect();
    assert_eq!(shown, known.iter().map(|(word, place)| (word.as_str(), *place)).collect::<Vec<_>>());
    assert!(rows.iter().all(|cells| cells.len() == 4), "what was seen, and what to do");
}
