//! The grant as a server on loopback sees it, and what servers answer.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::access::key_fetch::tests::acceptor_with_ca;
use crate::credentials::scripted::{HttpIssuer, Received, response};
use crate::tasks::Tasks;

const SECRET: &str = "s3cr3t: ü&";

fn minting(issuer: &HttpIssuer, folder: &tempfile::TempDir) -> OauthMinting {
    let secret_file = folder.path().join("secret");
    std::fs::write(&secret_file, format!("{SECRET}\n")).unwrap();
    OauthMinting {
        token_url: Url::parse(&format!("{}/oauth2/token", issuer.url)).unwrap(),
        client_id: "nearside:1".to_owned(),
        secret_file,
        scope: "contexts.read limits".to_owned(),
        audience: "regions".to_owned(),
        ca_file: None,
    }
}

fn token(more: &serde_json::Value) -> String {
    let mut granted = json!({"access_token": "opaque", "token_type": "bearer", "expires_in": 600});
    granted.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    response(200, "application/json", &granted.to_string())
}

/// The token, or the error's text, of a server that answers like this.
async fn minted(
    answer: impl Fn(&Received) -> String + Send + Sync + 'static,
) -> (Result<Token, String>, Vec<Received>) {
    let (issuer, folder) = (HttpIssuer::start(answer).await, tempfile::tempdir().unwrap());
    let minted = OauthClient::default().mint(&minting(&issuer, &folder)).await;
    let received = issuer.received();
    issuer.stop().await;
    let minted = minted.map_err(|error| {
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cr3t") && !text.contains("0paque"), "{text}");
        text
    });
    (minted, received)
}

