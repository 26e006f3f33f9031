//! Minting under stress, for each kind of token in turn: a thousand cold requests, a region that
//! refuses all, an issuer that is down for more than half a life, and for more than a life.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use nearside::tasks::Tasks;

use super::program;
use super::wire::{Message, Region, Say, Wire, reply};

const MINUTE: Duration = Duration::from_mins(1);
/// Requests in each state of the issuer.
const REQUESTS: usize = 100;

#[derive(Clone, Copy)]
enum Kind {
    Sts,
    Jwt,
    Oauth,
}

/// An issuer of tokens of 15 minutes.
struct Issuer {
    kind: Kind,
    server: Region,
    is_down: Arc<AtomicBool>,
    folder: tempfile::TempDir,
    tasks: Tasks,
}

impl Issuer {
    async fn start(kind: Kind) -> Self {
        let (tasks, is_down, folder) = (Tasks::new(), Arc::<AtomicBool>::default(), tempfile::tempdir().unwrap());
        let (down, count) = (is_down.clone(), AtomicU32::new(0));
        let answer = move |_: &Message| {
            if down.load(Ordering::Relaxed) {
                return reply(503, "", "");
            }
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            match kind {
                Kind::Sts => reply(200, "Content-Type: text/xml", &sts(number)),
                _ => reply(200, "Content-Type: application/json", &oauth(number)),
            }
        };
        let server = Region::start(&tasks, Arc::new(answer)).await;
        std::fs::write(folder.path().join("secret"), "hush").unwrap();
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        std::fs::write(folder.path().join("key.pem"), key).unwrap();
        Self { kind, server, is_down, folder, tasks }
    }

    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Sts => "sts",
            Kind::Jwt => "jwt",
            Kind::Oauth => "oauth",
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The settings of a sidecar with its tokens.
    fn settings(&self) -> String {
        let url = self.server.url();
        let credentials = match self.kind {
            Kind::Sts => "kind = \"sts\", audience = \"regions\", sts_regions = [\"eu-west-1\"]".to_owned(),
            Kind::Jwt => {
                let key = self.path("key.pem").display().to_string();
                format!(
                    "kind = \"jwt\", key_file = \"{key}\", kid = \"1\", iss = \"i\", sub = \"s\", audience = \"a\""
                )
            }
            Kind::Oauth => {
                let secret = self.path("secret").display().to_string();
                format!("kind = \"oauth\", token_url = \"{url}\", client_id = \"c\", secret_file = \"{secret}\"")
            }
        };
        format!(
            "race.deadline = \"30s\"\nrace.permits = 1024\ndrain.deadline = \"60s\"\n\
             announcements.endpoint_url = \"{url}\"\n[[service.route]]\npath = \"/r/{{key}}\"\n\
             records = [\"thing:{{key}}\"]\nidentity = \"sidecar\"\ncredentials = {{ {credentials} }}\n"
        )
    }

    fn fail(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
        if matches!(self.kind, Kind::Jwt) {
            let (from, to) = if is_down { ("key.pem", "away") } else { ("away", "key.pem") };
            std::fs::rename(self.path(from), self.path(to)).unwrap();
        }
    }

    async fn end(self) {
        assert!(self.tasks.drain(program::TIMEOUT).await.is_empty());
    }
}

fn oauth(number: u32) -> String {
    format!("{{\"access_token\": \"minted-{number}\", \"token_type\": \"Bearer\", \"expires_in\": 900}}")
}

fn sts(number: u32) -> String {
    format!(
        "<GetWebIdentityTokenResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetWebIdentityTokenResult>\
         <WebIdentityToken>minted-{number}</WebIdentityToken><Expiration>2036-11-28T12:00:00Z</Expiration>\
         </GetWebIdentityTokenResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>\
         </GetWebIdentityTokenResponse>"
    )
}

/// A record for those with a token.
fn guarded(request: &Message) -> Say {
    match request.all("authorization")[..] {
        [value] if value.starts_with("Bearer ") => reply(200, "X-Record-Version: 1", "x"),
        _ => reply(401, "", ""),
    }
}

