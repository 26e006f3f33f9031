//! Ordinary bad days: what surrounds the process is wrong, and callers notice nothing.
//!
//! Each file is one kind of surroundings. [`serves`] and [`stops`] are the same question put in all
//! of them: does it hit, miss, say that it lives, and end when it is asked to?

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::program::{self, Program, get_labelled};

mod log;
mod machine;
mod names;
mod proxies;
mod sdk;
mod start;
mod store;

/// The program's command, run by another one that `shell` ends with.
fn within(shell: &str, args: &[&str]) -> Command {
    let plain = program::command(args);
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("{shell} \"$0\" \"$@\"")).arg(plain.get_program()).args(args);
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null());
    command
}

/// Asserts that a miss, the hit after it, and `/livez` are answered. `key` is one that nobody asked
/// for before and that the regions have.
async fn serves(program: &Program, key: &str) {
    misses_and_hits(&format!("http://{}/v1/contexts/{key}", program.tcp)).await;
    assert_eq!(program.page("/livez").await.0, 200, "/livez");
}

/// Asserts that the first of two answers is a region's, and the second what was stored.
async fn misses_and_hits(url: &str) {
    for (what, begins) in [("a miss", "nearside; fwd=uri-miss"), ("a hit", "nearside; hit")] {
        let asked = tokio::time::timeout(Duration::from_secs(10), get_labelled(url)).await;
        let (status, label) = asked.unwrap_or_else(|_| panic!("{what}: {url} is not answered"));
        assert!(status == 200 && label.starts_with(begins), "{what} of {url}: {status}, {label}");
    }
}

/// Asserts that SIGTERM ends the program well.
async fn stops(mut program: Program) {
    program.signal(Signal::TERM);
    let status = program.ended().await;
    assert!(status.success(), "{status}: {:#?}", program.lines());
}
