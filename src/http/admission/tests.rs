//! Tests of admission: what the head alone decides. Bodies and malformed requests are tested on the
//! wire.

use super::*;

pub(crate) fn listen(json: impl FnOnce(&mut Listen)) -> Listen {
    let mut listen = Listen { allowed_hosts: vec!["Context.Internal".into()], ..Default::default() };
    json(&mut listen);
    listen
}

fn parts(target: &str, headers: &[(&str, &str)]) -> http::request::Parts {
    let mut request = Request::builder().uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn check(admission: &Admission, target: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
    admission.check(&parts(target, headers), Via::Tcp)
}

#[test]
fn only_loopback_and_configured_hosts_served() {
    let admission = Admission::new(&listen(|_| {}), None);
    for host in
        ["localhost", "LOCALHOST:8700", "127.0.0.1", "127.9.9.9:1", "[::1]:8700", "context.internal", "a.localhost"]
    {
        assert_eq!(check(&admission, "/", &[("host", host)]), Ok(()), "{host}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example", "[::2]", "0.0.0.0"] {
        assert_eq!(check(&admission, "/", &[("host", host)]), Err(Refusal::ForeignHost), "{host}");
    }
    assert_eq!(admission.check(&parts("/", &[("host", "anything")]), Via::Unix), Ok(()));
}

#[test]
fn missing_doubled_or_invalid_host_refused() {
    let admission = Admission::new(&listen(|_| {}), None);
    assert_eq!(check(&admission, "/", &[]), Err(Refusal::BadHost(BadHost::Missing)));
    let twice = [("host", "localhost"), ("host", "localhost")];
    assert_eq!(check(&admission, "/", &twice), Err(Refusal::BadHost(BadHost::Several)));
    for host in ["", "localhost:99999", "local host", "a@localhost", "localhost/x", "[::1"] {
        assert!(check(&admission, "/", &[("host", host)]).is_err(), "{host}");
    }
    for host in
        ["<a>.localhost", "a\\b.localhost", "\"localhost\"", "[[::1]]", "[::1]]", "[localhost]", "[]", "localhost:+1"]
    {
        assert_eq!(check(&admission, "/", &[("host", host)]), Err(Refusal::BadHost(BadHost::Malformed)), "{host}");
    }
    for target in ["http://user@localhost/", "http://localhost:x/", "http://localhost:99999/"] {
        assert_eq!(check(&admission, target, &[]), Err(Refusal::BadHost(BadHost::Malformed)), "{target}");
    }
    let differ = Err(Refusal::BadHost(BadHost::Differ));
    assert_eq!(check(&admission, "http://evil.example/", &[("host", "localhost")]), differ);
    assert_eq!(check(&admission, "http://localhost/", &[("host", "evil.example")]), differ);
    assert_eq!(check(&admission, "http://evil.example/", &[("host", "evil.example")]), Err(Refusal::ForeignHost));
    assert_eq!(
        admission.check(&parts("http://a/", &[("host", "b")]), Via::Unix),
        differ,
        "also where any host may come"
    );
}

#[test]
fn tunnels_are_refused() {
    let admission = Admission::new(&listen(|_| {}), None);
    let upgrade = [("host", "localhost"), ("connection", "upgrade"), ("upgrade", "websocket")];
    assert_eq!(check(&admission, "/", &upgrade), Err(Refusal::Tunnel));
    let both = [("host", "localhost"), ("upgrade", "h2c, websocket")];
    assert_eq!(check(&admission, "/", &both), Err(Refusal::Tunnel));
    let mut connect = parts("localhost:80", &[("host", "localhost")]);
    connect.method = Method::CONNECT;
    assert_eq!(admission.check(&connect, Via::Tcp), Err(Refusal::Tunnel));
}

#[test]
fn a_guarded_port_needs_its_token() {
    let admission = Admission::new(&listen(|_| {}), Some(b"s3cret".to_vec()));
    assert_eq!(check(&admission, "/", &[("host", "localhost")]), Err(Refusal::Token));
    assert_eq!(check(&admission, "/", &[("host", "localhost"), ("x-nearside-token", "s3creT")]), Err(Refusal::Token));
    assert_eq!(check(&admission, "/", &[("host", "localhost"), ("x-nearside-token", "s3cret")]), Ok(()));
}

#[test]
fn oversized_targets_and_heads_are_refused() {
    let admission = Admission::new(&listen(|_| {}), None);
    let long = format!("/{}", "a".repeat(limits::REQUEST_TARGET_BYTES));
    assert_eq!(check(&admission, &long, &[("host", "localhost")]), Err(Refusal::LongTarget));
    let large = "a".repeat(limits::REQUEST_HEAD_BYTES);
    assert_eq!(check(&admission, "/", &[("host", "localhost"), ("x", &large)]), Err(Refusal::LargeHead));
    assert_eq!(check(&admission, "*", &[("host", "localhost")]), Err(Refusal::BadTarget));
}

#[test]
fn h2c_upgrade_offer_is_ignored() {
    let admission = Admission::new(&listen(|_| {}), None);
    let offer = [("host", "localhost"), ("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c")];
    assert_eq!(check(&admission, "/", &offer), Ok(()));
}

#[test]
fn omitted_path_is_slash_except_http2() {
    let host = [("host", "localhost")];
    for (written, target) in [("http://localhost?x", "/?x"), ("http://localhost", "/"), ("/a?x", "/a?x")] {
        let parts = parts(written, &host);
        assert_eq!(target_of(&parts).as_deref(), Ok(target), "{written}");
        assert_eq!(Admission::new(&listen(|_| {}), None).check(&parts, Via::Tcp), Ok(()), "{written}");
    }
    let mut bare = parts("http://localhost?x", &host);
    bare.version = Version::HTTP_2;
    assert_eq!(Admission::new(&listen(|_| {}), None).check(&bare, Via::Tcp), Err(Refusal::BadTarget));
}
