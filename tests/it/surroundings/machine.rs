//! The machine is small or odd: few descriptors, one CPU, a root that is read-only, no `/proc`, an
//! environment with nothing in it. What needs a mount namespace needs root, and fails without it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::super::deployed;
use super::super::program::{self, Program, get, get_labelled, settings, text};
use super::super::service::Service;
use super::within;

const FOUR: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SIX: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Connections to each of these, which say nothing.
async fn hold(addresses: &[SocketAddr], count: usize) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for address in addresses {
        for _ in 0..count {
            held.push(TcpStream::connect(address).await.unwrap());
        }
    }
    held
}

fn config(service: &Service) -> String {
    let urls = service.urls();
    let rest = "[announcements]\ntransport = \"off\"\n[drain]\nlinger = \"0s\"\n";
    settings("machine", &[("eu-west-1", urls[0].as_str(), ""), ("us-east-1", urls[1].as_str(), "")], rest)
}

#[tokio::test]
async fn few_descriptors_leave_operators_their_share() {
    let service = Service::start(2);
    for (most, held_at) in [(64, FOUR), (100, SIX), (128, FOUR), (256, SIX), (1024, FOUR)] {
        let shell = format!("ulimit -n {most}; exec");
        let program = Program::start_by(&config(&service), |args| within(&shell, args)).await;
        super::serves(&program, "alpha").await;
        // What is held at one of two addresses is closed for who comes to the other.
        let ports = [program.tcp.port(), program.admin.port()];
        let held = hold(&ports.map(|port| SocketAddr::from((held_at, port))), 2 * most).await;
        assert_eq!(program.page("/livez").await.0, 200, "{most} descriptors, all callers' and operators' taken");
        let health = program::run(&["health", "--admin", &program.admin.to_string()]);
        assert!(health.status.success(), "{most} descriptors: {}", text(&health.stderr));
        let (status, _) = get(&format!("http://{}/v1/contexts/beta", program.tcp)).await;
        assert_eq!(status, 200, "{most} descriptors: a silent connection makes room");
        assert!(program.lines().iter().any(|line| line.contains("fewer connections than")), "it is said at start");
        let accepts = program.lines().iter().filter(|line| line.contains("could not accept")).count();
        assert_eq!(accepts, 0, "{most} descriptors did not run out");
        drop(held);
        super::stops(program).await;
    }
}

#[tokio::test]
async fn too_few_descriptors_state_minimum() {
    let (service, directory) = (Service::start(2), tempfile::tempdir().unwrap());
    let file = directory.path().join("nearside.toml");
    std::fs::write(&file, config(&service)).unwrap();
    let ended = within("ulimit -n 40; exec", &["run", "--config", program::path(&file)]).output().unwrap();
    let said = format!("{}{}", text(&ended.stdout), text(&ended.stderr));
    assert!(!ended.status.success() && said.contains("at least 64"), "{said}");
}

#[tokio::test]
async fn odd_machines_serve_and_stop() {
    let service = Service::start(2);
    let odd = [
        ("one CPU", "exec taskset -c 0"),
        ("no HOME, no PATH, a TMPDIR that is not there", "unset HOME PATH; TMPDIR=/nonexistent/tmp exec"),
        ("no /proc", "exec unshare -m sh -c 'mount -t tmpfs none /proc && exec \"$0\" \"$@\"'"),
        ("no cgroups", "exec unshare -m sh -c 'mount -t tmpfs none /sys/fs/cgroup && exec \"$0\" \"$@\"'"),
        ("a read-only root", "exec unshare -m sh -c 'mount -o remount,bind,ro / && exec \"$0\" \"$@\"'"),
        ("no certificates", "exec unshare -m sh -c 'mount -t tmpfs none /etc/ssl && exec \"$0\" \"$@\"'"),
    ];
    for (what, shell) in odd {
        println!("{what}");
        let program = Program::start_by(&config(&service), |args| within(shell, args)).await;
        super::serves(&program, "alpha").await;
        super::stops(program).await;
    }
}