#[tokio::test]
async fn grant_is_asked_by_client_secret_basic() {
    let (minted, received) = minted(|_| token(&json!({}))).await;
    let minted = minted.ok().unwrap();
    assert_eq!((minted.text(), minted.life), ("opaque", Duration::from_mins(10)));
    let [request] = &received[..] else { panic!("{received:?}") };
    assert!(request.head.starts_with("POST /oauth2/token HTTP/1.1"));
    assert_eq!(request.header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(request.body, "grant_type=client_credentials&scope=contexts.read+limits&audience=regions");
    let basic = request.header("authorization").and_then(|value| value.strip_prefix("Basic ")).unwrap();
    let basic = String::from_utf8(STANDARD.decode(basic).unwrap()).unwrap();
    assert_eq!(basic, "nearside%3A1:s3cr3t%3A+%C3%BC%26");
}

#[tokio::test]
async fn useless_answers_are_refused() {
    let body = |text: &'static str| move |_: &Received| response(200, "application/json", text);
    for (answer, why) in [
        ("0paque", "no JSON object"),
        (r#"{"access_token": "0paque", "token_type": "mac", "expires_in": 600}"#, "token_type is not Bearer"),
        (r#"{"access_token": "0paque", "expires_in": 600}"#, "no JSON object"),
        (r#"{"access_token": "0paque\r\nx: y", "token_type": "Bearer"}"#, "fits no header"),
    ] {
        let error = minted(body(answer)).await.0.err().unwrap();
        assert!(error.contains(why), "{error}");
    }
    let large = minted(|_| token(&json!({"more": "x".repeat(OAUTH_ANSWER_BYTES)}))).await.0.err().unwrap();
    assert!(large.contains("64 KiB"), "{large}");
}

#[tokio::test]
async fn refusals_name_their_code() {
    let refusal = |status: u16, body: &'static str| move |_: &Received| response(status, "application/json", body);
    let unknown = minted(refusal(401, r#"{"error": "invalid_client", "error_description": "0paque"}"#)).await;
    assert!(unknown.0.err().unwrap().contains("answered 401 (invalid_client); correct credentials.client_id"));
    let other = minted(refusal(400, r#"{"error": "invalid_scope"}"#)).await.0.err().unwrap();
    assert!(other.contains("answered 400 (invalid_scope); let the server grant"), "{other}");
    let strange = minted(refusal(500, r#"{"error": "0paque"}"#)).await.0.err().unwrap();
    assert!(strange.contains("answered 500; look at the server's own log"), "{strange}");
}

#[tokio::test]
async fn secret_follows_no_redirect() {
    let other = HttpIssuer::start(|_| token(&json!({}))).await;
    let url = other.url.clone();
    let answer = move |_: &Received| format!("HTTP/1.1 307 X\r\nlocation: {url}/\r\ncontent-length: 0\r\n\r\n");
    let error = minted(answer).await.0.err().unwrap();
    assert!(error.contains("answered 307"), "{error}");
    assert!(other.received().is_empty());
    other.stop().await;
}

#[tokio::test]
async fn unreachable_server_is_named() {
    let (issuer, folder) = (HttpIssuer::start(|_| String::new()).await, tempfile::tempdir().unwrap());
    let minting = minting(&issuer, &folder);
    issuer.stop().await;
    let error = OauthClient::default().mint(&minting).await.err().unwrap().to_string();
    assert!(error.contains("127.0.0.1:") && error.contains("cannot be reached (no connection"), "{error}");
}

#[test]
fn secret_is_one_line_of_text() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for (content, is_fit) in [(&b" one \n"[..], true), (b"", false), (b"two\nlines", false), (b"\xff", false)] {
        std::fs::write(file.path(), content).unwrap();
        assert_eq!(secret(file.path()).is_ok(), is_fit, "{content:?}");
    }
    std::fs::write(file.path(), "x".repeat(TOKEN_BYTES as usize + 1)).unwrap();
    assert!(matches!(secret(file.path()), Err(MintError::Secret(_))));
    assert!(matches!(secret(Path::new("/nowhere")), Err(MintError::SecretUnreadable(..))));
}

/// A server whose certificate is of a CA of its own: its handshakes end, and nothing is sent to others.
#[tokio::test]
async fn server_is_known_by_named_ca() {
    let (folder, tasks) = (tempfile::tempdir().unwrap(), Tasks::new());
    let (base, received) = tls_server(&folder, &tasks).await;
    let plain = HttpIssuer::start(|_| String::new()).await;
    let mut minting = OauthMinting { token_url: Url::parse(&base).unwrap(), ..minting(&plain, &folder) };
    plain.stop().await;
    let client = OauthClient::default();
    let refused = client.mint(&minting).await.err().unwrap();
    assert!(matches!(refused, MintError::Unreachable(..)) && received.lock().is_empty(), "{refused}");
    minting.ca_file = Some(folder.path().join("ca.pem"));
    assert_eq!(client.mint(&minting).await.ok().unwrap().text(), "opaque");
    assert_eq!(received.lock().len(), 1);
    std::fs::write(folder.path().join("ca.pem"), "none").unwrap();
    let unusable = client.mint(&minting).await.err().unwrap();
    assert!(matches!(unusable, MintError::CaFile(..) | MintError::Unreachable(..)), "{unusable}");
    assert!(tasks.drain(Duration::from_secs(5)).await.is_empty());
}

/// A server over TLS that grants a token, with its CA in the folder; what it received.
async fn tls_server(folder: &tempfile::TempDir, tasks: &Tasks) -> (String, Arc<Mutex<Vec<String>>>) {
    let acceptor = acceptor_with_ca(folder);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://localhost:{}/token", listener.local_addr().unwrap().port());
    let (received, stopping) = (Arc::<Mutex<Vec<_>>>::default(), tasks.stopping());
    let seen = received.clone();
    tasks.spawn("server", async move {
        let serve = async {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut head = vec![0; 4_096];
                let length = stream.read(&mut head).await.unwrap_or_default();
                seen.lock().push(String::from_utf8_lossy(&head[..length]).into_owned());
                let _gone = stream.write_all(token(&json!({})).as_bytes()).await;
                let _gone = stream.shutdown().await;
            }
        };
        stopping.run_until_cancelled(serve).await
    });
    (base, received)
}
