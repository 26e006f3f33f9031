//! One test per rule: the configuration that breaks it, the setting that is reported, and the
//! nearest configuration that is allowed.

use crate::config::error::{ConfigError, Place, Warning};
use crate::config::limits;
use crate::config::read::{from_toml, load};

/// Two regions with topics.
const REGIONS: &str = r#"
[[service.region]]
name = "eu-west-1"
url = "https://eu.example.com"
topic = "arn:aws:sns:eu-west-1:123456789012:changes"
[[service.region]]
name = "us-east-1"
url = "https://us.example.com"
topic = "arn:aws:sns:us-east-1:123456789012:changes"
"#;

fn route(path: &str, more: &str) -> String {
    format!("[[service.route]]\npath = \"{path}\"\nrecords = [\"context:{{key}}\"]\n{more}\n")
}

/// The one mistake that the regions and `text` make.
fn refused(text: &str) -> ConfigError {
    let mut mistakes = from_toml(&format!("{REGIONS}{text}")).expect_err(text);
    assert_eq!(mistakes.len(), 1, "{mistakes:#?}");
    assert!(matches!(mistakes[0].place, Place::At { .. }), "{}", mistakes[0]);
    mistakes.remove(0)
}

fn warnings_of(text: &str) -> Vec<Warning> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nearside.toml");
    std::fs::write(&file, text).unwrap();
    load(Some(&file), std::iter::empty()).unwrap().1.warnings
}

/// The one warning that the regions, a route and `text` make.
fn warned(text: &str) -> String {
    let warnings = warnings_of(&format!("{REGIONS}{}{text}", route("/v1/contexts/{key}", "")));
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    warnings[0].to_string()
}

fn allowed(text: &str) {
    if let Err(mistakes) = from_toml(&format!("{REGIONS}{text}")) {
        panic!("{text}: {mistakes:#?}");
    }
}

fn setting(text: &str) -> String {
    refused(text).setting
}

#[test]
fn a_configuration_with_all_it_needs_has_neither_mistake_nor_warning() {
    assert_eq!(warnings_of(&format!("{REGIONS}{}", route("/v1/contexts/{key}", ""))), vec![]);
}

#[test]
fn at_least_one_region_is_needed_and_at_most_sixteen_are_taken() {
    let mistakes = from_toml("").unwrap_err();
    assert_eq!(mistakes[0].wrong, "no region to ask");
    assert_eq!(mistakes[0].place, Place::File("nearside.toml".into()));
    let many = |count: usize| -> String {
        (0..count)
            .map(|at| format!("[[service.region]]\nname = \"r{at}\"\nurl = \"https://r{at}.example\"\n"))
            .collect()
    };
    assert!(from_toml(&many(crate::protocol::limits::REGIONS)).is_ok());
    let mistakes = from_toml(&many(crate::protocol::limits::REGIONS + 1)).unwrap_err();
    assert_eq!((mistakes.len(), mistakes[0].wrong.as_str()), (1, "17 regions"));
}

#[test]
fn regions_have_names_of_their_own_also_in_variables() {
    for name in ["eu-west-1", "eu.west.1", "EU-WEST-1", "eu--west-1"] {
        let text = format!("[[service.region]]\nname = \"{name}\"\nurl = \"https://x.example\"\n");
        assert_eq!(setting(&text), "service.region.name", "{name}");
    }
}

#[test]
fn regions_have_urls_and_topics_of_their_own() {
    let region =
        |url: &str, topic: &str| format!("[[service.region]]\nname = \"x\"\nurl = \"{url}\"\ntopic = \"{topic}\"\n");
    let (topic, taken) = ("arn:aws:sns:us-west-2:123456789012:changes", "arn:aws:sns:us-east-1:123456789012:changes");
    allowed(&region("https://x.example", topic));
    assert_eq!(setting(&region("https://us.example.com/", topic)), "service.region.url");
    assert_eq!(setting(&region("https://x.example", taken)), "service.region.topic");
    let itself = ["http://127.0.0.1:8700", "http://[::1]:8700", "http://localhost:8700/base"];
    itself
        .iter()
        .for_each(|url| assert!(refused(&region(url, topic)).wrong.contains("it would ask itself"), "{url}"));
    allowed(&(region("http://127.0.0.1:8700", topic) + "[listen]\ntcp = \"127.0.0.1:8702\"\n"));
}

