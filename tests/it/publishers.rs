//! The reference publishers of `examples/publishers`, each with its language's ordinary SDK,
//! announce to the emulator; a doctor who listens finds nothing wrong.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use http::HeaderMap;
use nearside::admin::findings::report::LineState;
use nearside::app::Overrides;
use nearside::app::doctor::{DoctorOrder, examine};
use nearside::config::read;

use crate::emulator::Emulator;
use crate::misconfigurations::service::{Behaviour, Service};

/// Time for which the doctor listens: a few changes and heartbeats of each.
const LISTEN: Duration = Duration::from_secs(25);
/// Between two changes.
const CHANGE_EVERY: Duration = Duration::from_secs(2);
/// Longest time in which a publisher signs off.
const SIGN_OFF: Duration = Duration::from_secs(30);
/// Region of each publisher.
const REGIONS: [&str; 4] = ["eu-west-1", "us-east-1", "ap-southeast-2", "us-west-2"];

/// The languages whose toolchain is here, and the command of each publisher.
fn commands() -> Vec<(String, String)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/publishers/setup.sh");
    let made = Command::new(script).stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    assert!(made.status.success(), "examples/publishers/setup.sh failed; what it said is above");
    let lines = String::from_utf8(made.stdout).unwrap();
    let (missing, commands): (Vec<_>, Vec<_>) = lines
        .lines()
        .filter_map(|line| line.split_once(": ").map(|(language, rest)| (language.to_owned(), rest.to_owned())))
        .partition(|(_, command)| command.starts_with("missing: "));
    for (language, why) in missing {
        println!("NOT TRIED: the {language} publisher: {why}");
    }
    commands
}

fn start(command: &str, topic: &str, endpoint: &str) -> Child {
    let line = command.split(' ').collect::<Vec<_>>();
    Command::new(line[0])
        .args(&line[1..])
        .arg(topic)
        .env("AWS_ENDPOINT_URL", endpoint)
        .envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_REGION", "eu-west-1")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{command}: {error}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn reference_publishers_pass_doctor() {
    let commands = commands();
    let emulator = Emulator::shared();
    let endpoint = emulator.url().as_str().trim_end_matches('/').to_owned();
    let service = Service::start(&vec![Behaviour::default(); commands.len()]);
    let mut text = format!(
        "announcements.endpoint_url = \"{endpoint}\"\nannouncements.insecure_sns_signer = \"{endpoint}\"\n\
         admin.listen = \"127.0.0.1:0\"\nlisten.tcp = \"127.0.0.1:0\"\n"
    );
    let mut publishers = Vec::new();
    for (place, (language, command)) in commands.iter().enumerate() {
        let topic = emulator.topic(REGIONS[place], &format!("published-by-{language}"), 2).await.arn;
        let url = service.url(place);
        text += &format!("[[service.region]]\nname = \"{language}\"\nurl = \"{url}\"\ntopic = \"{topic}\"\n");
        let mut publisher = start(command, &topic, &endpoint);
        // It says how orders are written, and goes on.
        writeln!(publisher.stdin.as_mut().unwrap(), "chnged context acme 1\nchanged context acme").unwrap();
        publishers.push(publisher);
    }
    text += "[[service.route]]\npath = \"/v1/contexts/{key}/{view}\"\nrecords = [\"context:{key}\"]\n";
    let config = read::from_toml(&text).unwrap();
    let order =
        DoctorOrder { paths: vec!["/v1/contexts/acme/limits".to_owned()], headers: HeaderMap::new(), listen: LISTEN };
    let changes = async {
        loop {
            let version = service.put("acme");
            for publisher in &mut publishers {
                let stdin = publisher.stdin.as_mut().unwrap();
                writeln!(stdin, "changed context acme {version}").unwrap();
                stdin.flush().unwrap();
            }
            tokio::time::sleep(CHANGE_EVERY).await;
        }
    };
    let lines = tokio::select! {
        lines = examine(config, order, Overrides::default()) => lines.unwrap(),
        () = changes => unreachable!("it goes on for ever"),
    };
    for (mut publisher, (language, _)) in publishers.into_iter().zip(&commands) {
        drop(publisher.stdin.take());
        let ended = tokio::task::spawn_blocking(move || publisher.wait().unwrap());
        let ended = tokio::time::timeout(SIGN_OFF, ended).await.expect("it signs off").unwrap();
        assert!(ended.success(), "{language}: {ended}");
    }
    let wrong: Vec<_> = lines.iter().filter(|line| line.state == LineState::Wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (language, _) in &commands {
        for check in [
            "access",
            "heartbeats-missing",
            "through-missing",
            "numbers-missing",
            "versions-unannounced",
            "undecodable",
        ] {
            let well = lines.iter().any(|line| {
                (line.check, line.subject.as_str(), line.state) == (check, language.as_str(), LineState::Well)
            });
            assert!(well, "{language}: {check}: {lines:#?}");
        }
        let met = lines.iter().find(|line| line.check == "keys-unmatched").unwrap();
        assert!(met.saw.contains(language.as_str()), "{met:?}");
    }
}
