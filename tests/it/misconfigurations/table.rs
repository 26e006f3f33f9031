//! The misconfigurations, and the set-ups that are healthy.

use serde_json::{Value, json};

use std::time::Duration;

use super::account::Account;
use super::{Misconfiguration, SetUp};

const NO_TOPIC: &str = "arn:aws:sns:eu-west-1:000000000000:no-such-topic";
const ELSEWHERE: &str = "arn:aws:sns:eu-central-1:000000000000:changes";
const OF_ANOTHER: &str = "arn:aws:sns:eu-west-1:999999999999:changes";

const fn of(
    name: &'static str,
    check: &'static str,
    says: [&'static str; 2],
    make: fn(&mut SetUp),
) -> Misconfiguration {
    Misconfiguration { name, check, says, make }
}

/// An account that refuses `call` with `code`, from `after_s` seconds on.
fn refusing(call: &'static str, code: &'static str, after_s: u64) -> Option<Account> {
    Some(Account { refuses: (call, code), after: Duration::from_secs(after_s) })
}

/// The announcement with another value under `name`; without it where that is null.
fn with(mut says: Value, name: &str, value: Value) -> Option<Value> {
    says[name] = value;
    says.as_object_mut()?.retain(|_, value| !value.is_null());
    Some(says)
}

pub(super) const MISCONFIGURATIONS: &[Misconfiguration] = &[
    // What AWS refuses.
    of(
        "a topic that does not exist",
        "access",
        ["does not exist", "check that the topic, table or stream exists"],
        |it| {
            it.topics[0] = Some(NO_TOPIC.to_owned());
        },
    ),
    of("a topic of another AWS region", "access", ["does not exist", "in that region and account"], |it| {
        it.topics[0] = Some(ELSEWHERE.to_owned());
    }),
    of("a topic of another account", "access", ["999999999999", "in that region and account"], |it| {
        it.topics[0] = Some(OF_ANOTHER.to_owned());
    }),
    of(
        "an AWS endpoint where nothing listens",
        "access",
        ["connection failed", "announcements.endpoint_url"],
        |it| {
            it.set("announcements.endpoint_url", r#""http://127.0.0.1:9""#);
        },
    ),
    of(
        "an emulator without its signer",
        "unverified",
        ["cannot be verified", "insecure_sns_signer, which is not set"],
        |it| {
            it.set("announcements.insecure_sns_signer", "");
        },
    ),
    of(
        "a role that may not subscribe",
        "access",
        ["not authorized to perform: SNS:Subscribe", "sns:Subscribe"],
        |it| {
            it.account = refusing("Subscribe", "AuthorizationError", 0);
        },
    ),
    of("a role that may not make queues", "access", ["perform: sqs:CreateQueue", "sqs:CreateQueue"], |it| {
        it.account = refusing("CreateQueue", "AccessDeniedException", 0);
    }),
    of(
        "a role that may not read its queues",
        "access",
        ["perform: sqs:ReceiveMessage", "sqs:ReceiveMessage"],
        |it| {
            it.account = refusing("ReceiveMessage", "AccessDeniedException", 0);
        },
    ),
    of("a permission revoked while it runs", "access", ["perform: sqs:ReceiveMessage", "sqs:ReceiveMessage"], |it| {
        it.account = refusing("ReceiveMessage", "AccessDeniedException", 6);
    }),
    of(
        "an access key that AWS does not know",
        "access",
        ["(InvalidClientTokenId)", "correct the access key id"],
        |it| {
            it.account = refusing("Subscribe", "InvalidClientTokenId", 0);
        },
    ),
    of("a session token that has expired", "access", ["(ExpiredToken)", "renew the session's credentials"], |it| {
        it.account = refusing("Subscribe", "ExpiredToken", 0);
    }),
    of("a queue whose policy is revoked", "access", ["lost", "look for who changes the policies"], |it| {
        it.revokes_policies = true;
    }),
    // What publishers leave out.
    of("no heartbeats", "heartbeats-missing", ["no heartbeat arrives", "nearside heartbeat"], |it| {
        it.beats = |_, _| None;
    }),
    of("no numbers", "numbers-missing", ["leaves no hole", "number its announcements"], |it| {
        it.says = |_, says| with(with(says, "publisher", Value::Null)?, "sequence", Value::Null);
    }),
    of("no ingestedThrough", "through-missing", ["bound=none", "ingestedThrough"], |it| {
        it.beats = |_, says| with(says, "ingestedThrough", Value::Null);
    }),
    of(
        "announcements without versions",
        "versions-unannounced",
        ["state no version", "announce the version"],
        |it| {
            it.says = |_, says| with(says, "version", Value::Null);
        },
    ),
    of("one publisher of three without numbers", "numbers-missing", ["us-east-1", "1, 2, 3"], |it| {
        it.says = |region, says| match region {
            1 => with(with(says, "publisher", Value::Null)?, "sequence", Value::Null),
            _ => Some(says),
        };
    }),
    // What nobody can read.
    of(
        "a message that is no JSON",
        "undecodable",
        ["neither a JSON object nor base64", "check --announcement"],
        |it| {
            it.says = |_, _| Some(json!("record acme changed"));
        },
    ),
    of("a version that is no number", "undecodable", ["version of the wrong type", "check --announcement"], |it| {
        it.says = |_, says| with(says, "version", json!("v7"));
    }),
    of("a kind that does not exist", "undecodable", ["are no announcements", "nearside.v1.Announcement"], |it| {
        it.says = |_, says| with(says, "kind", json!("UPDATED"));
    }),
    of("an announcement without a key", "undecodable", ["no record type or no key", "docs/publishing.md"], |it| {
        it.says = |_, says| with(says, "key", Value::Null);
    }),
    of("an SNS event of another service", "undecodable", ["are no announcements", "nothing else on this"], |it| {
        it.says = |_, _| Some(json!({ "Records": [{ "eventSource": "aws:s3", "version": "2.1" }] }));
    }),
    // Announcements and routes.
    of(
        "a record type with a typo",
        "type-unrouted",
        ["no route names it", "to announce `context`, use that name"],
        |it| {
            it.says = |_, says| with(says, "recordType", json!("contxt"));
        },
    ),
    of("a record type in another case", "type-unrouted", ["Context", "to announce `context`, use that name"], |it| {
        it.says = |_, says| with(says, "recordType", json!("Context"));
    }),
    of(
        "a route with a typo in its type",
        "type-unrouted",
        ["never announced contex, which routes use", "in the route's records"],
        |it| {
            it.route[1] = r#"records = ["contex:{key}"]"#.to_owned();
        },
    ),
    of(
        "a type that has nothing to do with it",
        "type-unrouted",
        ["invoice", "announce what the routes name"],
        |it| {
            it.says = |_, says| with(says, "recordType", json!("invoice"));
        },
    ),
    of("keys with a prefix", "keys-unmatched", ["none of a record that is read", "announce the key as"], |it| {
        it.says = |_, says| {
            let key = format!("context:{}", says["key"].as_str()?);
            with(says, "key", json!(key))
        };
    }),
    of("keys in another case", "keys-unmatched", ["in another letter case", "nearside explain"], |it| {
        it.says = |_, says| {
            let key = says["key"].as_str()?.to_uppercase();
            with(says, "key", json!(key))
        };
    }),
    of(
        "some keys in another case",
        "keys-unmatched",
        ["in another letter case (and others", "announce every key in the letter case of the path"],
        |it| {
            it.says = |_, says| {
                // One in three is announced as it is read.
                let is_right = says["version"].as_str()?.parse::<u64>().ok()? % 3 == 0;
                let key = says["key"].as_str()?;
                let key = if is_right { key.to_owned() } else { key.to_uppercase() };
                with(says, "key", json!(key))
            };
        },
    ),
    of(
        "composite keys with the type before them",
        "keys-unmatched",
        ["as `context:{key}`", "`{key}/{view}` of"],
        |it| {
            it.route[1] = r#"records = ["context:{key}/{view}"]"#.to_owned();
            it.says = |_, says| {
                let key = format!("context:{}/limits", says["key"].as_str()?);
                with(says, "key", json!(key))
            };
        },
    ),
    of(
        "keys that are a part of a composite one, all of them hits",
        "keys-unmatched",
        ["has the `/` of `{key}/{view}`", "check --announcement FILE --path"],
        |it| {
            it.set("cache.ttl", "");
            it.set("cache.soft_ttl", "");
            it.route[1] = r#"records = ["context:{key}/{view}"]"#.to_owned();
        },
    ),
    of(
        "a route that takes the wrong segment",
        "keys-unmatched",
        ["changed and no announcement has come", "`{view}` of /v1/"],
        |it| {
            it.route[1] = r#"records = ["context:{view}"]"#.to_owned();
        },
    ),
    of(
        "nothing is ever announced",
        "unannounced",
        ["seen, each by a higher version in a reply", "be announced once"],
        |it| {
            it.says = |_, _| None;
            // What is not numbered leaves no hole.
            it.beats = |_, says| with(with(says, "publisher", Value::Null)?, "sequence", Value::Null);
        },
    ),
    // As a service has it that keeps what it stores for an hour: nothing grows, since nothing is
    // asked for again.
    of(
        "keys with a suffix, all of them hits",
        "keys-unmatched",
        ["keys that are read were announced as `{key}/en`", "announce the key as"],
        |it| {
            it.set("cache.ttl", "");
            it.set("cache.soft_ttl", "");
            it.says = |_, says| {
                let key = format!("{}/en", says["key"].as_str()?);
                with(says, "key", json!(key))
            };
        },
    ),
    of(
        "a path prefix too many in every region",
        "absent",
        ["/api/v1/contexts/{key}/{view}", "perhaps this record does not exist"],
        |it| {
            it.urls = vec!["{}/api"; 3];
        },
    ),
    // Versions.
    of("replies without versions", "versions-missing", ["x-record-version is missing", "version_header"], |it| {
        it.all(|region| region.without_version = true);
    }),
    of("another version header", "versions-missing", ["x-version is missing", "service.version_header"], |it| {
        it.set("service.version_header", r#""x-version""#);
    }),
    // One region against the others.
    of("a region of another environment", "region-ahead", ["its answers win over theirs", "region drain"], |it| {
        it.behaviours[1].versions_ahead = 5_000;
    }),
    of("a path prefix too many", "region-odd", ["answers 404 where another", "service.region's url"], |it| {
        it.behaviours[1].status = Some(404);
    }),
    of(
        "credentials that one region does not take",
        "region-odd",
        ["answers 401 where", "look at the credentials"],
        |it| {
            it.behaviours[2].status = Some(401);
        },
    ),
    of("a region that redirects", "region-odd", ["answers 301 where", "redirects"], |it| {
        it.behaviours[0].status = Some(301);
    }),
    of(
        "a coding that nobody asked for",
        "coding",
        ["`br`, which was not asked for", "leave compression out"],
        |it| {
            it.route.push(r#"compression = "zstd""#.to_owned());
            it.behaviours[1].headers = &[("content-encoding", "br")];
        },
    ),
    of("a coding that is damaged", "coding", ["said `zstd`, and its bytes", "what stands before it"], |it| {
        it.route.push(r#"compression = "zstd""#.to_owned());
        it.behaviours[2].headers = &[("content-encoding", "zstd")];
    }),
    of(
        "a region where nothing listens",
        "region-fails",
        ["the last with connect", "whether this host reaches it"],
        |it| {
            it.urls[1] = "http://127.0.0.1:9";
        },
    ),
    of("TLS where none is spoken", "region-fails", ["the last with connect", "tls.ca_file"], |it| {
        it.urls[0] = "https://127.0.0.1:9";
    }),
    of("a port of another protocol", "region-fails", ["failed, the last with", "another protocol"], |it| {
        it.behaviours[1].garbage = true;
    }),
    of("a region that fails", "region-fails", ["the last with 500", "the region's own log"], |it| {
        it.behaviours[2].status = Some(500);
    }),
    of("swapped topics", "topic-swapped", ["its topic announces changes", "perhaps two topics are swapped"], |it| {
        it.publishes_on = vec![1, 0, 2];
        it.behaviours[0].lag = Duration::from_millis(4_000);
    }),
    of("a cache before the regions", "aged", ["kept (Age)", "lead past that cache"], |it| {
        it.all(|region| region.headers = &[("age", "40")]);
    }),
    // Clocks.
    of("a clock that is 90 s ahead", "clock", ["this host", "NTP"], |it| it.ahead_ms = 90_000),
    of("a clock that is 90 s behind", "clock", ["is behind", "set this host's clock"], |it| it.ahead_ms = -90_000),
    of("a region whose clock is off", "clock", ["us-east-1", "set that region's clock"], |it| {
        it.behaviours[1].ahead_s = 45;
    }),
    // Routes, callers, replies.
    of("a route that never matches", "route-unmatched", ["no request matched it", "nearside explain"], |it| {
        it.route[0] = r#"path = "/v1/context/{key}/{view}""#.to_owned();
    }),
    of("an API key that is not forwarded", "header-passed", ["x-api-key", "forward = [\"x-api-key\"]"], |it| {
        it.all(|region| region.demands = Some(("x-api-key", 401)));
        it.send("x-api-key", "k");
    }),
    of("a tenant that is not forwarded", "header-passed", ["x-tenant", "forward = [\"x-tenant\"]"], |it| {
        it.all(|region| region.demands = Some(("x-tenant", 400)));
        it.send("x-tenant", "t");
    }),
    of(
        "callers without credentials",
        "refused",
        ["every region answers 403", "--header 'authorization: ..."],
        |it| {
            it.all(|region| region.demands = Some(("authorization", 403)));
        },
    ),
    of(
        "a tenant that is forwarded and not sent",
        "refused",
        ["every region answers 400", "--header 'x-tenant: ...' --header 'authorization: ...'"],
        |it| {
            it.route.push(r#"forward = ["x-tenant"]"#.to_owned());
            it.all(|region| region.demands = Some(("x-tenant", 400)));
        },
    ),
    of(
        "a language that makes no difference",
        "header-passed",
        ["accept-language", "ignore = [\"accept-language\"]"],
        |it| {
            it.send("accept-language", "de");
        },
    ),
    of(
        "replies that vary by what is thought to change nothing",
        "vary",
        ["vary by referer", "write referer in"],
        |it| {
            it.all(|region| region.headers = &[("vary", "Referer")]);
            it.send("referer", "https://example.com");
        },
    ),
    of("replies that vary by what is ignored", "vary", ["vary by accept-language", "instead of ignore"], |it| {
        it.route.push(r#"ignore = ["accept-language"]"#.to_owned());
        it.all(|region| region.headers = &[("vary", "Accept-Language")]);
        it.send("accept-language", "de");
    }),
    of(
        "an ignored key that the service demands",
        "refused",
        ["answers 401, and x-api-key", "route's forward"],
        |it| {
            it.route.push(r#"ignore = ["x-api-key"]"#.to_owned());
            it.all(|region| region.demands = Some(("x-api-key", 401)));
            it.send("x-api-key", "k");
        },
    ),
    of("replies that vary by everything", "vary", ["vary by *", "leave it out"], |it| {
        it.all(|region| region.headers = &[("vary", "*")]);
    }),
    of("replies that forbid storing", "no-store", ["nothing is kept", "store_no_store = true"], |it| {
        it.all(|region| region.headers = &[("cache-control", "no-store")]);
    }),
];

type Made = (&'static str, fn(&mut SetUp));

pub(super) const HEALTHY: &[Made] = &[
    ("three regions", |_| {}),
    ("one region", |it| keep(it, 1)),
    ("two regions", |it| keep(it, 2)),
    ("regions that lag", |it| {
        it.behaviours[1].lag = Duration::from_millis(700);
        it.behaviours[2].lag = Duration::from_millis(300);
    }),
    ("a slow region", |it| it.behaviours[2].slow = Duration::from_millis(150)),
    ("no versions at all", |it| {
        it.all(|region| region.without_version = true);
        it.says = |_, says| with(says, "version", Value::Null);
    }),
    ("callers who send much of themselves", |it| {
        it.send("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        it.send("referer", "https://example.com");
        it.send("x-request-id", "7");
    }),
    ("callers who are distinguished, and should be", |it| {
        it.all(|region| region.demands = Some(("authorization", 401)));
        it.send("authorization", "Bearer t");
    }),
    ("a header that is forwarded", |it| {
        it.route.push(r#"forward = ["accept-language"]"#.to_owned());
        it.all(|region| region.headers = &[("vary", "Accept-Language, Accept-Encoding")]);
        it.send("accept-language", "de");
    }),
    ("a topic that another service shares", |it| {
        it.says =
            |_, says| if says["key"] == "unread" { with(says, "recordType", json!("invoice")) } else { Some(says) };
    }),
];

fn keep(set_up: &mut SetUp, count: usize) {
    set_up.behaviours.truncate(count);
    set_up.publishes_on.truncate(count);
}