#[test]
fn a_region_that_is_called_as_one_of_aws_and_has_its_topic_in_another_is_warned_of() {
    let region = |name: &str, of: &str| {
        let topic = format!("arn:aws:sns:{of}:123456789012:changes");
        format!("[[service.region]]\nname = \"{name}\"\nurl = \"https://x.example\"\ntopic = \"{topic}\"\n")
    };
    let told = warned(&region("us-west-2", "eu-central-1"));
    assert!(told.contains("region us-west-2 has its topic in eu-central-1"), "{told}");
    assert!(told.contains("nearside.toml:"), "where it is written: {told}");
    for (name, of) in [("us-west-2", "us-west-2"), ("x", "eu-central-1"), ("shop-west-1", "eu-central-1")] {
        let text = format!("{REGIONS}{}{}", region(name, of), route("/v1/contexts/{key}", ""));
        assert_eq!(warnings_of(&text), vec![], "{name}");
    }
}

#[test]
fn plain_http_to_another_machine_is_warned_of_and_to_this_one_is_not() {
    let region = |url: &str| {
        let topic = "arn:aws:sns:us-west-2:123456789012:changes";
        format!("[[service.region]]\nname = \"x\"\nurl = \"{url}\"\ntopic = \"{topic}\"\n")
    };
    assert!(warned(&region("http://x.example")).contains("plain http"));
    for url in ["http://127.0.0.1:9000", "http://[::1]:9000", "http://localhost:9000", "https://x.example"] {
        let text = format!("{REGIONS}{}{}", region(url), route("/v1/contexts/{key}", ""));
        assert_eq!(warnings_of(&text), vec![], "{url}");
    }
}

#[test]
fn without_topics_everything_is_kept_for_the_soft_ttl_only_and_that_is_said() {
    let bare = "[[service.region]]\nname = \"a\"\nurl = \"https://a.example\"\n";
    let told = warnings_of(&format!("{bare}{}", route("/v1/contexts/{key}", "")));
    assert!(told.len() == 1 && told[0].text.contains("no region has a topic"), "{told:?}");
    assert!(warned(bare).contains("region a has no topic"));
    assert!(warned("[announcements]\ntransport = \"off\"\n").contains("not listened to"));
    let off = format!("{bare}{}[announcements]\ntransport = \"off\"\n", route("/v1/contexts/{key}", ""));
    assert_eq!(warnings_of(&off), vec![], "it was asked for");
}

#[test]
fn no_route_is_allowed_and_said() {
    let told = warnings_of(REGIONS);
    assert!(told.len() == 1 && told[0].text.starts_with("no route"), "{told:?}");
}

#[test]
fn a_route_that_is_never_reached_is_refused_and_one_that_shares_paths_is_warned_of() {
    let two = |first: &str, second: &str| format!("{}{}", route(first, ""), route(second, ""));
    assert_eq!(refused(&two("/v1/{key}", "/v1/{key}")).setting, "service.route.path");
    assert_eq!(refused(&two("/{a}/{key}", "/v1/{key}")).setting, "service.route.path");
    allowed(&two("/v1/{key}", "/{a}/{key}"));
    let told = warned(&two("/v2/a/{key}", "/v2/{key}/b"));
    assert!(told.contains("share paths"), "{told}");
    let mistakes = from_toml(&format!("{REGIONS}{}", two("/v1/{x}", "/v1/{x}"))).unwrap_err();
    assert_eq!(mistakes.len(), 3, "names that the path has not, and the second unreachable: {mistakes:#?}");
}

#[test]
fn at_most_so_many_routes_are_taken() {
    let many = |count: usize| -> String { (0..count).map(|at| route(&format!("/{at}/{{key}}"), "")).collect() };
    allowed(&many(limits::ROUTES));
    assert_eq!(refused(&many(limits::ROUTES + 1)).wrong, "257 routes");
}