/// All roles of a file on the memory engine.
const SERVICES: &str = "[engine]\nkind = \"memory\"\n[catalogue]\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n\
    [[catalogue.type]]\nname = \"tenant\"\n[views]\nfile = \"VIEWS\"\nadmin = \"127.0.0.1:0\"\n\
    [[region]]\nname = \"eu-west-1\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n\
    [drain]\nlinger = \"0s\"\n[log]\nformat = \"json\"\n";

fn services_file(folder: &Path) -> PathBuf {
    let (file, views) = (folder.join("service.toml"), folder.join("views.toml"));
    let view = "[[view]]\nname = \"limits\"\ndefinition = 1\nfrom = \"tenant\"\n[view.fields]\nusers = \"/users\"\n";
    std::fs::write(&views, view).unwrap();
    std::fs::write(&file, SERVICES.replace("VIEWS", program::path(&views))).unwrap();
    file
}

#[tokio::test]
async fn few_descriptors_leave_services_pages_too() {
    let directory = tempfile::tempdir().unwrap();
    let file = services_file(directory.path());
    for role in ["catalogue", "views", "region"] {
        for (most, held_at) in [(64, FOUR), (128, SIX), (256, FOUR), (1024, SIX)] {
            service_with_few_descriptors(role, program::path(&file), most, held_at).await;
        }
    }
}

fn port_of(address: &str) -> u16 {
    address.parse::<SocketAddr>().unwrap().port()
}

/// `localhost` is `::1` to some clients of a service too.
#[tokio::test]
async fn service_localhost_is_both_families() {
    let directory = tempfile::tempdir().unwrap();
    let (file, taken) = (services_file(directory.path()), TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap());
    for (role, path) in
        [("catalogue", Some("/v1/records/tenant/acme")), ("views", None), ("region", Some("/nowhere"))]
    {
        let service = deployed::Service::start(&[role], &file).await;
        let called = path.map(|path| (port_of(service.listen()), path));
        for (port, path) in called.into_iter().chain([(port_of(service.admin()), "/livez")]) {
            let six = TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.unwrap();
            let four = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
            let (six, four) = (status_over(six, path).await, status_over(four, path).await);
            let is_same = six == four || role == "region";
            assert!(six.starts_with("HTTP/1.1 ") && is_same, "{role}, {path}: {six:?}, {four:?}");
        }
        assert_eq!(service.terminated().await, Some(0), "{role}");
    }
    // Somebody else's `::1` is a warning.
    let number = taken.local_addr().unwrap().port();
    let text = std::fs::read_to_string(&file).unwrap();
    let named = format!("[catalogue]\nlisten = \"127.0.0.1:{number}\"");
    std::fs::write(&file, text.replacen("[catalogue]\nlisten = \"127.0.0.1:0\"", &named, 1)).unwrap();
    let beside = deployed::Service::start(&["catalogue"], &file).await;
    let warned = beside.line_with("another process listens on [::1]").await;
    assert_eq!(warned["setting"], "catalogue.listen");
    assert_eq!(beside.terminated().await, Some(0));
}

async fn service_with_few_descriptors(role: &str, file: &str, most: usize, held_at: IpAddr) {
    let shell = format!("ulimit -n {most}; exec");
    let service = deployed::Service::start_by(within(&shell, &[role, "--config", file])).await;
    let admin: SocketAddr = service.admin().parse().unwrap();
    let listen = service.serving["listen"].as_str().map(|listen| listen.parse().unwrap());
    let addresses = listen.into_iter().chain([admin]).map(|address| SocketAddr::from((held_at, address.port())));
    let held = hold(&addresses.collect::<Vec<_>>(), 2 * most).await;
    assert_eq!(service.page("/livez").await.0, 200, "{role}, {most}");
    let health = program::run(&["health", "--admin", service.admin()]);
    // A region that has taken in nothing yet is well and not ready.
    let said = text(&health.stderr);
    assert!(health.status.success() || said.contains(" 503 "), "{role}, {most}: {said}");
    if let Some(listen) = listen {
        let (status, _) = get(&format!("http://{listen}/nowhere")).await;
        assert!((400..=503).contains(&status), "{role}, {most}: a silent connection makes room");
    }
    drop(held);
    assert_eq!(service.terminated().await, Some(0), "{role}, {most}");
}

