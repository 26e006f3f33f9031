//! One test per rule: the configuration that breaks it, the setting that is reported, and the
//! nearest configuration that is allowed.

use crate::config::error::{ConfigError, Place, Warning};
use crate::config::limits;
use crate::config::read::{from_toml, from_toml_with_origins, load};

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

/// The one error that the regions and `text` make.
fn refused(text: &str) -> ConfigError {
    let mut errors = from_toml(&format!("{REGIONS}{text}")).expect_err(text);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert!(matches!(errors[0].place, Place::At { .. }), "{}", errors[0]);
    errors.remove(0)
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
    if let Err(errors) = from_toml(&format!("{REGIONS}{text}")) {
        panic!("{text}: {errors:#?}");
    }
}

fn setting(text: &str) -> String {
    refused(text).setting
}

/// Regions of which one is shown a certificate, and a route of this identity.
fn with_certificate(identity: &str) -> String {
    let own = "[service.region.tls]\nclient_cert = \"c.pem\"\nclient_key = \"k.pem\"\n";
    format!("{REGIONS}{own}{}", route("/v1/contexts/{key}", identity))
}

#[test]
fn certificate_is_no_callers() {
    let errors = from_toml(&with_certificate("identity = \"granted\"")).unwrap_err();
    assert_eq!((errors.len(), errors[0].setting.as_str()), (1, "service.region.tls.client_cert"), "{errors:#?}");
    let said = errors[0].to_string();
    assert!(said.contains("identity_headers = []") && said.contains("region us-east-1"), "{said}");
    for (identity, warns) in [
        ("", true),
        ("identity_headers = [\"x-caller\"]", true),
        ("identity_headers = []", false),
        ("identity = \"sidecar\"\ncredentials = { file = \"/t\" }", false),
    ] {
        let warnings = from_toml_with_origins(&with_certificate(identity)).unwrap().1.warnings;
        let found = warnings.iter().any(|it| it.text.contains("by the grants of the certificate"));
        assert_eq!(found, warns, "{identity}: {warnings:?}");
    }
}

#[test]
fn complete_configuration_has_no_warnings() {
    assert_eq!(warnings_of(&format!("{REGIONS}{}", route("/v1/contexts/{key}", ""))), vec![]);
}

#[test]
fn one_to_sixteen_regions_are_accepted() {
    let errors = from_toml("").unwrap_err();
    assert_eq!(errors[0].wrong, "no region to ask");
    assert_eq!(errors[0].place, Place::File("nearside.toml".into()));
    assert!(from_toml(&regions(crate::protocol::limits::REGIONS)).is_ok());
    let errors = from_toml(&regions(crate::protocol::limits::REGIONS + 1)).unwrap_err();
    assert_eq!((errors.len(), errors[0].wrong.as_str()), (1, "17 regions"));
}

fn regions(count: usize) -> String {
    (0..count).map(|at| format!("[[service.region]]\nname = \"r{at}\"\nurl = \"https://r{at}.example\"\n")).collect()
}

#[test]
fn region_names_are_unique_in_variables() {
    for name in ["eu-west-1", "eu.west.1", "EU-WEST-1", "eu--west-1"] {
        let text = format!("[[service.region]]\nname = \"{name}\"\nurl = \"https://x.example\"\n");
        assert_eq!(setting(&text), "service.region.name", "{name}");
    }
}

