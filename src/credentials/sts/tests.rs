//! Tokens of STS over AWS's query protocol, from an endpoint on loopback.

use std::time::Duration;

use url::Url;

use super::*;
use crate::credentials::scripted::{HttpIssuer, Received, response};
use crate::lab::issuer::Issuer;

/// A clock that is 90 s ahead of this machine's makes no difference.
const AHEAD: u64 = 90;

fn answer(token: &str) -> String {
    let body = format!(
        "<GetWebIdentityTokenResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetWebIdentityTokenResult>\
         <WebIdentityToken>{token}</WebIdentityToken><Expiration>2026-11-28T12:00:00Z</Expiration>\
         </GetWebIdentityTokenResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>\
         </GetWebIdentityTokenResponse>"
    );
    response(200, "text/xml", &body)
}

fn denied() -> String {
    let body = "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type>\
                <Code>AccessDenied</Code><Message>not authorized to perform: sts:GetWebIdentityToken</Message></Error>\
                <RequestId>1</RequestId></ErrorResponse>";
    response(403, "text/xml", body)
}

fn token() -> String {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() + AHEAD;
    Issuer::rsa("https://sts.example", "one").token("arn:aws:iam::1:role/jira", "regions", now)
}

/// The outcome at an endpoint that answers like this, and what it received.
async fn minted(
    regions: &[&str],
    answer: impl Fn(&Received) -> String + Send + Sync + 'static,
) -> (Result<Token, MintError>, Vec<Received>) {
    let issuer = HttpIssuer::start(answer).await;
    let minting = StsMinting {
        audience: "regions".to_owned(),
        lifetime: Duration::from_mins(15),
        regions: regions.iter().map(|region| (*region).to_owned()).collect(),
    };
    let sdk = Sdk::new(Some(Url::parse(&issuer.url).unwrap()));
    let minted = mint(&sdk, &minting).await;
    let received = issuer.received();
    issuer.stop().await;
    (minted, received)
}

/// Region that a request was signed for.
fn is_for(received: &Received, region: &str) -> bool {
    received.header("authorization").is_some_and(|value| value.contains(&format!("/{region}/sts/")))
}

#[tokio::test]
async fn sts_gives_token_for_audience() {
    let jwt = token();
    let body = answer(&jwt);
    let (minted, received) = minted(&["eu-west-1"], move |_| body.clone()).await;
    let minted = minted.ok().unwrap();
    assert_eq!((minted.text(), minted.life), (jwt.as_str(), Duration::from_mins(10)));
    assert_eq!(minted.claims.sub.as_deref(), Some("arn:aws:iam::1:role/jira"));
    let [request] = &received[..] else { panic!("{received:?}") };
    assert!(is_for(request, "eu-west-1"));
    let form: Vec<_> = url::form_urlencoded::parse(request.body.as_bytes()).into_owned().collect();
    for (name, value) in [
        ("Action", "GetWebIdentityToken"),
        ("Audience.member.1", "regions"),
        ("DurationSeconds", "900"),
        ("SigningAlgorithm", "RS256"),
    ] {
        assert!(form.contains(&(name.to_owned(), value.to_owned())), "{name}: {form:?}");
    }
}

#[tokio::test]
async fn next_region_is_asked_when_one_fails() {
    let body = answer(&token());
    let answer = move |received: &Received| {
        if is_for(received, "eu-west-1") { response(503, "text/xml", "") } else { body.clone() }
    };
    let (minted, received) = minted(&["eu-west-1", "us-east-1"], answer).await;
    assert!(minted.is_ok());
    assert_eq!(received.len(), 2, "no region is asked twice");
    assert!(is_for(&received[1], "us-east-1"));
}

#[tokio::test]
async fn denial_says_what_to_allow() {
    let (minted, _) = minted(&["eu-west-1"], |_| denied()).await;
    let error = minted.err().unwrap().to_string();
    assert!(
        error.contains("in eu-west-1: GetWebIdentityToken: denied") && error.contains("let the role call"),
        "{error}"
    );
}

#[tokio::test]
async fn answer_without_token_is_refused() {
    for token in ["", "a b"] {
        let body = answer(token);
        let (minted, _) = minted(&["eu-west-1"], move |_| body.clone()).await;
        assert!(matches!(minted, Err(MintError::StsAnswer(_))), "{token}");
    }
}