#[test]
fn a_sidecar_route_has_credentials_and_no_identity_headers_and_an_exact_one_the_reverse() {
    let with = |more: &str| route("/v1/contexts/{key}", more);
    allowed(&with("identity = \"sidecar\"\ncredentials = { file = \"/t\" }"));
    assert_eq!(setting(&with("identity = \"sidecar\"")), "service.route.credentials.file");
    assert_eq!(
        setting(&with("identity = \"sidecar\"\ncredentials = { prefix = \"x\" }")),
        "service.route.credentials.file"
    );
    assert_eq!(setting(&with("credentials = { file = \"/t\" }")), "service.route.credentials.file");
    let both = "identity = \"sidecar\"\ncredentials = { file = \"/t\" }\nidentity_headers = [\"x-user\"]";
    assert_eq!(setting(&with(both)), "service.route.identity_headers");
    let unknown = "identity = \"sidecar\"\ncredentials = { file = \"/t\", fiel = \"/u\" }";
    assert_eq!(refused(&with(unknown)).instead, "did you mean file?");
}

#[test]
fn headers_that_are_part_of_the_key_already_or_differ_in_every_request_are_not_forwarded() {
    let with = |more: &str| route("/v1/contexts/{key}", more);
    allowed(&with("forward = [\"x-tenant\", \"accept-language\"]"));
    for name in [
        "authorization",
        "cookie",
        "traceparent",
        "tracestate",
        "baggage",
        "x-request-id",
        "accept",
        "x-record-floor",
        "x-http-method-override",
        "x-original-url",
        "x_original_url",
    ] {
        assert_eq!(setting(&with(&format!("forward = [\"{name}\"]"))), "service.route.forward", "{name}");
    }
    let own = "identity = \"sidecar\"\ncredentials = { file = \"/t\" }\nforward = [\"authorization\"]";
    assert_eq!(setting(&with(own)), "service.route.forward");
    for name in ["traceparent", "x-record-floor", "x-rewrite-url"] {
        let named = with(&format!("identity_headers = [\"{name}\"]"));
        assert_eq!(setting(&named), "service.route.identity_headers", "{name}");
    }
}

#[test]
fn a_forwarded_user_agent_is_warned_of() {
    let told = warnings_of(&format!("{REGIONS}{}", route("/v1/contexts/{key}", "forward = [\"user-agent\"]")));
    assert!(told.len() == 1 && told[0].text.contains("every client software"), "{told:?}");
}

#[test]
fn an_exact_route_without_identity_headers_is_warned_of() {
    let told = warnings_of(&format!("{REGIONS}{}", route("/v1/contexts/{key}", "identity_headers = []")));
    assert!(told.len() == 1 && told[0].text.contains("shared by all callers"), "{told:?}");
}

#[test]
fn an_address_that_other_machines_reach_needs_leave() {
    for address in ["0.0.0.0:8700", "10.0.0.1:8700", "[::]:8700"] {
        assert_eq!(setting(&format!("[listen]\ntcp = \"{address}\"\n")), "listen.tcp");
        let told = warned(&format!("[listen]\ntcp = \"{address}\"\nallow_non_loopback = true\n"));
        assert!(told.contains("no token guards it"), "{told}");
        assert_eq!(setting(&format!("[admin]\nlisten = \"{address}\"\n")), "admin.listen");
        let admin = address.replace("8700", "8701");
        allowed(&format!("[admin]\nlisten = \"{admin}\"\nallow_non_loopback = true\n"));
    }
    allowed("[listen]\ntcp = \"[::1]:8700\"\n");
}

#[test]
fn a_port_or_a_socket_is_needed_and_a_socket_has_a_path_that_fits() {
    assert_eq!(setting("[listen]\ntcp = false\n"), "listen.tcp");
    allowed("[listen]\ntcp = false\nunix = \"/tmp/nearside.sock\"\n");
    let long = |bytes: usize| format!("[listen]\nunix = \"/{}\"\n", "x".repeat(bytes - 1));
    allowed(&long(limits::SOCKET_PATH_BYTES));
    assert_eq!(setting(&long(limits::SOCKET_PATH_BYTES + 1)), "listen.unix");
    assert!(warned("[listen]\nunix_mode = \"0660\"\n").contains("no effect without listen.unix"));
}