#[test]
fn region_urls_and_topics_are_unique() {
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
fn region_named_unlike_topic_warns() {
    let found = warned(&region("us-west-2", "https://x.example", "eu-central-1"));
    assert!(found.contains("region us-west-2 has its topic in eu-central-1"), "{found}");
    assert!(found.contains("nearside.toml:"), "where it is written: {found}");
    for (name, of) in [("us-west-2", "us-west-2"), ("x", "eu-central-1"), ("shop-west-1", "eu-central-1")] {
        let text = format!("{REGIONS}{}{}", region(name, "https://x.example", of), route("/v1/contexts/{key}", ""));
        assert_eq!(warnings_of(&text), vec![], "{name}");
    }
}

#[test]
fn remote_plain_http_warns() {
    assert!(warned(&region("x", "http://x.example", "us-west-2")).contains("plain http"));
    for url in ["http://127.0.0.1:9000", "http://[::1]:9000", "http://localhost:9000", "https://x.example"] {
        let text = format!("{REGIONS}{}{}", region("x", url, "us-west-2"), route("/v1/contexts/{key}", ""));
        assert_eq!(warnings_of(&text), vec![], "{url}");
    }
}

/// A region whose topic is in the AWS region `of`.
fn region(name: &str, url: &str, of: &str) -> String {
    let topic = format!("arn:aws:sns:{of}:123456789012:changes");
    format!("[[service.region]]\nname = \"{name}\"\nurl = \"{url}\"\ntopic = \"{topic}\"\n")
}

#[test]
fn missing_topics_limit_to_soft_ttl() {
    let bare = "[[service.region]]\nname = \"a\"\nurl = \"https://a.example\"\n";
    let found = warnings_of(&format!("{bare}{}", route("/v1/contexts/{key}", "")));
    assert!(found.len() == 1 && found[0].text.contains("no region has a topic"), "{found:?}");
    assert!(warned(bare).contains("region a has no topic"));
    assert!(warned("[announcements]\ntransport = \"off\"\n").contains("not listened to"));
    let off = format!("{bare}{}[announcements]\ntransport = \"off\"\n", route("/v1/contexts/{key}", ""));
    assert_eq!(warnings_of(&off), vec![], "it was asked for");
}

#[test]
fn zero_routes_allowed_with_notice() {
    let found = warnings_of(REGIONS);
    assert!(found.len() == 1 && found[0].text.starts_with("no route"), "{found:?}");
}

#[test]
fn unreachable_route_refused_overlap_warned() {
    assert_eq!(refused(&two_routes("/v1/{key}", "/v1/{key}")).setting, "service.route.path");
    assert_eq!(refused(&two_routes("/{a}/{key}", "/v1/{key}")).setting, "service.route.path");
    allowed(&two_routes("/v1/{key}", "/{a}/{key}"));
    let found = warned(&two_routes("/v2/a/{key}", "/v2/{key}/b"));
    assert!(found.contains("share paths"), "{found}");
    let errors = from_toml(&format!("{REGIONS}{}", two_routes("/v1/{x}", "/v1/{x}"))).unwrap_err();
    assert_eq!(errors.len(), 3, "names that the path has not, and the second unreachable: {errors:#?}");
}

fn two_routes(first: &str, second: &str) -> String {
    route(first, "") + &route(second, "")
}

#[test]
fn number_of_routes_is_bounded() {
    allowed(&routes(limits::ROUTES));
    assert_eq!(refused(&routes(limits::ROUTES + 1)).wrong, "257 routes");
}

fn routes(count: usize) -> String {
    (0..count).map(|at| route(&format!("/{at}/{{key}}"), "")).collect()
}

#[test]
fn sidecar_takes_credentials_exact_takes_headers() {
    allowed(&contexts("identity = \"sidecar\"\ncredentials = { file = \"/t\" }"));
    assert_eq!(setting(&contexts("identity = \"sidecar\"")), "service.route.credentials.file");
    assert_eq!(
        setting(&contexts("identity = \"sidecar\"\ncredentials = { prefix = \"x\" }")),
        "service.route.credentials.file"
    );
    assert_eq!(setting(&contexts("credentials = { file = \"/t\" }")), "service.route.credentials.file");
    let both = "identity = \"sidecar\"\ncredentials = { file = \"/t\" }\nidentity_headers = [\"x-user\"]";
    assert_eq!(setting(&contexts(both)), "service.route.identity_headers");
    let unknown = "identity = \"sidecar\"\ncredentials = { file = \"/t\", fiel = \"/u\" }";
    assert_eq!(refused(&contexts(unknown)).suggestion, "did you mean file?");
}

fn by_claims(claims: &str) -> String {
    contexts(&format!("identity = \"verified\"\n{claims}\n"))
}

#[test]
fn verified_needs_claims_and_issuers() {
    let keys = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(keys.path(), "{\"keys\": []}").unwrap();
    let issuer = format!("[[access.issuer]]\niss = \"https://i.example\"\nkeys = \"{}\"\n", keys.path().display());
    let access = format!("[access]\naudience = \"a\"\n{issuer}");
    allowed(&(by_claims("claims = [\"tenant\", \"scope\"]") + &access));
    allowed(&(by_claims("claims = [\"all\"]") + &access));
    allowed(&(contexts("identity = \"granted\"\n") + &access));
    for (claims, more) in [
        ("", &*access),
        ("claims = []", &access),
        ("claims = [\"all\", \"tenant\"]", &access),
        ("claims = [\"exp\"]", &access),
        ("claims = [\"tenant\", \"tenant\"]", &access),
    ] {
        assert_eq!(setting(&(by_claims(claims) + more)), "service.route.claims", "{claims}");
    }
    let named = by_claims("claims = [\"tenant\"]");
    assert_eq!(setting(&named), "service.route.identity", "no issuer");
    assert_eq!(setting(&(named.clone() + &issuer)), "access.audience");
    assert_eq!(setting(&(named.clone() + &access + &issuer)), "access.issuer.iss", "twice");
    let own = access.replace("[access]\n", "[access]\nother_audiences = [\"b\", \"a\"]\n");
    assert_eq!(setting(&(named.clone() + &own)), "access.other_audiences");
    assert_eq!(setting(&(contexts("claims = [\"tenant\"]\n") + &access)), "service.route.claims");
    let headers = by_claims("claims = [\"tenant\"]\nidentity_headers = [\"x-user\"]");
    assert_eq!(setting(&(headers + &access)), "service.route.identity_headers");
}

fn minted(settings: &str) -> String {
    contexts(&format!("identity = \"sidecar\"\ncredentials = {{ {settings} }}"))
}

const STS: &str = "kind = \"sts\", audience = \"a\", sts_regions = [\"eu-west-1\"]";
const JWT: &str = "kind = \"jwt\", audience = \"a\", key_file = \"/k\", kid = \"k\", iss = \"i\", sub = \"s\"";
const OAUTH: &str = "kind = \"oauth\", token_url = \"https://i.example/t\", client_id = \"c\", secret_file = \"/s\"";

const SIGV4: &str = "kind = \"sigv4\", service = \"execute-api\", aws_regions = [\"eu-west-1\"]";

#[test]
fn each_kind_takes_its_own_settings() {
    for (settings, others, needed) in [
        (STS, &["file = \"/f\"", "kid = \"k\"", "scope = \"s\""][..], &["audience", "sts_regions"][..]),
        (JWT, &["prefix = \"p\"", "sts_regions = [\"x\"]"], &["audience", "key_file", "kid", "iss", "sub"]),
        (OAUTH, &["lifetime = \"5m\"", "iss = \"i\""], &["token_url", "client_id", "secret_file"]),
        (SIGV4, &["audience = \"a\"", "sts_regions = [\"x\"]", "ca_file = \"/c\""], &["service"]),
        ("file = \"/f\"", &["audience = \"a\"", "client_id = \"c\""], &["file"]),
    ] {
        allowed(&minted(settings));
        for other in others {
            let key = other.split(' ').next().unwrap();
            let found = setting(&minted(&format!("{settings}, {other}")));
            assert_eq!(found, format!("service.route.credentials.{key}"), "{settings}");
        }
        for key in needed {
            let rest = settings.split(", ").filter(|part| !part.starts_with(&format!("{key} ")));
            let rest = rest.collect::<Vec<_>>().join(", ");
            assert_eq!(setting(&minted(&rest)), format!("service.route.credentials.{key}"), "{settings}");
        }
    }
}

#[test]
fn client_secrets_travel_over_tls() {
    let [local, other] =
        ["http://127.0.0.1:9/t", "http://i.example/t"].map(|url| minted(&OAUTH.replace("https://i.example/t", url)));
    allowed(&local);
    assert_eq!(setting(&other), "service.route.credentials.token_url");
}

fn signed_in(regions: &str) -> String {
    minted(&SIGV4.replace("[\"eu-west-1\"]", regions))
}

#[test]
fn signatures_are_for_regions_of_aws() {
    for regions in ["[\"europe\"]", "[\"eu-west-1\", \"us-east-1\", \"us-west-2\"]"] {
        assert_eq!(setting(&signed_in(regions)), "service.route.credentials.aws_regions", "{regions}");
    }
    ["[]", "[\"us-gov-east-1\"]"].iter().for_each(|regions| allowed(&signed_in(regions)));
    let named = minted("kind = \"sigv4\", service = \"execute-api\"").replace("eu-west-1", "europe");
    let errors =
        from_toml(&format!("{}{named}", REGIONS.replace("name = \"eu-west-1\"", "name = \"europe\""))).unwrap_err();
    assert!(errors.iter().any(|error| error.wrong == "`europe` is no region of AWS"), "{errors:#?}");
    let header = minted(&format!("{SIGV4}, header = \"x-own\""));
    assert_eq!(setting(&header), "service.route.credentials.header");
}

fn contexts(more: &str) -> String {
    route("/v1/contexts/{key}", more)
}

#[test]
fn redundant_or_unique_headers_not_forwardable() {
    allowed(&contexts("forward = [\"x-tenant\", \"accept-language\"]"));
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
        assert_eq!(setting(&contexts(&format!("forward = [\"{name}\"]"))), "service.route.forward", "{name}");
    }
    let own = "identity = \"sidecar\"\ncredentials = { file = \"/t\" }\nforward = [\"authorization\"]";
    assert_eq!(setting(&contexts(own)), "service.route.forward");
    for name in ["traceparent", "x-record-floor", "x-rewrite-url"] {
        let named = contexts(&format!("identity_headers = [\"{name}\"]"));
        assert_eq!(setting(&named), "service.route.identity_headers", "{name}");
    }
}

