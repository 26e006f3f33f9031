//! Owns one run of the real program: its configuration file, its process, what it says on standard
//! error.
//!
//! Invariant: no process outlives its handle; every line is a JSON object, or the test that reads
//! it fails.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use nearside::config::{Config, read};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;

/// Longest wait for anything: far beyond what it takes, so that it only ends a test that has
/// failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Variable that `make test` sets to run the tests on the wire with every request read by hyper as
/// well.
const FAST: &str = "NEARSIDE__LISTEN__FAST";

/// Reads settings as the program would, [`FAST`] too.
pub(crate) fn read(text: &str) -> Config {
    let mut config =
        read::from_toml(text).unwrap_or_else(|misconfigurations| panic!("{misconfigurations:?}\n{text}"));
    config.listen.fast &= std::env::var(FAST).as_deref() != Ok("false");
    config
}

/// The product.
pub(crate) const NEARSIDE: &str = env!("CARGO_BIN_EXE_nearside");

/// The program with an environment of the test's own, and credentials that any emulator takes.
pub(crate) fn command(args: &[&str]) -> Command {
    with_credentials(Command::new(NEARSIDE), args)
}

/// The lab's program in the same way.
pub(crate) fn lab(args: &[&str]) -> Command {
    with_credentials(Command::new(lab_program()), args)
}

/// `nearside-lab bench` of the binary under test.
pub(crate) fn bench(args: &[&str]) -> Command {
    lab(&[&["bench", "--nearside", NEARSIDE], args].concat())
}

/// The lab's binary. Cargo builds no binary of a dependency for a test: an example of this package
/// is the same `main`, and is built here, so that one that is not as the sources are is never run.
pub(crate) fn lab_program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let test = std::env::current_exe().expect("a test has a path");
        let target = test.ancestors().nth(3).expect("it lies in target/debug/deps");
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "--example", "nearside-lab", "--manifest-path", manifest]);
        let built = cargo.arg("--target-dir").arg(target).status().expect("cargo starts");
        assert!(built.success(), "the example nearside-lab cannot be built");
        target.join("debug/examples/nearside-lab")
    });
    &PROGRAM
}

fn with_credentials(mut command: Command, args: &[&str]) -> Command {
    let credentials = [
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_CONFIG_FILE", "/dev/null"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
    ];
    command.env_clear().envs(credentials).args(args).stdin(Stdio::null());
    command.envs(std::env::var(FAST).map(|fast| (FAST, fast)));
    command
}

/// Fills a pipe, so that its next writer waits for a reader.
pub(crate) fn fill(writer: &std::io::PipeWriter) {
    // Through a description of its own, so that the program's end stays as it was made.
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(writer));
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).expect("a small number");
    let mut options = std::fs::OpenOptions::new();
    let own = std::os::unix::fs::OpenOptionsExt::custom_flags(options.write(true), flags).open(path);
    let own = own.expect("it is open");
    for size in [4096, 1] {
        while std::io::Write::write(&mut &own, &vec![b'x'; size]).is_ok() {}
    }
}

/// Runs the lab's program to its end.
pub(crate) fn run_lab(args: &[&str]) -> Output {
    lab(args).output().expect("the program starts")
}

/// Runs the program to its end.
pub(crate) fn run(args: &[&str]) -> Output {
    command(args).output().expect("the program starts")
}

/// Output of a program as text, which is always UTF-8.
pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// A sidecar's configuration: these regions (name, URL, topic), free ports, JSON lines, and `rest`.
pub(crate) fn settings(service: &str, regions: &[(&str, &str, &str)], rest: &str) -> String {
    let mut text = format!("service.name = \"{service}\"\n");
    for (name, url, topic) in regions {
        text += &format!("[[service.region]]\nname = \"{name}\"\nurl = \"{url}\"\ntopic = \"{topic}\"\n");
    }
    text += "[[service.route]]\npath = \"/v1/contexts/{key}\"\nrecords = [\"context:{key}\"]\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n[log]\nformat = \"json\"\n";
    if !rest.contains("[listen]") {
        text += "[listen]\ntcp = \"127.0.0.1:0\"\n";
    }
    text + rest
}

/// A running sidecar.
pub(crate) struct Program {
    child: Child,
    said: watch::Receiver<Vec<String>>,
    directory: TempDir,
    /// Address for applications.
    pub(crate) tcp: SocketAddr,
    /// Address for operators.
    pub(crate) admin: SocketAddr,
}

impl Program {
    /// `nearside run` with these settings, once it serves.
    pub(crate) async fn start(settings: &str) -> Self {
        Self::start_by(settings, command).await
    }

