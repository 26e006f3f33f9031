//! Ordinary bad days: what surrounds the process is wrong, and callers notice nothing.
//!
//! Each file is one kind of surroundings. [`serves`] and [`stops`] are the same question put in all
//! of them: does it hit, miss, say that it lives, and end when it is asked to?

use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::program::{self, Program, get};

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
    let url = format!("http://{}/v1/contexts/{key}", program.tcp);
    for what in ["a miss", "a hit"] {
        let (status, body) = get(&url).await;
        assert_eq!(status, 200, "{what} of {key}: {body}");
    }
    assert_eq!(program.page("/livez").await.0, 200, "/livez");
}

/// Asserts that SIGTERM ends the program well.
async fn stops(mut program: Program) {
    program.signal(Signal::TERM);
    let status = program.ended().await;
    assert!(status.success(), "{status}: {:#?}", program.lines());
}