#[test]
fn two_listeners_cannot_share_a_port() {
    assert_eq!(setting("[admin]\nlisten = \"127.0.0.1:8700\"\n"), "admin.listen");
    allowed("[admin]\nlisten = \"127.0.0.2:8700\"\n");
    allowed("[listen]\ntcp = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n");
    let http = |port: u16| {
        format!(
            "[announcements]\ntransport = \"http\"\nhttp_listen = \"0.0.0.0:{port}\"\nhttp_public_url = \"https://p.example\"\n"
        )
    };
    allowed(&http(9000));
    assert_eq!(setting(&http(8701)), "announcements.http_listen");
}

#[test]
fn the_http_transport_needs_an_address_and_a_url_and_others_do_not_use_them() {
    let mistakes = from_toml(&format!("{REGIONS}[announcements]\ntransport = \"http\"\n")).unwrap_err();
    let told: Vec<_> = mistakes.iter().map(|mistake| mistake.setting.as_str()).collect();
    assert_eq!(told, ["announcements.http_listen", "announcements.http_public_url"]);
    assert!(warned("[announcements]\nhttp_listen = \"0.0.0.0:9000\"\n").contains("no effect without transport"));
}

#[test]
fn an_insecure_signer_is_refused_unless_the_endpoint_is_overridden_too() {
    let signer = |more: &str| format!("[announcements]\ninsecure_sns_signer = \"http://127.0.0.1:4566{more}\"\n");
    assert_eq!(setting(&signer("")), "announcements.insecure_sns_signer");
    let endpoint = "endpoint_url = \"http://127.0.0.1:4566\"\n";
    assert!(warned(&format!("{}{endpoint}", signer(""))).contains("INSECURE"));
    assert_eq!(setting(&format!("{}{endpoint}", signer("/path"))), "announcements.insecure_sns_signer");
    let unsigned = warned(&format!("[announcements]\n{endpoint}"));
    assert!(unsigned.contains("write announcements.insecure_sns_signer = \"http://127.0.0.1:4566\""), "{unsigned}");
}

#[test]
fn the_primary_is_the_name_of_a_region() {
    let mistake = refused("[race]\nprimary = \"us-east-2\"\n");
    assert_eq!((mistake.setting.as_str(), mistake.instead.as_str()), ("race.primary", "did you mean \"us-east-1\"?"));
    let config = from_toml(&format!("{REGIONS}[race]\nprimary = \"us-east-1\"\n")).unwrap();
    assert_eq!(config.race.primary, 1);
}

#[test]
fn times_that_undo_each_other_are_refused_where_one_was_written() {
    assert_eq!(setting("[cache]\nttl = \"2m\"\nsoft_ttl = \"3m\"\n"), "cache.soft_ttl");
    assert_eq!(setting("[cache]\nttl = \"60s\"\n"), "cache.ttl");
    assert_eq!(setting("[freshness]\nworst_lag = \"1h\"\n"), "freshness.worst_lag");
    allowed("[cache]\nttl = \"10s\"\n[freshness]\nworst_lag = \"5s\"\n");
    assert_eq!(setting("[drain]\ndeadline = \"1s\"\n"), "drain.deadline");
    assert_eq!(setting("[race]\ndeadline = \"11s\"\n"), "race.deadline");
    allowed("[race]\ndeadline = \"10s\"\n");
    assert!(warned("[drain]\nlinger = \"25s\"\n").contains("stop timeout"));
}

#[test]
fn a_batch_path_leaves_out_the_one_segment_that_the_keys_fill() {
    let of = |more: &str| route("/v1/contexts/{key}/{view}", more);
    allowed(&of("batch = \"/v1/batch/{view}\"\n"));
    allowed(&of("batch = \"/v1/batch/{view}\"\nupstream_batch = \"/v2/{view}/many\"\n"));
    for wrong in ["/v1/batch", "/v1/batch/{view}/{key}", "/v1/batch/{other}", "/v1/batch/{view}/{other}"] {
        let mistake = refused(&of(&format!("batch = \"{wrong}\"\n")));
        assert_eq!(mistake.setting, "service.route.batch", "{wrong}");
        assert!(mistake.instead.contains("\"/v1/batch/{view}\" for {key}"), "{}", mistake.instead);
    }
    assert_eq!(setting(&of("upstream_batch = \"/v1/many/{view}\"\n")), "service.route.upstream_batch");
    let other = refused(&of("batch = \"/v1/batch/{view}\"\nupstream_batch = \"/v1/batch/{key}\"\n"));
    assert_eq!(
        (other.setting.as_str(), other.instead.as_str()),
        ("service.route.upstream_batch", "leave out {key} and name {view}")
    );
    let keyless = "[[service.route]]\npath = \"/v1/all\"\nrecords = [\"list:all\"]\nbatch = \"/v1/batch\"\n";
    assert_eq!(setting(keyless), "service.route.batch");
}