#[test]
fn forwarded_user_agent_warns() {
    let found = warnings_of(&format!("{REGIONS}{}", route("/v1/contexts/{key}", "forward = [\"user-agent\"]")));
    assert!(found.len() == 1 && found[0].text.contains("every client software"), "{found:?}");
}

#[test]
fn exact_route_without_caller_headers_warns() {
    let found = warnings_of(&format!("{REGIONS}{}", route("/v1/contexts/{key}", "identity_headers = []")));
    assert!(found.len() == 1 && found[0].text.contains("shared by all callers"), "{found:?}");
}

#[test]
fn exposed_address_needs_permission() {
    for address in ["0.0.0.0:8700", "10.0.0.1:8700", "[::]:8700"] {
        assert_eq!(setting(&format!("[listen]\ntcp = \"{address}\"\n")), "listen.tcp");
        let found = warned(&format!("[listen]\ntcp = \"{address}\"\nallow_non_loopback = true\n"));
        assert!(found.contains("no token guards it"), "{found}");
        assert_eq!(setting(&format!("[admin]\nlisten = \"{address}\"\n")), "admin.listen");
        let admin = address.replace("8700", "8701");
        allowed(&format!("[admin]\nlisten = \"{admin}\"\nallow_non_loopback = true\n"));
    }
    allowed("[listen]\ntcp = \"[::1]:8700\"\n");
}

