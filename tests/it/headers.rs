//! Headers of callers: what clients, meshes and tracers really send hits, or is passed on with a line
//! that makes it hit, and no answer is ever another's.

use std::collections::BTreeMap;

use super::wire::{Message, Say, Wire, reply};

/// `clients.txt`, by who sends the lines.
fn clients() -> Vec<(&'static str, Vec<&'static str>)> {
    let sections = include_str!("headers/clients.txt").split("\n## ").skip(1);
    sections
        .map(|text| {
            let (who, lines) = text.split_once('\n').unwrap();
            (who, lines.lines().filter(|line| !line.is_empty()).collect())
        })
        .collect()
}

fn route(more: &str) -> String {
    format!("[[service.route]]\npath = \"/r/{{key}}\"\nrecords = [\"thing:{{key}}\"]\n{more}\n")
}

/// The names among these lines that sidecars know to matter, by what a sidecar says of them itself.
async fn passed_for(wire: &Wire) -> Vec<String> {
    let passed =
        wire.app.sidecar.fill.shared.observed.seen().routes.get("/r/{key}").map(|notes| notes.passed.names.clone());
    passed.unwrap_or_default().into_keys().collect()
}

/// Answer to the second request with these lines; the first may have been the fill.
async fn outcome(wire: &Wire, key: &str, lines: &[&str]) -> Message {
    let target = format!("/r/{key}");
    wire.get(&target, lines).await;
    wire.idle().await;
    wire.get(&target, lines).await
}

/// The table of `docs/headers.md`, from what happens.
async fn table() -> String {
    let mut table = "| who | by default | a line that makes it hit |\n| --- | --- | --- |\n".to_owned();
    for (at, (who, lines)) in clients().into_iter().enumerate() {
        let wire = Wire::with(1, &route(""), |_| reply(200, "X-Record-Version: 1", "x")).await;
        let got = outcome(&wire, &at.to_string(), &lines).await;
        assert_eq!(got.status(), 200, "{who}");
        let names = passed_for(&wire).await;
        assert_eq!(got.is_hit(), names.is_empty(), "{who}: {}", got.label());
        wire.end().await;
        let (by_default, line) =
            if names.is_empty() { ("hits", String::new()) } else { ("passed on", format!("`ignore = {names:?}`")) };
        if !names.is_empty() {
            let ignores = route(&format!("ignore = {names:?}"));
            let wire = Wire::with(1, &ignores, |_| reply(200, "X-Record-Version: 1", "x")).await;
            let got = outcome(&wire, "a", &lines).await;
            assert!(got.is_hit(), "{who} with {names:?}: {}", got.label());
            wire.end().await;
        }
        table += &format!("| {who} | {by_default} | {line} |\n");
    }
    table
}

#[tokio::test]
async fn client_corpus_behaves_as_documented() {
    let page = include_str!("../../docs/headers.md");
    let written = page.split("<!-- clients -->\n").nth(1).expect("a table between two marks");
    let table = table().await;
    assert_eq!(written, table, "docs/headers.md, between its marks, should read:\n{table}");
}

/// Headers by which services answer, and some of their values.
const ANSWERED_BY: [(&str, [&str; 3]); 9] = [
    ("X-Tenant", ["acme", "zeta", ""]),
    ("Accept-Language", ["de", "fr", "*, de"]),
    ("X-Api-Key", ["one", "two", "three"]),
    ("X-Feature", ["on", "off", "beta"]),
    ("X-Forwarded-For", ["10.0.0.1", "10.0.0.2", "192.0.2.1"]),
    ("X-Forwarded-Host", ["a.example", "b.example", "c.example"]),
    ("Origin", ["https://a.example", "https://b.example", "null"]),
    ("X-Forwarded-Client-Cert", ["By=a", "By=b", "By=c"]),
    ("Prefer", ["return=minimal", "return=representation", "wait=1"]),
];

/// A service that answers by all of these, and by the caller's token, without saying so.
fn personal(request: &Message) -> Say {
    let lines = ANSWERED_BY.map(|(name, _)| name).into_iter().chain(["Authorization"]);
    let seen: Vec<_> = lines.map(|name| request.all(&name.to_lowercase()).join(",")).collect();
    reply(200, "X-Record-Version: 1", &seen.join("|"))
}

