//! Owns the AWS emulator of this test binary: set up, started once on a free port, gone with the
//! process.
//!
//! Invariant: nothing of it outlives the process, however that ends: `run.sh` holds the other end
//! of a pipe and kills the emulator's process group when it closes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sns::config::{Credentials, SharedCredentialsProvider};
use nearside::aws::clients::Sdk;
use nearside::config::TopicArn;
use nearside::model::time::Clock;
use url::Url;

/// Longest start of the emulator: 2 s on a quiet machine.
const START: Duration = Duration::from_secs(60);
/// Between two tries whether it answers.
const TRY_EVERY: Duration = Duration::from_millis(100);
/// Ports tried: between drawing one and binding it, another process may take it.
const PORTS: usize = 3;

/// The regions that the tests use.
pub(crate) const REGIONS: [&str; 3] = ["eu-west-1", "us-east-1", "ap-southeast-2"];

/// A running emulator.
pub(crate) struct Emulator {
    port: u16,
    /// Its stdin is the pipe; a static is never dropped, so it closes when the process ends.
    _child: Child,
}

impl Emulator {
    /// The one emulator of this process; started by the first caller.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Emulator> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    fn start() -> Self {
        let venv = set_up();
        for _ in 0..PORTS {
            let port = nearside_lab::loopback::address().unwrap().port();
            if let Some(child) = run(&venv, port) {
                return Self { port, _child: child };
            }
        }
        panic!("the emulator ended {PORTS} times while it started; see {}", log(0).parent().unwrap().display());
    }

    /// `http://localhost:PORT`, as the emulator itself spells it in SigningCertURL: for
    /// `endpoint_url` and `insecure_sns_signer`.
    pub(crate) fn url(&self) -> Url {
        Url::parse(&format!("http://localhost:{}", self.port)).unwrap()
    }

    /// The SDK against it: any credentials do.
    pub(crate) fn sdk(&self) -> Sdk {
        Sdk::given(self.config())
    }

    /// An SNS client of the test's own.
    pub(crate) fn sns(&self, region: &str) -> aws_sdk_sns::Client {
        let config = aws_sdk_sns::config::Builder::from(&self.config()).region(Region::new(region.to_owned()));
        aws_sdk_sns::Client::from_conf(config.build())
    }

    /// An SQS client of the test's own.
    pub(crate) fn sqs(&self, region: &str) -> aws_sdk_sqs::Client {
        let config = aws_sdk_sqs::config::Builder::from(&self.config()).region(Region::new(region.to_owned()));
        aws_sdk_sqs::Client::from_conf(config.build())
    }

    fn config(&self) -> SdkConfig {
        self.config_at(self.url().as_str().trim_end_matches('/'))
    }

    /// SDK configuration with its credentials at another endpoint.
    pub(crate) fn config_at(&self, endpoint: &str) -> SdkConfig {
        let credentials = Credentials::new("test", "test", None, None, "test");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .endpoint_url(endpoint)
            .build()
    }

    /// A new topic in `region`, signing with `signature` (1 is SHA-1, 2 is SHA-256).
    pub(crate) async fn topic(&self, region: &str, name: &str, signature: u8) -> TopicArn {
        let made = self.sns(region).create_topic().name(name).attributes("SignatureVersion", signature.to_string());
        let arn = made.send().await.unwrap().topic_arn.unwrap();
        let parts: Vec<&str> = arn.split(':').collect();
        let [_, partition, _, region, account, name] = parts[..] else { panic!("an odd topic ARN: {arn}") };
        TopicArn {
            partition: partition.to_owned(),
            region: region.to_owned(),
            account: account.to_owned(),
            name: name.to_owned(),
            arn: arn.clone(),
        }
    }
}

/// Runs the set-up, which does nothing when it was done before; returns the virtual environment.
pub(crate) fn set_up() -> PathBuf {
    let done =
        Command::new(scripts().join("setup.sh")).stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    assert!(done.status.success(), "tests/emulator/setup.sh failed; what it said is above");
    PathBuf::from(String::from_utf8(done.stdout).unwrap().trim())
}

/// Starts it on `port` and waits until it answers; `None` when it ended instead.
fn run(venv: &Path, port: u16) -> Option<Child> {
    let log = std::fs::File::create(log(port)).unwrap();
    let mut child = Command::new(scripts().join("run.sh"))
        .arg(venv)
        .arg(port.to_string())
        .stdin(Stdio::piped())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let clock = Clock::System;
    let started = clock.now();
    while !answers(port) {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        if clock.now() - started > START {
            drop(child.stdin.take());
            panic!("the emulator did not answer within {START:?}; see {}", self::log(port).display());
        }
        std::thread::sleep(TRY_EVERY);
    }
    Some(child)
}

fn answers(port: u16) -> bool {
    health_status(SocketAddr::from(([127, 0, 0, 1], port))).is_ok_and(|status| &status == b"200")
}

fn health_status(address: SocketAddr) -> std::io::Result<[u8; 3]> {
    let mut stream = TcpStream::connect_timeout(&address, TRY_EVERY)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /_localemu/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let (mut version, mut status) = ([0; 9], [0; 3]);
    stream.read_exact(&mut version)?;
    stream.read_exact(&mut status)?;
    Ok(status)
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emulator")
}

fn log(port: u16) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("emulator-{port}.log"))
}