#[test]
fn listener_needs_port_or_valid_socket() {
    assert_eq!(setting("[listen]\ntcp = false\n"), "listen.tcp");
    allowed("[listen]\ntcp = false\nunix = \"/tmp/nearside.sock\"\n");
    allowed(&socket_of(limits::SOCKET_PATH_BYTES));
    assert_eq!(setting(&socket_of(limits::SOCKET_PATH_BYTES + 1)), "listen.unix");
    assert!(warned("[listen]\nunix_mode = \"0660\"\n").contains("no effect without listen.unix"));
}

/// A socket whose path has this many bytes.
fn socket_of(bytes: usize) -> String {
    format!("[listen]\nunix = \"/{}\"\n", "x".repeat(bytes - 1))
}

#[test]
fn two_listeners_cannot_share_a_port() {
    assert_eq!(setting("[admin]\nlisten = \"127.0.0.1:8700\"\n"), "admin.listen");
    allowed("[admin]\nlisten = \"127.0.0.2:8700\"\n");
    allowed("[listen]\ntcp = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n");
    allowed(&http_transport(9000));
    assert_eq!(setting(&http_transport(8701)), "announcements.http_listen");
}

fn http_transport(port: u16) -> String {
    format!(
        "[announcements]\ntransport = \"http\"\nhttp_listen = \"0.0.0.0:{port}\"\n\
         http_public_url = \"https://p.example\"\n"
    )
}

