//! A page in a browser on this machine reaches the ports with a valid `Host`: it is turned away by
//! what the browser says of it (`Sec-Fetch-Site`).

use tokio::net::TcpStream;

use super::{Message, Wire, exchange, reply, request, route};

/// A 403 whose problem document names the setting.
fn is_refused(got: &Message) -> bool {
    let document: serde_json::Value = serde_json::from_slice(&got.body).unwrap_or_default();
    got.status() == 403
        && got.header("content-type") == "application/problem+json"
        && document["type"] == "urn:nearside:problem:cross-site"
        && document["detail"].as_str().is_some_and(|detail| detail.contains("listen.allow_cross_site"))
}

const FOREIGN: [&[&str]; 4] = [
    &["Sec-Fetch-Site: cross-site"],
    &["sec-fetch-site: same-site", "Sec-Fetch-Mode: no-cors"],
    &["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"],
    &["Sec-Fetch-Site: something new"],
];
const OWN: [&[&str]; 3] = [&["Sec-Fetch-Site: none"], &["Sec-Fetch-Site: Same-Origin"], &[]];

#[tokio::test]
async fn cross_site_request_touches_nothing() {
    let wire = Wire::with(1, &route(""), |_| reply(200, "", "x")).await;
    wire.get("/r/a", &[]).await;
    assert!(wire.get("/r/a", &[]).await.is_hit());
    let asked = wire.seen().len();
    for lines in FOREIGN {
        // A plain GET never gets to hyper; the others do.
        for (method, target, body) in
            [("GET", "/r/a", &b""[..]), ("GET", "/r/b", b""), ("POST", "/r/a", b"x"), ("OPTIONS", "/r/a", b"")]
        {
            let got = wire.ask(method, target, lines, body).await;
            assert!(is_refused(&got), "{method} {target} {lines:?}: {got:?}");
        }
    }
    assert_eq!(wire.seen().len(), asked, "no region heard of it");
    for lines in OWN {
        assert!(wire.get("/r/a", lines).await.is_hit(), "{lines:?}");
    }
    wire.end().await;
}

#[tokio::test]
async fn connection_is_rechecked_when_headers_change() {
    let wire = Wire::with(1, &route(""), |_| reply(200, "", "x")).await;
    wire.get("/r/a", &[]).await;
    let mut stream = wire.connect().await;
    for (lines, refused) in [(OWN[2], false), (FOREIGN[0], true), (OWN[0], false), (FOREIGN[0], true)] {
        let got = exchange(&mut stream, &request("GET", "/r/a", lines, b""), false).await.expect("an answer");
        assert_eq!((is_refused(&got), got.is_hit()), (refused, !refused), "{lines:?}");
    }
    wire.end().await;
}

#[tokio::test]
async fn cross_site_access_can_be_allowed() {
    let settings = format!("listen.allow_cross_site = true\n{}", route(""));
    let wire = Wire::with(1, &settings, |_| reply(200, "", "x")).await;
    for lines in FOREIGN {
        assert_eq!(wire.get("/r/a", lines).await.status(), 200, "{lines:?}");
        assert_eq!(admin(&wire, lines).await.status(), 200, "{lines:?}");
    }
    wire.end().await;
}

#[tokio::test]
async fn cross_site_admin_request_is_refused() {
    let wire = Wire::with(1, "", |_| reply(200, "", "x")).await;
    for lines in FOREIGN {
        assert!(is_refused(&admin(&wire, lines).await), "{lines:?}");
    }
    for lines in OWN {
        assert_eq!(admin(&wire, lines).await.status(), 200, "{lines:?}");
    }
    wire.end().await;
}

async fn admin(wire: &Wire, lines: &[&str]) -> Message {
    let mut stream = TcpStream::connect(wire.app.admin).await.unwrap();
    exchange(&mut stream, &request("GET", "/status", lines, b""), false).await.expect("an answer")
}
