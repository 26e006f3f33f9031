//! Every finding appears with its evidence and not without it. A healthy sidecar has none.

use std::time::Duration;

use super::report::{LineState, report};
use super::*;
use crate::aws::certificate::RefusedUrl;
use crate::aws::verify::Rejected;
use crate::config::read::from_toml;
use crate::model::ids::{RecordId, TypeId, Version};
use crate::protocol::event::{Grade, SubscriptionState};
use crate::protocol::horizon::Sight;
use crate::sidecar::announcements::subscription::{AwsTrouble, Stage};
use crate::telemetry::leads::RecordVersions;
use crate::telemetry::observed::{KeyForms, Recent, RegionNotes, RouteNotes, Undecoded, UnreadKeys, UnroutedType};

const NOW: Moment = Moment::from_nanos(1_000_000_000_000);
const PATH: &str = "/v1/contexts/{key}/{view}";

/// Healthy evidence for findings, of two regions and one route.
struct Case {
    config: Config,
    notes: Notes,
    horizon: Horizon,
    heard: Vec<Heard>,
    subscriptions: Vec<SubscriptionStatus>,
    types: Vec<(String, Wired)>,
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
        let region = |name: &str| {
            format!(
                "[[service.region]]\nname = \"{name}\"\nurl = \"https://{name}.example.com\"\n\
                 topic = \"arn:aws:sns:{name}:123456789012:changes\"\n"
            )
        };
        let route = format!("[[service.route]]\npath = \"{PATH}\"\nrecords = [\"context:{{key}}\"]\n");
        let config = from_toml(&(region("eu-west-1") + &region("us-east-1") + &route)).unwrap();
        let topic = |id: u8, name: &str| {
            let stage = Stage::Subscribed;
            let since = NOW.before(Duration::from_secs(60));
            SubscriptionStatus { stage, ..SubscriptionStatus::new(RegionId(id), name, "arn", since) }
        };
        let notes = RegionNotes {
            versioned: recent(8, 0),
            numbered: recent(8, 0),
            through: recent(8, 0),
            heartbeats: 9,
            undecodable: recent(0, 8),
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
        let live = Sight { state: SubscriptionState::Live, grade: Grade::Watermark, ..Sight::default() };
        let wired = Wired { heard: BOTH, named: BOTH, met: BOTH, told: 5, ..Wired::default() };
        Self {
            config,
            notes: Notes {
                regions: vec![notes.clone(), notes],
                routes: [(PATH.to_owned(), route)].into(),
                ..Notes::default()
            },
            horizon: Horizon { regions: vec![live, live], ..Horizon::default() },
            heard: vec![Heard { lag_ms: Some(30), ..Heard::default() }; 2],
            subscriptions: vec![topic(0, "eu-west-1"), topic(1, "us-east-1")],
            types: vec![("context".to_owned(), wired)],
        }
    }

    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            config: &self.config,
            notes: &self.notes,
            horizon: &self.horizon,
            heard: &self.heard,
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
fn what_is_healthy_has_no_finding_and_every_line_of_its_report_is_well() {
    let case = Case::healthy();
    assert_eq!(findings(&case.evidence()), []);
    let lines = report(&case.evidence());
    assert!(lines.len() > 20 && lines.iter().all(|line| line.state == LineState::Well), "{lines:#?}");
}

#[test]
fn that_a_region_shows_what_its_topic_announces_is_not_said_more_strongly_than_it_was_seen() {
    let mut case = Case::healthy();
    case.eu().unshown = recent(1, 2);
    let lines = report(&case.evidence());
    let line = lines.iter().find(|line| line.check == "topic-swapped" && line.subject == "eu-west-1").unwrap();
    assert_eq!(line.state, LineState::Well);
    assert_eq!(line.saw, "nothing contradicts it: 2 of 3 replies after an announcement showed what was announced");
}

#[test]
fn what_nothing_was_seen_of_is_no_finding_and_says_how_to_see_it() {
    let mut case = Case::healthy();
    case.notes = Notes { regions: vec![RegionNotes::default(); 2], ..Notes::default() };
    case.subscriptions.iter_mut().for_each(|status| status.since = NOW.before(Duration::from_secs(3)));
    case.types[0].1 = Wired::default();
    case.heard.clear();
    assert_eq!(findings(&case.evidence()), []);
    let unseen: Vec<_> =
        report(&case.evidence()).into_iter().filter(|line| line.state == LineState::Unseen).collect();
    assert!(unseen.len() > 15 && unseen.iter().all(|line| !line.advice.is_empty()), "{unseen:#?}");
}

#[test]
fn what_a_topic_lacks_is_said_with_what_is_lost_by_it() {
    let checked = |check: Check, change: fn(&mut Case), said: &str| {
        let finding = found(change);
        assert_eq!((finding.check, finding.subject.as_str()), (check, "eu-west-1"), "{finding:?}");
        assert!(finding.line().contains(said), "{}", finding.line());
    };
    checked(
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
    checked(
        Check::HeartbeatsMissing,
        |case| {
            (case.eu().heartbeats, case.eu().through) = (0, Recent::default());
            case.horizon.regions[0].grade = Grade::Weak;
        },
        "no heartbeat arrives",
    );
    checked(
        Check::HeartbeatsMissing,
        |case| case.eu().heartbeat_at = Some(NOW.before(Duration::from_secs(190))),
        "its heartbeats ended 190 s ago",
    );
    let mut restarting = Case::healthy();
    restarting.eu().heartbeat_at = Some(NOW.before(Duration::from_secs(60)));
    assert_eq!(findings(&restarting.evidence()), [], "a publisher that restarts is back by then");
    checked(Check::NumbersMissing, |case| case.eu().numbered = recent(0, 3), "no publisher and no sequence");
    checked(Check::ThroughMissing, |case| case.eu().through = recent(0, 3), "bound=none");
    checked(
        Check::Undecodable,
        |case| {
            (case.eu().undecodable, case.eu().undecodable_why) = (recent(2, 1), "not valid JSON".to_owned());
        },
        "2 of its last 3 messages are no announcements: not valid JSON",
    );
    checked(Check::VersionsUnannounced, |case| case.eu().versioned = recent(0, 3), "state no version although");
}

#[test]
fn a_certificate_elsewhere_is_told_with_the_setting_and_where_the_log_has_its_place() {
    let unverified = |signer: Option<&str>| {
        found(|case| {
            case.config.announcements.insecure_sns_signer = signer.map(|url| url::Url::parse(url).unwrap());
            case.heard[0].unverified = Some(Rejected::CertificateUrl(RefusedUrl::Host));
        })
    };
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
fn a_type_with_a_typo_is_told_with_the_one_that_is_meant_and_a_foreign_type_is_not() {
    let announced = |case: &mut Case, name: &str| {
        let seen = UnroutedType { count: 4, regions: vec![RegionId(0), RegionId(1)], last: NOW };
        case.notes.unrouted_types.insert(name.to_owned(), seen);
    };
    let typo = found(|case| {
        announced(case, "contxt");
        case.types[0].1 = Wired::default();
    });
    assert_eq!((typo.check, typo.subject.as_str()), (Check::TypeUnrouted, "contxt"));
    assert!(typo.line().contains("eu-west-1 and us-east-1 announced it 4 times"), "{}", typo.line());
    assert!(typo.line().contains("if `context` is meant"), "{}", typo.line());
    let other = found(|case| {
        announced(case, "invoice");
        case.types[0].1 = Wired::default();
    });
    assert!(other.advice.contains("`invoice:{key}`"), "{}", other.line());
    let mut shared = Case::healthy();
    announced(&mut shared, "invoice");
    announced(&mut shared, "context-audit");
    assert_eq!(findings(&shared.evidence()), [], "other services may announce on the same topic");
    let mut mended = Case::healthy();
    announced(&mut mended, "contxt");
    mended.types[0].1 = Wired::default();
    let later =
        Evidence { now: NOW + crate::admin::limits::LOSS_SHOWN + Duration::from_secs(1), ..mended.evidence() };
    assert_eq!(findings(&later), [], "it came no more");
}

#[test]
fn keys_of_another_form_are_told_with_the_template_that_makes_them() {
    let wired = Wired { heard: BOTH, named: BOTH, untold: 2, untold_at: Some(NOW), ..Wired::default() };
    let finding = found(|case| case.types[0].1 = wired);
    assert_eq!((finding.check, finding.subject.as_str()), (Check::KeysUnmatched, "context"));
    // When everything is a hit, only audits ask the regions.
    let audited = Wired { heard: BOTH, named: BOTH, violated: true, missed: true, ..Wired::default() };
    let finding = found(|case| case.types[0].1 = audited);
    assert!(finding.check == Check::KeysUnmatched && finding.saw.contains("an audit saw"), "{}", finding.line());
    assert!(finding.advice.contains("`{key}` of /v1/contexts/{key}/{view}, filled in"), "{}", finding.line());
    assert!(finding.advice.contains("without `context:` before it"), "{}", finding.line());
    assert!(finding.advice.contains("check --announcement FILE --path PATH"), "{}", finding.line());
    let named = Wired { heard: BOTH, named: BOTH, ..Wired::default() };
    let formed = found(|case| {
        case.types[0].1 = Wired { misnamed: BOTH, ..named };
        let forms = KeyForms { count: 1, form: Some("as `context:{key}`".to_owned()) };
        case.notes.key_forms.insert("context".to_owned(), forms);
    });
    assert!(
        formed.saw.contains("keys that are read were announced as `context:{key}` (so far: 1)"),
        "{}",
        formed.saw
    );
    let mut by_chance = Case::healthy();
    by_chance.types[0].1 = named;
    by_chance.notes.key_forms.insert("context".to_owned(), KeyForms::default());
    assert_eq!(findings(&by_chance.evidence()), []);
    let mixed = found(|case| case.types[0].1 = Wired { other_case: EU, met: BOTH, ..named });
    assert_eq!((mixed.check, mixed.subject.as_str()), (Check::KeysUnmatched, "context"));
    assert!(mixed.saw.starts_with("eu-west-1 announced keys that are read in another letter case"), "{}", mixed.saw);
    assert!(mixed.advice.contains("`{key}` of /v1/contexts/{key}/{view}, filled in"), "{}", mixed.advice);
    let one = found(|case| case.types[0].1 = Wired { pending: 1, ..named });
    assert!(one.saw.contains("meanwhile a record that is read changed without"), "{}", one.saw);
    let silent = Wired { untold: 2, untold_at: Some(NOW), heard: EU, named: EU, met: EU, ..Wired::default() };
    let finding = found(|case| case.types[0].1 = silent);
    assert_eq!(finding.check, Check::Unannounced);
    assert!(finding.saw.contains("nobody announced: 2 of 2 seen, each by a higher version"), "{}", finding.line());
    assert!(finding.saw.contains("us-east-1 never announced this type"), "{}", finding.line());
    let audited = Wired { heard: BOTH, named: BOTH, met: BOTH, violated: true, missed: true, ..Wired::default() };
    let finding = found(|case| case.types[0].1 = audited);
    assert_eq!(finding.saw, "an audit saw changes that nobody announced");
    let mut late = Case::healthy();
    late.types[0].1 = Wired { missed: false, ..audited };
    assert_eq!(findings(&late.evidence()), [], "nothing was heard since");
}

#[test]
fn keys_that_no_route_can_make_are_told_at_the_first_announcement() {
    let told = |record: &str, keys: &[&str]| {
        let mut case = Case::healthy();
        let text = format!("[[service.route]]\npath = \"/v1/{{site}}/{{meter}}\"\nrecords = [\"{record}\"]\n");
        let region = "[[service.region]]\nname = \"eu-west-1\"\nurl = \"https://eu.example.com\"\n";
        case.config = from_toml(&format!("{region}{text}")).unwrap();
        case.notes = Notes::default();
        let punctuation = keys.iter().flat_map(|key| key.chars()).filter(char::is_ascii_punctuation).collect();
        let unread = UnreadKeys { count: keys.len() as u64, punctuation };
        case.notes.unread_keys.insert("meter".to_owned(), unread);
        case.types = vec![("meter".to_owned(), Wired { heard: EU, named: EU, ..Wired::default() })];
        findings(&case.evidence()).into_iter().map(|finding| finding.line()).collect::<Vec<_>>()
    };
    let short = told("meter:{site}/{meter}", &["7"]);
    assert!(short[0].contains("no announced key (so far: 1) has the `/` of `{site}/{meter}`"), "{short:?}");
    assert_eq!(told("meter:{site}/{meter}", &["7", "bergen/9"]), [""; 0], "some are of the right form");
    assert_eq!(told("meter:{meter}", &["7"]), [""; 0], "it may be of another meter");
}

#[test]
fn one_region_against_the_others_is_told_apart_by_what_it_says() {
    let odd = |status: u16| found(|case| (case.eu().odd, case.eu().odd_status) = (recent(6, 0), status));
    assert!(odd(404).line().contains("answers 404 where another region has the record; look at the path in"));
    assert!(odd(401).advice.contains("credentials"));
    assert!(odd(301).advice.contains("redirects"));
    assert_eq!(odd(404).check, Check::RegionOdd);
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

#[test]
fn one_reply_that_cannot_be_decompressed_is_told_with_what_came_and_what_to_do() {
    let told = |why: &'static str| {
        found(|case| {
            case.eu().undecoded = recent(1, 9);
            case.eu().undecoded_last = Undecoded { why, stated: "br".to_owned(), route: PATH.to_owned() };
        })
    };
    for (why, saw, advice) in [
        ("unasked", "the last one came in the coding `br`, which was not asked for", "leave compression out"),
        ("several", "came in several codings one behind the other (`br`)", "leave compression out"),
        ("damaged", "said `br`, and its bytes are not that or are cut short", "look at what stands before it"),
        ("window", "takes a larger window", "a window of 8 MiB"),
        ("other-dictionary", "another dictionary than the one offered", "the file that the route's dictionary names"),
    ] {
        let finding = told(why);
        assert_eq!((finding.check, finding.subject.as_str()), (Check::Coding, "eu-west-1"));
        assert!(finding.saw.starts_with("1 of its last 10 replies on routes with compression"), "{}", finding.saw);
        assert!(finding.saw.contains(&format!("on {PATH} ")) && finding.saw.contains(saw), "{}", finding.saw);
        assert!(finding.advice.contains(advice), "{why}: {}", finding.advice);
    }
    assert!(!Check::Coding.touches_freshness(), "other regions' replies are taken");
    let mut well = Case::healthy();
    let line = |case: &Case| report(&case.evidence()).into_iter().find(|line| line.check == "coding");
    assert_eq!(line(&well), None, "no route has regions compress");
    well.config.service.routes[0].compression = Some(crate::config::Compression::Gzip);
    assert_eq!(line(&well).map(|line| line.state), Some(LineState::Unseen));
    well.eu().undecoded = recent(0, 3);
    assert_eq!(line(&well).map(|line| line.state), Some(LineState::Well));
}

#[test]
fn a_clock_that_is_off_is_this_hosts_where_all_others_agree_and_theirs_where_one_differs() {
    let ours = found(|case| {
        case.notes.regions.iter_mut().for_each(|region| region.skews_ms = vec![90_400, 90_020, 90_900]);
        case.heard.iter_mut().for_each(|heard| heard.lag_ms = Some(-90_000));
    });
    assert_eq!((ours.check, ours.subject.as_str()), (Check::Clock, "this host"));
    assert!(ours.saw.contains("behind") && ours.saw.contains("90.0 s"), "{}", ours.saw);
    let ahead = found(|case| {
        case.notes.regions.iter_mut().for_each(|region| region.skews_ms = vec![-90_400, -90_020]);
        case.heard.iter_mut().for_each(|heard| heard.lag_ms = Some(90_100));
    });
    assert!(ahead.saw.contains("ahead"), "{}", ahead.saw);
    let theirs = found(|case| case.eu().skews_ms = vec![-30_000, -31_000]);
    assert_eq!((theirs.check, theirs.subject.as_str()), (Check::Clock, "eu-west-1"));
    assert!(theirs.saw.contains("behind this host's clock by 30.0 s"), "{}", theirs.saw);
}

#[test]
fn routes_that_do_not_fit_what_is_asked_or_answered_are_told_with_the_setting_to_write() {
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
    let never = |change: fn(&mut RouteNotes)| {
        found(move |case| {
            case.route().good = 0;
            change(case.route());
        })
    };
    assert_eq!(never(|route| route.no_store = recent(5, 0)).check, Check::NoStore);
    assert_eq!(never(|route| route.too_large = recent(5, 0)).check, Check::TooLarge);
    let absent = never(|route| (route.absent, route.no_store) = (recent(9, 0), Recent::default()));
    assert!(absent.line().contains("perhaps this record does not exist"), "{}", absent.line());
    let versions = found(|case| case.route().versioned = recent(0, 5));
    assert!(versions.line().contains("x-record-version is missing"), "{}", versions.line());
}

#[test]
fn every_check_has_a_word_of_its_own_and_is_in_the_list() {
    let mut words: Vec<_> = Check::ALL.iter().map(|check| check.word()).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), Check::ALL.len());
    assert!(Check::ALL.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn what_findings_speak_against_is_astray() {
    let of = |change: fn(&mut Case)| {
        let mut case = Case::healthy();
        change(&mut case);
        astray(&case.evidence())
    };
    let announced = |case: &mut Case, name: &str| {
        let seen = UnroutedType { count: 4, regions: vec![RegionId(0)], last: NOW };
        case.notes.unrouted_types.insert(name.to_owned(), seen);
    };
    assert_eq!(of(|_| ()), []);
    assert_eq!(of(|case| case.types[0].1 = Wired::default()), [], "a quiet service loses nothing");
    let (context, eu) = ("context".to_owned(), EU);
    let mut quiet = Case::healthy();
    announced(&mut quiet, "invoice");
    assert_eq!(astray(&quiet.evidence()), [], "other services may share the topic");
    quiet.types[0].1 = Wired::default();
    assert_eq!(astray(&quiet.evidence()), [(context.clone(), eu)]);
    let mut typo = Case::healthy();
    announced(&mut typo, "Context");
    typo.types[0].1.met = RegionSet::EMPTY;
    assert_eq!(astray(&typo.evidence()), [(context.clone(), eu)], "it was announced well before");
    let formed = of(|case| {
        case.types[0].1 = Wired { heard: BOTH, named: BOTH, misnamed: BOTH, met: EU, ..Wired::default() };
        case.notes.key_forms.insert("context".to_owned(), KeyForms::default());
    });
    assert_eq!(formed, [(context, RegionSet::EMPTY.with(RegionId(1)))]);
}

#[test]
fn types_that_no_route_names_are_listed() {
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
    let notes = |case: &Case| {
        let lines = report(&case.evidence()).into_iter();
        lines.filter(|line| line.state == LineState::Note).map(|line| line.saw).collect::<Vec<_>>()
    };
    let saw = "eu-west-1 announced it 4 times, and no route names it: its changes reach nothing that is stored";
    assert_eq!(notes(&shared), [saw]);
    shared.types[0].1 = Wired::default();
    assert_eq!(notes(&shared), [""; 0], "then it is a finding already");
}

#[test]
fn region_that_nobody_reaches_is_named() {
    let ahead = |seconds: u64, below: RegionSet| {
        let mut case = Case::healthy();
        for (second, version) in [(0, 9), (seconds, 9)] {
            let at = NOW.before(Duration::from_secs(seconds - second));
            let shown: Vec<_> = below.iter().map(|region| (region, Version(4))).collect();
            let shown = [shown, vec![(RegionId(1), Version(version))]].concat();
            let record = RecordId { record_type: TypeId(0), hash: 7 };
            case.notes.leads.compare(&RecordVersions { record, shown: &shown, announced: Version::NONE, at });
        }
        case
    };
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
fn content_that_changed_under_its_version_is_named() {
    let other = found(|case| case.route().other_content = Some(NOW.before(Duration::from_secs(20))));
    assert_eq!((other.check, other.subject.as_str()), (Check::SameVersionDiffers, PATH));
    assert!(other.advice.contains("cover everything that a reply shows"), "{}", other.advice);
}

/// What `docs/findings.md` says of where a finding shows, but for what it adds in parentheses.
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
    let place_in = |cells: &[&'static str]| cells[cells.len() - 1].split(" (").next().unwrap().trim();
    let shown: Vec<_> = rows.iter().map(|cells| (cells[0].trim(), place_in(cells))).collect();
    let known = Check::ALL.iter().map(|check| (format!("`{}`", check.word()), place(*check)));
    let known: Vec<_> = known.collect();
    assert_eq!(shown, known.iter().map(|(word, place)| (word.as_str(), *place)).collect::<Vec<_>>());
    assert!(rows.iter().all(|cells| cells.len() == 4), "what was seen, and what to do");
}