#[test]
fn http_transport_needs_address_and_url() {
    let errors = from_toml(&format!("{REGIONS}[announcements]\ntransport = \"http\"\n")).unwrap_err();
    let found: Vec<_> = errors.iter().map(|error| error.setting.as_str()).collect();
    assert_eq!(found, ["announcements.http_listen", "announcements.http_public_url"]);
    assert!(warned("[announcements]\nhttp_listen = \"0.0.0.0:9000\"\n").contains("no effect without transport"));
}

#[test]
fn insecure_signer_needs_overridden_endpoint() {
    assert_eq!(setting(&insecure_signer("")), "announcements.insecure_sns_signer");
    let endpoint = "endpoint_url = \"http://127.0.0.1:4566\"\n";
    assert!(warned(&format!("{}{endpoint}", insecure_signer(""))).contains("INSECURE"));
    assert_eq!(setting(&format!("{}{endpoint}", insecure_signer("/path"))), "announcements.insecure_sns_signer");
    let unsigned = warned(&format!("[announcements]\n{endpoint}"));
    assert!(unsigned.contains("write announcements.insecure_sns_signer = \"http://127.0.0.1:4566\""), "{unsigned}");
}

fn insecure_signer(path: &str) -> String {
    format!("[announcements]\ninsecure_sns_signer = \"http://127.0.0.1:4566{path}\"\n")
}

#[test]
fn primary_must_name_region() {
    let error = refused("[race]\nprimary = \"us-east-2\"\n");
    assert_eq!((error.setting.as_str(), error.suggestion.as_str()), ("race.primary", "did you mean \"us-east-1\"?"));
    let config = from_toml(&format!("{REGIONS}[race]\nprimary = \"us-east-1\"\n")).unwrap();
    assert_eq!(config.race.primary, 1);
}

