//! The machine is small or odd: few descriptors, one CPU, a root that is read-only, no `/proc`, an
//! environment with nothing in it. What needs a mount namespace needs root, and fails without it.

use std::process::{Command, Stdio};

use tokio::net::TcpStream;

use super::super::program::{self, Program, get, settings, text};
use super::super::service::Service;

/// The program's command, run by another one that `shell` ends with.
pub(super) fn within(shell: &str, args: &[&str]) -> Command {
    let plain = program::command(args);
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("{shell} \"$0\" \"$@\"")).arg(plain.get_program()).args(args);
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null());
    command
}

fn config(service: &Service) -> String {
    let urls = service.urls();
    let rest = "[announcements]\ntransport = \"off\"\n[drain]\nlinger = \"0s\"\n";
    settings("machine", &[("eu-west-1", urls[0].as_str(), ""), ("us-east-1", urls[1].as_str(), "")], rest)
}

#[tokio::test]
async fn few_descriptors_leave_operators_their_share() {
    let service = Service::start(2);
    for most in [64, 100, 256] {
        let shell = format!("ulimit -n {most}; exec");
        let program = Program::start_by(&config(&service), |args| within(&shell, args)).await;
        super::serves(&program, "alpha").await;
        let mut held = Vec::new();
        for _ in 0..2 * most {
            held.push(TcpStream::connect(program.tcp).await.unwrap());
        }
        assert_eq!(program.page("/livez").await.0, 200, "{most} descriptors, all callers' taken");
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
async fn too_few_descriptors_name_the_least() {
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