    /// Starts by a command that a test makes from its arguments.
    pub(crate) async fn start_by(settings: &str, command: impl Fn(&[&str]) -> Command) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("nearside.toml");
        std::fs::write(&file, settings).unwrap();
        let mut child =
            command(&["run", "--config", path(&file)]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = follow(child.stderr.take().expect("it is piped"));
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut program = Self { child, said, directory, tcp: anywhere, admin: anywhere };
        let serving = program.line(|line| line["message"] == "serving").await;
        program.tcp = serving["tcp"].as_str().map_or(anywhere, |tcp| tcp.parse().unwrap());
        program.admin = serving["admin"].as_str().expect("the admin port is always there").parse().unwrap();
        program
    }

    /// The first line, said already or to come, that is as wanted.
    pub(crate) async fn line(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let (mut said, mut found) = (self.said.clone(), None);
        let coming = said.wait_for(|lines| {
            let mut parsed = lines
                .iter()
                .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("each line is JSON: {line}")));
            found = parsed.find(&wanted);
            found.is_some()
        });
        // What it yields is a lock of the lines: held, it would stop who reads them as soon as
        // there is one more to write.
        let came = tokio::time::timeout(TIMEOUT, coming).await.is_ok_and(|came| came.is_ok());
        assert!(came, "the line came: {:#?}", self.lines());
        found.expect("it was just there")
    }

    /// All lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.said.borrow().clone()
    }

    /// A line of its `/proc/PID/status` that states KiB, in bytes; `None` once it has ended.
    pub(crate) fn memory(&self, name: &str) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(&self.child, signal);
    }

    /// The file with its settings.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("nearside.toml")
    }

    /// Writes other settings, has them read with SIGHUP, and waits for how that ended.
    pub(crate) async fn reload(&self, settings: &str) -> Value {
        std::fs::write(self.file(), settings).unwrap();
        self.hang_up().await
    }

    /// Has the settings read again with SIGHUP, and waits for how that ended: `reload` of
    /// `/status`.
    pub(crate) async fn hang_up(&self) -> Value {
        let before = self.json("/status").await["reload"]["at"].clone();
        self.signal(Signal::HUP);
        self.until("/status", |status| !status["reload"].is_null() && status["reload"]["at"] != before).await["reload"]
            .clone()
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        // Its standard error ends with it.
        let closed = async { while self.said.changed().await.is_ok() {} };
        tokio::time::timeout(TIMEOUT, closed).await.expect("the program ends");
        self.child.wait().unwrap()
    }

    /// A page of its admin port: status and body.
    pub(crate) async fn page(&self, path: &str) -> (u16, String) {
        get(&format!("http://{}{path}", self.admin)).await
    }

    /// A page of its admin port that is JSON.
    pub(crate) async fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.page(path).await.1).unwrap()
    }

    /// Asks `path` again and again until what it says is as wanted.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let asking = async {
            loop {
                let page = self.json(path).await;
                if wanted(&page) {
                    return page;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(TIMEOUT, asking).await {
            Ok(page) => page,
            Err(_) => panic!("{path} never said so: {}", self.page(path).await.1),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body of a GET.
pub(crate) async fn get(url: &str) -> (u16, String) {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let answer = client.get(url).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// Status of a GET and the last `Cache-Status` of its answer, which is ours.
pub(crate) async fn get_labelled(url: &str) -> (u16, String) {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let answer = client.get(url).send().await.unwrap();
    let label = answer.headers().get_all("cache-status").iter().next_back();
    (answer.status().as_u16(), label.map(|label| label.to_str().unwrap().to_owned()).unwrap_or_default())
}

/// The path as an argument.
pub(crate) fn path(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Follows what a process says; the channel closes when the process ends.
pub(crate) fn follow(from: impl Read + Send + 'static) -> watch::Receiver<Vec<String>> {
    let lines = BufReader::new(from).lines();
    let (say, said) = watch::channel(Vec::new());
    let follower = std::thread::Builder::new().name("follow".to_owned());
    follower
        .spawn(move || lines.map_while(Result::ok).for_each(|line| say.send_modify(|said| said.push(line))))
        .unwrap();
    said
}

/// Lets no file of `child` grow beyond `most` bytes, or any again: a disk that is full.
pub(crate) fn limit_files(child: &Child, most: Option<u64>) {
    let pid = Pid::from_raw(child.id().try_into().unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: most, maximum: None }).unwrap();
}

/// Sends `child` a signal.
pub(crate) fn kill(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}
