//! Fates of headers, and what is passed on for them.

use http::{HeaderValue, Method};

use super::*;
use crate::config::IdentityMode;
use crate::http::admission::Admitted;
use crate::http::inert::NAMES;
use crate::request::answer::respond;
use crate::request::scripted::{Act, Answer, Say, World, body, ms, shows, status};
use crate::request::serve::serve;

const X: &str = "/v1/contexts/x/full";

fn lines(of: &[(&'static str, &str)]) -> HeaderMap {
    of.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())).collect()
}

async fn get(world: &World, of: &[(&'static str, &str)]) -> Answer {
    world.ask(Method::GET, X, lines(of)).await
}

fn world(say: Say) -> World {
    World::new([(5, say.clone().into()), (9, say.clone().into()), (9, say.into())])
}

/// The first route with one more setting.
fn set(world: &mut World, change: impl Fn(&mut Route)) {
    world.reload(|config| config.service.routes.iter_mut().for_each(&change));
}

#[tokio::test(start_paused = true)]
async fn foreign_headers_reach_one_region_whole() {
    let world = world(shows(5));
    get(&world, &[]).await;
    world.requests();
    let sent = [("x-tenant", "acme"), ("accept-language", "de"), ("origin", "https://a"), ("tracestate", "a=b")];
    for _ in 0..3 {
        let answer = get(&world, &sent).await;
        assert!(!answer.is_hit() && !answer.is_stored(), "{}", answer.line);
        let asked = world.requests();
        assert_eq!(asked.len(), 1, "one region");
        sent.iter().for_each(|(name, value)| assert_eq!(asked[0].2.headers[*name], *value));
    }
    assert!(get(&world, &[]).await.is_hit(), "others lose nothing");
    assert_eq!(world.asked(), []);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn inert_or_ignored_headers_still_hit() {
    let mut world = world(shows(5));
    set(&mut world, |route| route.ignore = vec![crate::config::HeaderPattern::Prefix("x-forwarded-".to_owned())]);
    get(&world, &[]).await;
    world.requests();
    let handled =
        ["range", "if-range", "if-match", "if-unmodified-since", "cache-control", "pragma", "accept-encoding"];
    for (name, ..) in NAMES.iter().filter(|(name, ..)| !handled.contains(name) && *name != "accept") {
        assert!(get(&world, &[(name, "1")]).await.is_hit(), "{name}");
    }
    for name in ["x-forwarded-for", "x-forwarded-host", "x-b3-traceid", "sec-fetch-mode", "x-datadog-origin"] {
        assert!(get(&world, &[(name, "1")]).await.is_hit(), "{name}");
    }
    assert!(get(&world, &[("accept-language", "*")]).await.is_hit());
    assert_eq!(world.asked(), []);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn forwarded_header_values_get_separate_entries() {
    let mut world = world(shows(5));
    set(&mut world, |route| route.forward = vec![HeaderName::from_static("x-tenant")]);
    for (tenant, is_hit) in [("a", false), ("b", false), ("a", true), ("b", true)] {
        assert_eq!(get(&world, &[("x-tenant", tenant)]).await.is_hit(), is_hit, "{tenant}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn foreign_only_if_cached_is_504() {
    let world = world(shows(5));
    get(&world, &[]).await;
    world.requests();
    let wish = ("cache-control", "only-if-cached");
    assert_eq!(get(&world, &[wish]).await.status, 200);
    assert_eq!(get(&world, &[wish, ("x-tenant", "a")]).await.status, 504);
    assert_eq!(world.asked(), []);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn heads_ranges_and_conditions_pass_whole() {
    let world = world(shows(5).with("etag", "\"1\""));
    get(&world, &[]).await;
    world.requests();
    let tenant = ("x-tenant", "a");
    world.ask(Method::HEAD, X, lines(&[tenant])).await;
    get(&world, &[tenant, ("range", "bytes=0-1")]).await;
    get(&world, &[tenant, ("if-match", "\"1\"")]).await;
    assert_eq!(get(&world, &[tenant, ("if-none-match", "\"1\"")]).await.status, 304);
    let asked = world.requests();
    assert_eq!(asked.len(), 4);
    assert!(asked.iter().all(|(_, _, request)| request.headers["x-tenant"] == "a"));
    assert_eq!(asked[0].2.method, Method::HEAD);
    assert_eq!(asked[1].2.headers["range"], "bytes=0-1");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn passed_read_below_floor_loses() {
    let world = world(shows(5));
    world.live().await;
    world.set(crate::request::scripted::A, 5, shows(4));
    get(&world, &[]).await;
    world.announce(crate::request::scripted::B, "x", 7);
    world.set(crate::request::scripted::B, 9, shows(7));
    let answer = get(&world, &[("x-tenant", "a")]).await;
    assert_eq!((answer.body.as_str(), answer.label()), ("7", None));
    world.set_all(5, shows(6));
    assert_eq!(get(&world, &[("x-tenant", "a")]).await.label(), Some("below-floor"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn tenant_versions_move_no_others_floor() {
    let mut floors = Vec::new();
    for method in [Method::GET, Method::HEAD, Method::PUT] {
        let world = world(shows(5));
        world.live().await;
        get(&world, &[]).await;
        world.set_all(5, shows(100));
        assert_eq!(world.ask(method.clone(), X, lines(&[("x-tenant", "acme")])).await.status, 200);
        world.set_all(5, shows(5));
        let answer = get(&world, &[]).await;
        floors.push((world.floor("x"), answer.label().map(str::to_owned), answer.is_hit()));
        world.stop().await;
    }
    assert_eq!(floors, [(5, None, true), (5, None, true), (5, None, false)]);
}

#[tokio::test(start_paused = true)]
async fn get_with_body_is_passed_on() {
    let world = world(shows(5));
    world.live().await;
    get(&world, &[]).await;
    world.set_all(5, shows(100));
    world.requests();
    let (path_and_query, headers) = (X.to_owned(), HeaderMap::new());
    let admitted = Admitted { method: Method::GET, path_len: X.len(), path_and_query, headers, body: "{}".into() };
    let answer = respond(serve(&world.sidecar, admitted).await, &world.sidecar.fill.shared.names);
    let asked = world.requests();
    assert_eq!((answer.status().as_u16(), asked.len(), &asked[0].2.body[..]), (200, 1, &b"{}"[..]), "passed on");
    assert_eq!(world.floor("x"), 5);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn passed_versions_of_record_move_floor() {
    let range = ("range", "bytes=0-1");
    for (sent, method) in [(range, Method::GET), (("authorization", "me"), Method::PUT)] {
        let world = world(shows(5));
        world.live().await;
        get(&world, &[]).await;
        world.set_all(5, shows(6));
        world.ask(method.clone(), X, lines(&[sent])).await;
        assert_eq!(world.floor("x"), 6, "{method}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn passed_read_after_write_sees_it() {
    let world = world(body("old"));
    world.live().await;
    get(&world, &[]).await;
    world.requests();
    world.set(crate::request::scripted::A, 5, body("new"));
    let written = world.send(Method::PUT, X).await;
    assert_eq!(written.status, 200);
    let (taker, ..) = world.requests()[0].clone();
    world.set_all(5, body("old"));
    world.set(taker, 9, body("new"));
    assert_eq!(get(&world, &[("x-tenant", "a")]).await.body, "new");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn vary_on_inert_header_prevents_sharing() {
    for (by, is_shared) in [
        ("Referer", false),
        ("tracestate", false),
        ("Accept-Encoding, Sec-Fetch-Mode", false),
        ("User-Agent", false),
        ("Origin, Accept-Encoding", true),
        ("X-Tenant", true),
        ("Accept-Language", true),
        ("Host", true),
        ("Content-Type", false),
    ] {
        let world = world(shows(5).with("vary", by));
        world.live().await;
        get(&world, &[]).await;
        tokio::time::sleep(ms(50)).await;
        assert_eq!(get(&world, &[]).await.is_hit(), is_shared, "{by}");
        assert!(!get(&world, &[("x-tenant", "a")]).await.is_hit(), "{by}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn passes_counted_by_reason_and_name() {
    let world = world(shows(5));
    for _ in 0..30 {
        get(&world, &[("x-tenant", "a"), ("x-feature", "b")]).await;
    }
    world.send(Method::PUT, X).await;
    get(&world, &[("range", "bytes=0-1")]).await;
    let notes = world.sidecar.fill.shared.observed.seen();
    let passed = &notes.routes["/v1/contexts/{key}/{view}"].passed;
    assert_eq!(passed.names, [("x-feature".to_owned(), 30), ("x-tenant".to_owned(), 30)].into());
    assert_eq!(world.sidecar.fill.shared.observed.passed(world.now()), Some(100));
    let page = world.sidecar.fill.shared.metrics.render(&Default::default());
    for (reason, count) in [("header", 30), ("method", 1), ("range", 1), ("size", 0)] {
        let line = format!("nearside_passed_requests_total{{reason=\"{reason}\"}} {count}\n");
        assert!(page.contains(&line), "{line}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pass_fails_over_to_next_region() {
    let world = world(shows(5));
    world.set(crate::request::scripted::A, 5, Act::from(status(503)));
    world.set(crate::request::scripted::B, 5, Act::Fail(crate::http::exchange::Failure::Connect));
    assert_eq!(get(&world, &[("x-tenant", "a")]).await.body, "5");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn vary_on_ignored_header_prevents_sharing() {
    let mut world = world(shows(5).with("vary", "X-Tenant"));
    set(&mut world, |route| route.ignore = vec![crate::config::HeaderPattern::Prefix("x-ten".to_owned())]);
    world.live().await;
    for _ in 0..3 {
        for sent in [&[][..], &[("x-tenant", "a")]] {
            let answer = get(&world, sent).await;
            assert!(!answer.is_hit() && !answer.is_stored(), "{}", answer.line);
        }
    }
    let notes = world.sidecar.fill.shared.observed.seen();
    assert!(notes.routes["/v1/contexts/{key}/{view}"].vary.contains_key("x-tenant"), "a finding says so");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn foreign_read_joins_no_running_fill() {
    let world = World::new([(50, body("all").into()), (90, body("all").into()), (90, body("all").into())]);
    let plain = world.begin(X);
    tokio::time::sleep(ms(10)).await;
    world.requests();
    world.set_all(5, body("acme"));
    assert_eq!(get(&world, &[("x-tenant", "acme")]).await.body, "acme");
    assert_eq!(world.requests().len(), 1, "asked for itself");
    assert_eq!(plain.await.unwrap().unwrap().body, "all");
    assert_eq!(get(&world, &[]).await.body, "all");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refetches_carry_nobodys_foreign_headers() {
    let world = world(shows(5));
    world.live().await;
    get(&world, &[]).await;
    get(&world, &[("x-tenant", "acme")]).await;
    world.requests();
    world.set_all(5, shows(6));
    world.announce(crate::request::scripted::A, "x", 6);
    tokio::time::sleep(ms(500)).await;
    let refetched = world.requests();
    assert!(!refetched.is_empty(), "it was read within the last minute");
    assert!(refetched.iter().all(|(_, _, request)| !request.headers.contains_key("x-tenant")));
    let answer = get(&world, &[]).await;
    assert!(answer.is_hit() && answer.body == "6", "{}", answer.line);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn newly_ignored_header_drops_varying_entries() {
    let mut world = world(shows(5).with("vary", "X-Tenant"));
    world.live().await;
    get(&world, &[]).await;
    assert!(get(&world, &[]).await.is_hit(), "a caller that sends none shares it");
    set(&mut world, |route| route.ignore = vec![crate::config::HeaderPattern::Prefix("x-ten".to_owned())]);
    assert!(!get(&world, &[("x-tenant", "a")]).await.is_hit());
    world.stop().await;
}

#[test]
fn sidecar_credentials_strip_impersonation_headers() {
    let text = "service.name = \"a\"\n[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n\
                [announcements]\ntransport = \"off\"\n[[service.route]]\npath = \"/{key}\"\nrecords = [\"a:{key}\"]\n";
    let own = "identity = \"sidecar\"\ncredentials = { file = \"/dev/null\" }\n";
    for (more, left) in [("", 4), (own, 1)] {
        let config = crate::config::read::from_toml(&format!("{text}{more}")).unwrap();
        let names = ["impersonate-user", "impersonate-extra-scope", "authorization", "x-tenant"];
        let mut headers = lines(&names.map(|name| (name, "admin")));
        withhold(&config.service.routes[0], &mut headers);
        assert_eq!(headers.len(), left, "{headers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn target_override_reaches_one_region_unchanged() {
    for name in ["x-original-url", "x-rewrite-url", "x-original-uri"] {
        let world = world(shows(5));
        get(&world, &[]).await;
        world.requests();
        let answer = get(&world, &[(name, "/v1/others/y")]).await;
        let asked = world.requests();
        assert_eq!((asked.len(), &asked[0].2.headers[name]), (1, &HeaderValue::from_static("/v1/others/y")));
        assert!(!answer.is_hit() && !answer.is_stored(), "{name}: {}", answer.line);
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn write_override_sent_once_as_write() {
    for (name, value) in [("x-http-method-override", "PUT"), ("x-method-override", "delete"), ("x-http-method", "%")]
    {
        for says in [Act::from(status(503)), Act::Fail(crate::http::exchange::Failure::Truncated), shows(5).into()] {
            let world = world(shows(5));
            world.live().await;
            get(&world, &[]).await;
            assert!(get(&world, &[]).await.is_hit());
            world.requests();
            world.set_all(5, says);
            let answer = get(&world, &[(name, value)]).await;
            let asked = world.requests();
            assert_eq!((asked.len(), &asked[0].2.headers[name]), (1, &HeaderValue::from_static(value)));
            assert!(!answer.is_hit(), "{}", answer.line);
            world.set_all(5, shows(6));
            assert_eq!(get(&world, &[]).await.body, "6", "{name}: the writer reads what it wrote");
            world.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn read_override_is_passed_as_read() {
    let world = world(shows(5));
    world.live().await;
    get(&world, &[]).await;
    world.set(crate::request::scripted::A, 5, Act::from(status(503)));
    assert_eq!(get(&world, &[("x-http-method-override", "get")]).await.body, "5", "another region answers");
    assert!(get(&world, &[]).await.is_hit(), "nothing was written");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn own_credentials_or_ignore_withhold_overrides() {
    let held = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(held.path(), "own").unwrap();
    let (header, prefix, file) = (HeaderName::from_static("x-api-key"), String::new(), held.path().to_owned());
    let own = crate::config::Credentials::in_file(header, prefix, file);
    let mut world = world(shows(5));
    set(&mut world, |route| route.identity = IdentityMode::Sidecar(own.clone()));
    for name in ["x-http-method-override", "x-original-url", "x_original_url", "impersonate_user", "x_api_key"] {
        get(&world, &[]).await;
        world.requests();
        let answer = get(&world, &[(name, "PUT")]).await;
        let asked = world.requests();
        assert!(!answer.is_hit() && asked.len() == 1 && !asked[0].2.headers.contains_key(name), "{name}");
        assert!(get(&world, &[]).await.is_hit());
    }
    let ignored =
        ["x-original-", "impersonate-"].map(|prefix| crate::config::HeaderPattern::Prefix(prefix.to_owned()));
    set(&mut world, |route| route.ignore = ignored.to_vec());
    for name in ["x-original-url", "impersonate-user"] {
        get(&world, &[]).await;
        assert!(get(&world, &[(name, "admin")]).await.is_hit(), "{name}");
        world.requests();
        get(&world, &[(name, "admin"), ("x-tenant", "acme")]).await;
        let asked = world.requests();
        assert!(asked.len() == 1 && asked[0].2.headers.contains_key("x-tenant"));
        assert!(!asked[0].2.headers.contains_key(name), "{name} beside own credentials");
    }
    set(&mut world, |route| {
        route.identity = IdentityMode::Exact(Vec::new());
        route.ignore = vec![crate::config::HeaderPattern::Prefix("x-http-".to_owned())];
    });
    get(&world, &[]).await;
    world.requests();
    let ignored = ("x-http-method-override", "PUT");
    assert!(get(&world, &[ignored]).await.is_hit());
    get(&world, &[ignored, ("x-tenant", "acme")]).await;
    let asked = world.requests();
    assert!(asked.len() == 1 && asked[0].2.headers.contains_key("x-tenant"));
    assert!(!asked[0].2.headers.contains_key(ignored.0));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unrouted_overrides_neither_stored_nor_raced() {
    let say = body("x").with("cache-control", "max-age=60");
    let acts = [(5, say.clone().into()), (9, say.clone().into()), (9, say.into())];
    let world = World::with("[cache]\nunrouted = \"cache\"\n", acts);
    assert_eq!(world.get("/about").await.status, 200);
    assert!(world.get("/about").await.is_hit());
    for (name, value) in [("x-original-url", "/admin"), ("x-http-method-override", "PUT")] {
        world.requests();
        let answer = world.get_with("/about", name, value).await;
        assert!(!answer.is_hit() && !answer.is_stored(), "{name}: {}", answer.line);
        assert_eq!(world.requests().len(), 1);
    }
    assert!(!world.get("/about").await.is_hit(), "what is there was perhaps written");
    world.stop().await;
}