#[tokio::test]
async fn no_caller_gets_anothers_answer() {
    let wire = Wire::with(2, &route(""), personal).await;
    wire.live();
    let (mut wrong, mut hits) = (0, 0);
    for round in 0..600_usize {
        let mut lines = vec!["traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()];
        let mut expected = BTreeMap::new();
        for (at, (name, values)) in ANSWERED_BY.iter().enumerate() {
            // One in three requests has none of them.
            if round % 3 != 0 && (round / 3 + at * 7) % 4 == 0 {
                let value = values[(round + at) % 3];
                lines.push(format!("{name}: {value}"));
                expected.insert(*name, value);
            }
        }
        if round % 2 == 0 {
            lines.push("Authorization: me".to_owned());
            expected.insert("Authorization", "me");
        }
        let names = ANSWERED_BY.map(|(name, _)| name).into_iter().chain(["Authorization"]);
        let body: Vec<_> = names.map(|name| expected.get(name).copied().unwrap_or_default()).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let got = wire.get(&format!("/r/{}", round % 4), &lines).await;
        wrong += usize::from(got.text() != body.join("|"));
        hits += usize::from(got.is_hit());
    }
    assert_eq!(wrong, 0);
    assert!(hits > 150, "{hits}: those who send none of them lose nothing");
    wire.end().await;
}

#[tokio::test]
async fn batch_is_answered_by_own_headers() {
    let wire = Wire::with(1, &route("batch = \"/many\""), |request| {
        reply(200, "Content-Type: application/json", &format!("{:?}", request.all("x-tenant")))
    })
    .await;
    for _ in 0..2 {
        for (line, part) in [
            ("Via: 1.1 a", "[]"),
            // About the POST, and no key's.
            ("X-HTTP-Method-Override: PUT", "[]"),
            ("X-Original-URL: /many", "[]"),
            ("X-Tenant: acme", "[\"acme\"]"),
            ("X-Tenant: zeta", "[\"zeta\"]"),
        ] {
            let lines = ["Content-Type: application/json", line];
            let got = wire.ask("POST", "/many", &lines, br#"{"keys":["a","b"]}"#).await;
            assert_eq!(got.text().matches(&format!(":{part}")).count(), 2, "{line}: {}", got.text());
            wire.idle().await;
        }
    }
    let passed = wire.seen().iter().filter(|request| request.has("x-tenant")).count();
    assert_eq!(passed, 8, "each part of four batches was asked for once");
    assert_eq!(wire.seen().len(), 8 + 2, "and the others hit");
    wire.end().await;
}

#[tokio::test]
async fn whole_passes_carry_sidecar_credentials() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "own").unwrap();
    let file_name = file.path().display();
    let settings = route(&format!("identity = \"sidecar\"\ncredentials = {{ file = \"{file_name}\" }}"));
    let wire = Wire::with(1, &settings, |_| reply(200, "Set-Cookie: session=1", "x")).await;
    let own = ["Authorization: theirs", "Cookie: a=b"];
    wire.get("/r/a", &own).await;
    wire.idle().await;
    assert!(wire.get("/r/a", &own).await.is_hit(), "their own credentials are no reason to pass it on");
    let got = wire.get("/r/a", &[&own[..], &["X-Tenant: acme", "X-Record-Floor: 9"]].concat()).await;
    assert!(!got.is_hit() && !got.has("set-cookie"), "{}", got.label());
    let seen = wire.last_seen();
    assert_eq!((seen.all("authorization"), seen.all("x-tenant")), (vec!["own"], vec!["acme"]));
    assert!(!seen.has("cookie") && !seen.has("x-record-floor"));
    wire.end().await;
}

#[tokio::test]
async fn passed_headers_are_visible_to_operators() {
    let wire = Wire::with(1, &route(""), |_| reply(200, "", "x")).await;
    for _ in 0..30 {
        wire.get("/r/a", &["X-Tenant: secret-value", "X-Original-URL: /secret-value"]).await;
    }
    let status = wire.page("/status").await;
    let (status, ready) = (status.text().to_owned(), wire.page("/readyz").await.text().to_owned());
    assert!(status.contains("header-passed") && status.contains("forward = [\\\"x-tenant\\\"]"), "{status}");
    assert!(status.contains("ignore = [\\\"x-original-url\\\", \\\"x-tenant\\\"]"), "no key takes both: {status}");
    assert!(ready.contains("100 % of a route's requests are passed on for their headers"), "{ready}");
    assert!(!status.contains("secret-value") && !ready.contains("secret-value"));
    wire.end().await;
}

#[tokio::test]
async fn changed_headers_on_connection_are_rejudged() {
    use super::wire::{exchange, request};
    let other = "[[service.route]]\npath = \"/s/{key}\"\nrecords = [\"other:{key}\"]\nforward = [\"x-tenant\"]";
    let wire = Wire::with(1, &(route("") + other), personal).await;
    let mut stream = wire.connect().await;
    for round in 0..30 {
        // Before and after requests of a route that forwards it.
        for path in ["/s/a", "/r/a", "/r/a", "/s/a"] {
            let line = format!("X-Tenant: t{}", round % 3);
            let lines = if round % 2 == 0 { vec![] } else { vec![line.as_str()] };
            let got = exchange(&mut stream, &request("GET", path, &lines, b""), false).await.unwrap();
            let expected = if round % 2 == 0 { String::new() } else { format!("t{}", round % 3) };
            assert_eq!(got.text().split('|').next(), Some(expected.as_str()), "{round}: {}", got.label());
            assert!(!got.is_hit() || path == "/s/a" || round % 2 == 0, "{path}, {round}: {}", got.label());
            wire.idle().await;
        }
    }
    wire.end().await;
}

