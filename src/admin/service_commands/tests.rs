//! Commands by who asks for them, and by the mode of the gate.

use std::net::SocketAddr;

use serde_json::json;

use super::super::guard::{Admits, Operators};
use super::super::service_pages::ServiceState;
use super::super::service_pages::tests::{OPERATORS, gate_as, port_with, say};
use super::*;
use crate::config::services::AccessMode;
use crate::lab::issuer::Issuer;
use crate::model::time::Clock;
use crate::tasks::Tasks;
use crate::telemetry::scripted::CountedLines;

/// Commands that answer with who asked, and with what.
fn echoes(gate: CommandGate) -> ServiceCommands {
    let run: RunCommand = Arc::new(|by, arguments| {
        let asked = read::<Value>(&arguments).map(|asked| json!({"by": by.to_string(), "asked": asked}));
        Box::pin(std::future::ready(asked))
    });
    let commands = [("look", &[May::Inspect, May::Guard][..]), ("release", &[May::Guard])];
    let commands = commands.map(|(name, needs)| ServiceCommand { name, needs, run: run.clone() });
    ServiceCommands::new(gate, commands.into())
}

async fn port(gate: CommandGate, operators: Option<Operators>) -> (SocketAddr, Tasks) {
    let admits = Admits { operators, ..Admits::default() };
    port_with(ServiceState::Serving, Arc::new(admits), echoes(gate)).await
}

async fn post(address: SocketAddr, name: &str, body: &str, more: &str) -> String {
    let length = body.len();
    let head = format!("POST /commands/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}");
    say(address, &format!("{head}Content-Length: {length}\r\n\r\n{body}")).await
}

const JSON: &str = "Content-Type: application/json\r\n";

/// Status and problem of an answer.
fn seen(answer: &str) -> (&str, &str) {
    let status = &answer["HTTP/1.1 ".len()..][..3];
    let problem = answer.split_once("urn:nearside:problem:").and_then(|(_, rest)| rest.split_once('"'));
    (status, problem.map_or("", |(word, _)| word))
}

#[tokio::test]
async fn commands_need_their_grant_in_every_mode() {
    let issuer = Issuer::new("https://issuer.example", "one");
    let now = Clock::System.wall().as_millis() / 1_000;
    let consumers = json!({"viewer": ["inspect"], "releaser": ["guard"], "operator": ["operate"], "writer": []});
    for mode in [AccessMode::Observe, AccessMode::Enforce] {
        let gate = gate_as(&issuer, mode, &consumers);
        let operators = Operators { gate: Some(gate.clone()), behind_proxy: true };
        // Over loopback; and where others reach the port.
        for operators in [None, Some(operators)] {
            let (address, _tasks) = port(CommandGate::Grants(gate.clone()), operators).await;
            for (sub, name, wanted) in [
                ("viewer", "look", ("200", "")),
                ("viewer", "release", ("403", "not-granted")),
                ("releaser", "look", ("200", "")),
                ("releaser", "release", ("200", "")),
                ("operator", "look", ("403", "not-granted")),
                ("writer", "look", ("403", "not-granted")),
                ("stranger", "look", ("403", "not-granted")),
                ("stranger", "nothing", ("403", "not-granted")),
                ("operator", "nothing", ("404", "unknown-command")),
            ] {
                let line = format!("{JSON}Authorization: Bearer {}\r\n", issuer.token(sub, OPERATORS, now));
                let answer = post(address, name, "{}", &line).await;
                assert_eq!(seen(&answer), wanted, "{mode:?} {sub} {name}: {answer}");
                let is_named = answer.contains(&format!("{sub} of https://issuer.example ({sub})"));
                assert_eq!(is_named, wanted.0 == "200", "{answer}");
            }
            let readers = issuer.token("releaser", "https://others.example", now);
            for line in [String::new(), format!("Authorization: Bearer {readers}\r\n")] {
                let answer = post(address, "look", "{}", &format!("{JSON}{line}")).await;
                assert!(answer.starts_with("HTTP/1.1 401 "), "{mode:?}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn unchecked_commands_are_of_this_machine() {
    let lines = CountedLines::start();
    let (address, _tasks) = port(CommandGate::Local, None).await;
    let answer = post(address, "look", r#"{"a":1}"#, JSON).await;
    assert!(answer.ends_with(r#"{"asked":{"a":1},"by":"local"}"#), "{answer}");
    assert_eq!(lines.with("an operator's command was carried out"), 1);
    assert_eq!(seen(&post(address, "look", "{", JSON).await), ("400", "bad-arguments"));
    assert_eq!(lines.with("an operator's command was refused"), 1);
    // A form of another site's page, and too much.
    assert_eq!(seen(&post(address, "look", "{}", "").await), ("400", "bad-arguments"));
    assert_eq!(seen(&post(address, "look", &" ".repeat(20_000), JSON).await), ("413", "large-body"));
    let (address, _tasks) = port(CommandGate::Closed("set access.mode"), None).await;
    let answer = post(address, "look", "{}", JSON).await;
    assert!(seen(&answer) == ("403", "commands-closed") && answer.contains("set access.mode"), "{answer}");
}