#[test]
fn a_batch_path_takes_nothing_that_a_route_or_another_batch_path_serves() {
    let one = route("/v1/contexts/{key}/{view}", "batch = \"/v1/contexts/many/{view}\"\n");
    let mistake = refused(&one);
    assert_eq!(mistake.setting, "service.route.batch");
    assert!(
        mistake.wrong.contains("would take what the route `/v1/contexts/{key}/{view}` serves"),
        "{}",
        mistake.wrong
    );
    let two = |batch: &str| {
        let other = route("/v1/tenants/{key}", &format!("batch = \"{batch}\"\n"));
        route("/v1/contexts/{key}", "batch = \"/v1/batch\"\n") + &other
    };
    allowed(&two("/v1/batches"));
    assert!(refused(&two("/v1/batch")).wrong.contains("of another route share paths"));
}

#[test]
fn a_second_way_names_the_same_segments_differs_in_something_and_keeps_credentials_apart() {
    let with = |second: &str| route("/v1/contexts/{key}", &format!("second = {{ {second} }}"));
    allowed(&with("path = \"/v2/{key}\", way = \"check\", check_share = 0.5"));
    allowed(&with("url = \"https://second.{region}.example.com\", versions = \"own\", new_share = 1"));
    assert_eq!(setting(&with("path = \"/v2/{other}\"")), "service.route.second.path");
    assert_eq!(setting(&with("way = \"new\"")), "service.route.second.way");
    assert_eq!(setting(&with("path = \"/v2/{key}\", form = \"protobuf\"")), "service.route.second.form");
    assert_eq!(setting(&with("path = \"/v2/{key}\", new_share = 1.5")), "service.route.second.new_share");
    assert_eq!(setting(&with("url = \"https://a.{regio}.example.com\"")), "service.route.second.url");
    assert_eq!(setting(&with("path = \"/v1/contexts/{key}\"")), "service.route.second.path");
    assert_eq!(setting(&with("")), "service.route.second");
    assert_eq!(setting(&route("/v1/contexts/{key}", "second = \"/v2/{key}\"")), "service.route.second");
    assert_eq!(setting(&with("path = \"/v2/{key}\", check_share = 0.0000001")), "service.route.second.check_share");
    assert_eq!(setting(&with("url = \"https://eu.example.com\"")), "service.route.second.url");
    for own in ["127.0.0.1", "localhost"] {
        let wrong = refused(&with(&format!("url = \"http://{own}:8700\""))).wrong;
        assert!(wrong.contains("it would ask itself"), "{wrong}");
    }
    allowed(&with("url = \"http://127.0.0.1:8701\""));
    let own = "path = \"/v2/{key}\", credentials_file = \"/t\"";
    assert_eq!(setting(&with(own)), "service.route.second.credentials_file", "a caller's own entry");
    allowed(&with(own).replace("second", "identity = \"sidecar\"\ncredentials = { file = \"/t\" }\nsecond"));
}

#[test]
fn a_second_way_that_is_chosen_for_nothing_or_asked_where_the_first_is_is_told() {
    let warned = |second: &str| {
        let route = route("/v1/contexts/{key}", &format!("second = {{ {second} }}"));
        warnings_of(&format!("{REGIONS}{route}")).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let none = warned("path = \"/v2/{key}\", way = \"check\", check_share = 0");
    assert!(none.len() == 1 && none[0].contains("nothing is compared"), "{none:?}");
    let none = warned("path = \"/v2/{key}\", way = \"new\", new_share = 0");
    assert!(none.len() == 1 && none[0].contains("the first way answers for every record"), "{none:?}");
    let same = warned("path = \"/v2/{key}\", url = \"https://us.example.com/\"");
    assert!(same.len() == 1 && same[0].contains("the URL of region `us-east-1` itself"), "{same:?}");
    assert_eq!(warned("path = \"/v2/{key}\", way = \"old\", check_share = 0, new_share = 0"), Vec::<String>::new());
}