/// Files below `/sys/fs/cgroup`, and what they hold.
type CgroupFiles<'f> = &'f [(&'f str, &'f str)];

/// Runs what comes after it where `/proc/self/cgroup` says `groups`, and `files` of the cgroups are
/// as given. The file is that of the shell, which the program then takes the place of.
fn in_cgroup(folder: &Path, groups: &str, files: CgroupFiles<'_>) -> String {
    let (sys, said) = (folder.join("cgroup"), folder.join("groups"));
    std::fs::write(&said, groups).unwrap();
    for (file, text) in files {
        let file = sys.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    format!(
        "exec unshare -m sh -c 'mount --bind {} /sys/fs/cgroup && mount --bind {} /proc/$$/cgroup && exec \"$0\" \"$@\"'",
        sys.display(),
        said.display()
    )
}

#[tokio::test]
async fn limits_of_either_cgroup_version_hold() {
    let service = Service::start(2);
    const MIB_128: &str = "134217728\n";
    let groups: [(&str, &str, CgroupFiles<'_>); 4] = [
        ("v2", "0::/own\n", &[("own/memory.max", MIB_128), ("memory.max", "max\n")]),
        ("v2, a namespace of its own", "0::/\n", &[("memory.max", MIB_128)]),
        ("v1", "4:memory:/docker/1\n1:name=systemd:/\n", &[("memory/docker/1/memory.limit_in_bytes", MIB_128)]),
        (
            "hybrid",
            "4:memory:/own\n0::/own\n",
            &[("memory/own/memory.limit_in_bytes", MIB_128), ("unified/own/cgroup.procs", "")],
        ),
    ];
    for (what, said, files) in groups {
        let folder = tempfile::tempdir().unwrap();
        let shell = in_cgroup(folder.path(), said, files);
        let file = folder.path().join("nearside.toml");
        std::fs::write(&file, config(&service)).unwrap();
        let checked = within(&shell, &["check", "--config", program::path(&file)]).output().unwrap();
        let reported = text(&checked.stderr);
        assert!(reported.contains("the cgroup's limit of 128.0 MiB"), "{what}: {reported}");
        let program = Program::start_by(&config(&service), |args| within(&shell, args)).await;
        super::serves(&program, "alpha").await;
        super::stops(program).await;
    }
}

/// A library that a program asks for the time in the kernel's place.
fn clock_library(folder: &Path) -> std::path::PathBuf {
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    std::fs::write(&source, include_str!("clock.c")).unwrap();
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o", program::path(&library)]).arg(&source).output();
    let built = built.expect("the C compiler that Rust links with is here");
    assert!(built.status.success(), "{}", text(&built.stderr));
    library
}

/// Asks over the wire, once, and gives the answer's status.
async fn status_over(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn localhost_is_both_families() {
    let service = Service::start(2);
    let program = Program::start(&config(&service)).await;
    for (port, path) in [(program.tcp.port(), "/v1/contexts/alpha"), (program.admin.port(), "/livez")] {
        let stream = TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.unwrap();
        assert_eq!(status_over(stream, path).await, "HTTP/1.1 200 OK", "{path}");
    }
    super::serves(&program, "beta").await;
    // Somebody else's `::1`, and none at all: the start does not fail.
    let taken = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    let text = config(&service) + "[listen]\ntcp = \"127.0.0.1:PORT\"\n";
    let text = text.replacen("[listen]\ntcp = \"127.0.0.1:0\"\n", "", 1);
    let beside = Program::start(&text.replace("PORT", &taken.local_addr().unwrap().port().to_string())).await;
    beside.line(|line| line["level"] == "WARN" && line["setting"] == "listen.tcp").await;
    super::serves(&beside, "alpha").await;
    super::stops(beside).await;
    super::stops(program).await;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let text = config(&service).replacen("[admin]\n", &format!("[admin]\nunix = \"{}\"\n", socket.display()), 1);
    let none = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; ip link set lo up; exec \"$0\" \"$@\"";
    let alone = Program::start_by(&text, |args| within(&format!("exec unshare -n sh -c '{none}'"), args)).await;
    let stream = UnixStream::connect(&socket).await.unwrap();
    assert_eq!(status_over(stream, "/livez").await, "HTTP/1.1 200 OK");
    let warned = alone.lines().iter().any(|line| line.contains("\"WARN\"") && line.contains("::1"));
    assert!(!warned, "{:#?}", alone.lines());
    super::stops(alone).await;
}

/// Moves the clock that the programs see.
fn jump(step: &Path, seconds: i64) {
    // In place: the program has it mapped.
    let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(step).unwrap();
    file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
}

/// Time of a reload, as the program states it.
async fn reported_time(program: &Program) -> SystemTime {
    humantime::parse_rfc3339(program.hang_up().await["at"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn jumping_clocks_serve_and_stop() {
    let (service, folder) = (Service::start(2), tempfile::tempdir().unwrap());
    let (library, step) = (clock_library(folder.path()), folder.path().join("step"));
    let steps = [90, -90, 3600, -3600, 86_400, -86_400];
    for (number, seconds) in steps.into_iter().enumerate() {
        jump(&step, 0);
        let program = Program::start_by(&config(&service), |args| {
            let mut command = program::command(args);
            command.env("LD_PRELOAD", &library).env("CLOCK_STEP", &step);
            command
        })
        .await;
        super::serves(&program, &format!("before-{number}")).await;
        let before = reported_time(&program).await;
        jump(&step, seconds);
        let (status, label) = get_labelled(&format!("http://{}/v1/contexts/before-{number}", program.tcp)).await;
        // A calendar that runs ahead may be a pause that was not counted: then what is stored is older.
        let is_stored = label.starts_with("nearside; hit");
        assert!(status == 200 && (is_stored || seconds > 0), "{seconds} s: {status}, {label}");
        super::serves(&program, &format!("after-{number}")).await;
        let ready = program.page("/readyz").await;
        assert_eq!(ready.0, 200, "{seconds} s: {}", ready.1);
        let (after, size) = (reported_time(&program).await, Duration::from_secs(seconds.unsigned_abs()));
        let moved = if seconds > 0 { after.duration_since(before) } else { before.duration_since(after) }.unwrap();
        assert!(moved.abs_diff(size) < Duration::from_secs(60), "the clock is the test's: {moved:?}");
        // And back, while it stops.
        jump(&step, -seconds);
        super::stops(program).await;
    }
}

#[tokio::test]
async fn odd_clocks_serve_and_stop() {
    let (service, folder) = (Service::start(2), tempfile::tempdir().unwrap());
    let library = clock_library(folder.path());
    for (begins, year) in
        [(5_i64, "1970-"), ((1 << 31) - 1, "2038-"), ((1 << 32) - 1, "2106-"), (253_402_300_700, "9999-")]
    {
        println!("{year}");
        let config = config(&service);
        let program = Program::start_by(&config, |args| {
            let mut command = program::command(args);
            command.env("LD_PRELOAD", &library).env("CLOCK_BEGINS", begins.to_string());
            command
        });
        let program = program.await;
        let serving = program.line(|line| line["message"] == "serving").await;
        assert!(serving["timestamp"].as_str().unwrap().starts_with(year), "the clock is the test's: {serving}");
        super::serves(&program, "alpha").await;
        super::stops(program).await;
    }
}