/// A sidecar with an issuer, and counts of what failed.
struct Stress {
    issuer: Issuer,
    wire: Wire,
    keys: usize,
}

impl Stress {
    /// Number of answers other than 200 to so many requests for what is not stored.
    async fn failed_misses(&mut self, requests: usize) -> usize {
        let keys = self.keys..self.keys + requests;
        self.keys += requests;
        let answers = join_all(keys.map(|key| {
            let wire = &self.wire;
            async move { wire.get(&format!("/r/{key}"), &[]).await.status() }
        }));
        answers.await.iter().filter(|status| **status != 200).count()
    }

    /// Number of answers other than a hit to requests for what is stored.
    async fn failed_hits(&self) -> usize {
        let mut failed = 0;
        for key in 0..REQUESTS {
            failed += usize::from(!self.wire.get(&format!("/r/{key}"), &[]).await.is_hit());
        }
        failed
    }

    async fn mints(&self, outcome: &str) -> u64 {
        let metrics = self.wire.page("/metrics").await;
        let series =
            format!("nearside_credentials_mints_total{{kind=\"{}\",outcome=\"{outcome}\"}} ", self.issuer.name());
        let line = metrics.text().lines().find_map(|line| line.strip_prefix(&series)).map(str::to_owned);
        line.expect("the series is there").parse().unwrap()
    }

    /// Resolves once a mint has failed after `before` had.
    async fn another_failure(&self, before: u64) {
        while self.mints("failed").await <= before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Time until misses succeed again, and those that failed meanwhile.
    async fn recovery(&mut self) -> (Duration, usize) {
        let (mut took, mut failed) = (Duration::ZERO, 0);
        while self.failed_misses(1).await > 0 {
            failed += 1;
            let step = Duration::from_secs(5);
            self.wire.pass_live(step);
            took += step;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        (took, failed)
    }
}

async fn stressed(kind: Kind) {
    let issuer = Issuer::start(kind).await;
    let wire = Wire::with(2, &issuer.settings(), guarded).await;
    let mut stress = Stress { issuer, wire, keys: 0 };
    stress.wire.live();
    let cold = stress.failed_misses(1_000).await;
    assert_eq!((cold, stress.mints("minted").await), (0, 1), "a thousand cold requests");
    stress.wire.idle().await;

    stress.wire.regions[1].says(|_| reply(401, "", ""));
    assert_eq!(stress.failed_misses(REQUESTS).await, 0, "one region refuses all");
    assert_eq!(stress.mints("minted").await, 1);
    stress.wire.regions[1].says(guarded);

    stress.issuer.fail(true);
    stress.wire.pass_live(10 * MINUTE);
    stress.another_failure(0).await;
    assert_eq!(stress.failed_misses(REQUESTS).await, 0, "down for more than half a life");

    stress.wire.pass_live(5 * MINUTE);
    assert_eq!(stress.failed_hits().await, 0, "what is stored goes on");
    assert_eq!(stress.failed_misses(REQUESTS).await, REQUESTS, "down for more than a life");

    stress.issuer.fail(false);
    let (took, failed) = stress.recovery().await;
    let (minted, tried) = (stress.mints("minted").await, stress.mints("failed").await);
    let name = stress.issuer.name();
    println!("{name}: again after {took:?} and {failed} failures; {minted} mints, and {tried} that failed");
    assert!(took <= 2 * MINUTE, "{took:?}");
    assert_eq!(stress.failed_misses(REQUESTS).await, 0);
    stress.wire.end().await;
    stress.issuer.end().await;
}

#[tokio::test]
async fn sts_tokens_survive_stress() {
    stressed(Kind::Sts).await;
}

#[tokio::test]
async fn jwt_tokens_survive_stress() {
    stressed(Kind::Jwt).await;
}

#[tokio::test]
async fn oauth_tokens_survive_stress() {
    stressed(Kind::Oauth).await;
}
