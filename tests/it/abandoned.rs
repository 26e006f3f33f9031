//! Leftovers of a killed sidecar in AWS, and the janitor that removes them: both as the real
//! program.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use nearside::config::TopicArn;
use nearside::model::time::Clock;

use super::announced::until;
use super::emulator::Emulator;

/// Regions that no other test uses: a janitor looks at all queues of a region.
const PLACES: [&str; 2] = ["eu-north-1", "ca-central-1"];

/// The program, with nothing of this process's environment.
fn nearside(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearside"));
    command.env_clear().args(args).stdin(Stdio::null());
    command
}

/// A running sidecar; killed without a chance to clean up, at the latest when the test ends.
struct Doomed(Child);

impl Doomed {
    fn start(config: &Path) -> Self {
        let mut command = nearside(&["run", "--config", config.to_str().unwrap()]);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Doomed {
    /// SIGKILL.
    fn drop(&mut self) {
        // It may have ended by itself, which the test notices otherwise.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn settings(topics: &[TopicArn]) -> String {
    let aws = Emulator::shared().url();
    let mut text = String::from("service.name = \"abandoned\"\n");
    for topic in topics {
        let (name, topic) = (&topic.region, &topic.arn);
        let url = format!("http://127.0.0.1:1/{name}");
        text += &format!("[[service.region]]\nname = \"{name}\"\nurl = \"{url}\"\ntopic = \"{topic}\"\n");
    }
    text + &format!(
        "[[service.route]]\npath = \"/v1/contexts/{{key}}\"\nrecords = [\"context:{{key}}\"]\n\
         [listen]\ntcp = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [announcements]\nendpoint_url = \"{aws}\"\ninsecure_sns_signer = \"{aws}\"\n"
    )
}

async fn subscriptions(topic: &TopicArn) -> usize {
    let sns = Emulator::shared().sns(&topic.region);
    sns.list_subscriptions_by_topic().topic_arn(&topic.arn).send().await.unwrap().subscriptions().len()
}

async fn queues(region: &str) -> Vec<String> {
    let listed = Emulator::shared().sqs(region).list_queues().queue_name_prefix("nearside-abandoned-").send().await;
    listed.unwrap().queue_urls.unwrap_or_default()
}

#[tokio::test]
async fn janitor_lists_then_removes_abandoned_queues() {
    let mut topics = Vec::new();
    for region in PLACES {
        topics.push(Emulator::shared().topic(region, "abandoned", 2).await);
    }
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("nearside.toml");
    std::fs::write(&config, settings(&topics)).unwrap();
    let sidecar = Doomed::start(&config);
    for topic in &topics {
        until("the sidecar has subscribed", async || subscriptions(topic).await == 1).await;
    }
    drop(sidecar);

    let said = janitor(&config, &[]);
    assert!(said.contains("kept: ") && !said.contains("removed"), "it was alive a moment ago: {said}");
    let long_ago = (Clock::System.wall().as_millis() / 1000 - 25 * 3600).to_string();
    for region in PLACES {
        let urls = queues(region).await;
        assert_eq!(urls.len(), 1, "killed, it could remove nothing");
        let tagged = Emulator::shared().sqs(region).tag_queue().queue_url(&urls[0]).tags("alive", &long_ago);
        tagged.send().await.unwrap();
    }
    assert_eq!(janitor(&config, &["--dry-run"]).matches("would be removed").count(), 4);
    assert_eq!(queues(PLACES[0]).await.len(), 1, "a dry run removes nothing");
    assert_eq!(janitor(&config, &[]).matches(" removed ").count(), 4);
    for topic in &topics {
        assert_eq!((queues(&topic.region).await.len(), subscriptions(topic).await), (0, 0));
    }
}

/// Output of a run of the janitor.
fn janitor(config: &Path, more: &[&str]) -> String {
    let args = [&["janitor", "--config", config.to_str().unwrap()], more].concat();
    let output = nearside(&args).output().unwrap();
    let (said, reported) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{said}{reported}");
    said
}