#[test]
fn contradictory_durations_are_refused() {
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
fn batch_path_omits_one_key_segment() {
    allowed(&views("batch = \"/v1/batch/{view}\"\n"));
    allowed(&views("batch = \"/v1/batch/{view}\"\nupstream_batch = \"/v2/{view}/many\"\n"));
    for wrong in ["/v1/batch", "/v1/batch/{view}/{key}", "/v1/batch/{other}", "/v1/batch/{view}/{other}"] {
        let error = refused(&views(&format!("batch = \"{wrong}\"\n")));
        assert_eq!(error.setting, "service.route.batch", "{wrong}");
        assert!(error.suggestion.contains("\"/v1/batch/{view}\" for {key}"), "{}", error.suggestion);
    }
    assert_eq!(setting(&views("upstream_batch = \"/v1/many/{view}\"\n")), "service.route.upstream_batch");
    let other = refused(&views("batch = \"/v1/batch/{view}\"\nupstream_batch = \"/v1/batch/{key}\"\n"));
    assert_eq!(
        (other.setting.as_str(), other.suggestion.as_str()),
        ("service.route.upstream_batch", "leave out {key} and name {view}")
    );
    let keyless = "[[service.route]]\npath = \"/v1/all\"\nrecords = [\"list:all\"]\nbatch = \"/v1/batch\"\n";
    assert_eq!(setting(keyless), "service.route.batch");
}

fn views(more: &str) -> String {
    route("/v1/contexts/{key}/{view}", more)
}

#[test]
fn batch_path_must_not_shadow_routes() {
    let one = route("/v1/contexts/{key}/{view}", "batch = \"/v1/contexts/many/{view}\"\n");
    let error = refused(&one);
    assert_eq!(error.setting, "service.route.batch");
    assert!(error.wrong.contains("would take what the route `/v1/contexts/{key}/{view}` serves"), "{}", error.wrong);
    allowed(&two_batches("/v1/batches"));
    assert!(refused(&two_batches("/v1/batch")).wrong.contains("of another route share paths"));
}

/// A route whose batch path is `/v1/batch`, and one with this batch path.
fn two_batches(batch: &str) -> String {
    contexts("batch = \"/v1/batch\"\n") + &route("/v1/tenants/{key}", &format!("batch = \"{batch}\"\n"))
}

#[test]
fn candidate_must_match_segments_and_differ() {
    allowed(&with_candidate("path = \"/v2/{key}\", mode = \"check\", check_share = 0.5"));
    allowed(&with_candidate("url = \"https://candidate.{region}.example.com\", versions = \"own\", new_share = 1"));
    assert_eq!(setting(&with_candidate("path = \"/v2/{other}\"")), "service.route.candidate.path");
    assert_eq!(setting(&with_candidate("mode = \"new\"")), "service.route.candidate.mode");
    assert_eq!(setting(&with_candidate("path = \"/v2/{key}\", form = \"protobuf\"")), "service.route.candidate.form");
    assert_eq!(
        setting(&with_candidate("path = \"/v2/{key}\", new_share = 1.5")),
        "service.route.candidate.new_share"
    );
    assert_eq!(setting(&with_candidate("url = \"https://a.{regio}.example.com\"")), "service.route.candidate.url");
    assert_eq!(setting(&with_candidate("path = \"/v1/contexts/{key}\"")), "service.route.candidate.path");
    assert_eq!(setting(&with_candidate("")), "service.route.candidate");
    assert_eq!(setting(&route("/v1/contexts/{key}", "candidate = \"/v2/{key}\"")), "service.route.candidate");
    assert_eq!(
        setting(&with_candidate("path = \"/v2/{key}\", check_share = 0.0000001")),
        "service.route.candidate.check_share"
    );
    assert_eq!(setting(&with_candidate("url = \"https://eu.example.com\"")), "service.route.candidate.url");
    for own in ["127.0.0.1", "localhost"] {
        let wrong = refused(&with_candidate(&format!("url = \"http://{own}:8700\""))).wrong;
        assert!(wrong.contains("it would ask itself"), "{wrong}");
    }
    allowed(&with_candidate("url = \"http://127.0.0.1:8701\""));
    let own = "path = \"/v2/{key}\", credentials_file = \"/t\"";
    assert_eq!(setting(&with_candidate(own)), "service.route.candidate.credentials_file", "a caller's own entry");
    allowed(
        &with_candidate(own)
            .replace("candidate", "identity = \"sidecar\"\ncredentials = { file = \"/t\" }\ncandidate"),
    );
}

fn with_candidate(candidate: &str) -> String {
    contexts(&format!("candidate = {{ {candidate} }}"))
}

#[test]
fn useless_candidate_warns() {
    let none = warned_of_candidate("path = \"/v2/{key}\", mode = \"check\", check_share = 0");
    assert!(none.len() == 1 && none[0].contains("nothing is compared"), "{none:?}");
    let none = warned_of_candidate("path = \"/v2/{key}\", mode = \"new\", new_share = 0");
    assert!(none.len() == 1 && none[0].contains("the current upstream answers for every record"), "{none:?}");
    let same = warned_of_candidate("path = \"/v2/{key}\", url = \"https://us.example.com/\"");
    assert!(same.len() == 1 && same[0].contains("the URL of region `us-east-1` itself"), "{same:?}");
    assert_eq!(
        warned_of_candidate("path = \"/v2/{key}\", mode = \"old\", check_share = 0, new_share = 0"),
        Vec::<String>::new()
    );
}

fn warned_of_candidate(candidate: &str) -> Vec<String> {
    let text = format!("{REGIONS}{}", with_candidate(candidate));
    warnings_of(&text).iter().map(ToString::to_string).collect()
}