#[tokio::test]
async fn odd_header_forms_pass_too() {
    let wire = Wire::with(1, &route("identity_headers = [\"x-user\"]"), personal).await;
    wire.get("/r/a", &[]).await;
    wire.idle().await;
    assert!(wire.get("/r/a", &[]).await.is_hit());
    assert!(wire.get("/r/a", &["X-Tenant: a", "Connection: x-tenant"]).await.is_hit(), "it is for this hop alone");
    for (lines, seen) in [
        (&["x-tenant: a"][..], "a"),
        (&["X-TENANT: a"], "a"),
        (&["X-Tenant:a  "], "a"),
        (&["X-Tenant:"], ""),
        (&["X-Tenant: a", "X-Tenant: b"], "a,b"),
        (&["X-Tenant: a", "Via: 1.1 x", "x-tenant: "], "a,"),
        (&["X_Tenant: a"], ""),
        (&["X-Tenant-Id: a"], ""),
        (&["Authorization: Bearer a"], ""),
        (&["Cookie: session=a"], ""),
        (&["Accept-Language: *", "Accept-Language: de"], ""),
    ] {
        let before = wire.seen().len();
        let got = wire.get("/r/a", lines).await;
        assert!(!got.is_hit() && got.parameter("stored").is_none(), "{lines:?}: {}", got.label());
        assert_eq!(wire.seen().len(), before + 1, "{lines:?}");
        assert_eq!(got.text().split('|').next(), Some(seen), "{lines:?}");
        let sent = wire.last_seen();
        assert_eq!(
            (sent.has("authorization"), sent.has("cookie")),
            (lines[0].starts_with("Auth"), lines[0].starts_with("Coo"))
        );
        assert!(wire.get("/r/a", &[]).await.is_hit(), "after {lines:?}");
    }
    wire.end().await;
}

#[tokio::test]
async fn every_listener_keeps_answers_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let wire = Wire::with(1, &format!("listen.unix = \"{}\"\n{}", path.display(), route("")), personal).await;
    let http2 = reqwest::Client::builder().no_proxy().tls_certs_only([]).http2_prior_knowledge().build().unwrap();
    let url = format!("http://{}/r/a", wire.app.tcp.unwrap());
    let mut unix = super::wire::connect_unix(&path).await;
    for tenant in ["", "acme", "zeta", ""] {
        for _ in 0..3 {
            let line = format!("X-Tenant: {tenant}");
            let mut lines = vec!["Host: localhost", "Accept: */*"];
            if !tenant.is_empty() {
                lines.push(&line);
            }
            let bytes = super::wire::request("GET", "/r/a", &lines, b"");
            let got = super::wire::exchange(&mut unix, &bytes, false).await.unwrap();
            assert_eq!(got.text().split('|').next(), Some(tenant), "the socket: {}", got.label());
            let mut asked = http2.get(&url);
            if !tenant.is_empty() {
                asked = asked.header("x-tenant", tenant);
            }
            let got = asked.send().await.unwrap();
            assert_eq!(got.version(), reqwest::Version::HTTP_2);
            assert_eq!(got.text().await.unwrap().split('|').next(), Some(tenant), "HTTP/2");
            wire.idle().await;
        }
    }
    let plain = wire.seen().iter().filter(|request| !request.has("x-tenant")).count();
    assert_eq!((wire.seen().len(), plain), (12 + 1, 1), "a request with none of them hits");
    wire.end().await;
}

#[tokio::test]
async fn passed_reads_reach_answering_upstream() {
    let other = Wire::one(|request| reply(200, "", &format!("other {}", request.header("x-tenant")))).await;
    let candidate = format!(
        "candidate = {{ url = \"{}/{{region}}\", versions = \"own\", mode = \"new\" }}",
        other.regions[0].url()
    );
    let wire = Wire::with(1, &route(&candidate), |_| reply(200, "", "own")).await;
    for lines in [&[][..], &["X-Tenant: acme"]] {
        let expected = if lines.is_empty() { "other " } else { "other acme" };
        assert_eq!(wire.get("/r/a", lines).await.text(), expected);
    }
    wire.end().await;
    other.end().await;
}
