//! A deployment as it is reached from outside, however it runs, and the files that configure it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::super::program::TIMEOUT;

/// Between two looks at something that is waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Address of a test's ports until they are bound.
const ANYWHERE: &str = "127.0.0.1:0";

/// A tenant joined with its shard.
pub(super) const VIEWS: &str = "[[view]]\nname = \"limits\"\ndefinition = 1\nfrom = \"tenant\"\n\
    needs = { shard = \"shard:{/shard}\" }\n[view.fields]\nusers = \"/users\"\nhost = \"shard:/host\"\n";

/// The services' file and the views' beside it: `engine` is the section's lines, a region is its
/// name and topic.
pub(super) fn service_file(directory: &Path, engine: &str, regions: &[(&str, &str)]) -> PathBuf {
    let (file, views) = (directory.join("service.toml"), directory.join("views.toml"));
    std::fs::write(&views, VIEWS).unwrap();
    let mut text = format!(
        "[engine]\n{engine}\n[catalogue]\nlisten = \"{ANYWHERE}\"\nadmin = \"{ANYWHERE}\"\n\
         [[catalogue.type]]\nname = \"tenant\"\n[[catalogue.type]]\nname = \"shard\"\n\
         [views]\nfile = \"{}\"\nadmin = \"{ANYWHERE}\"\n\
         [drain]\nlinger = \"0s\"\n[log]\nformat = \"json\"\n",
        views.display()
    );
    for (name, topic) in regions {
        text += &format!(
            "[[region]]\nname = \"{name}\"\ntopic = \"{topic}\"\nlisten = \"{ANYWHERE}\"\nadmin = \"{ANYWHERE}\"\n"
        );
    }
    std::fs::write(&file, text).unwrap();
    file
}

/// A sidecar's settings in front of these nodes (name, topic, address).
pub(super) fn sidecar_settings(aws: &str, nodes: &[(&str, &str, String)]) -> String {
    let mut text = format!(
        "[service]\nname = \"contexts\"\n\
         [[service.route]]\npath = \"/v1/contexts/{{key}}/limits\"\nrecords = [\"limits:{{key}}\"]\n\
         [listen]\ntcp = \"{ANYWHERE}\"\n[admin]\nlisten = \"{ANYWHERE}\"\n\
         [announcements]\nendpoint_url = \"{aws}\"\ninsecure_sns_signer = \"{aws}\"\n\
         [drain]\nlinger = \"0s\"\n[log]\nformat = \"json\"\n"
    );
    for (name, topic, address) in nodes {
        text += &format!("[[service.region]]\nname = \"{name}\"\nurl = \"http://{address}\"\ntopic = \"{topic}\"\n");
    }
    text
}

/// Addresses of its parts, without schemes.
pub(super) struct Reach {
    client: reqwest::Client,
    pub(super) catalogue: String,
    pub(super) sidecar: String,
    pub(super) nodes: Vec<String>,
    /// Every process's name and pages.
    pub(super) admins: Vec<(String, String)>,
}

/// Answer to a caller.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) status: u16,
    /// `X-Record-Version`, 0 when there is none.
    pub(super) version: u64,
    /// The last `Cache-Status`: the sidecar's own.
    pub(super) label: String,
    body: String,
}

impl Shown {
    pub(super) fn is_view(&self, wanted: &Value) -> bool {
        self.status == 200 && serde_json::from_str::<Value>(&self.body).is_ok_and(|body| body == *wanted)
    }
}

impl Reach {
    pub(super) fn new(catalogue: String, sidecar: String, nodes: Vec<String>, admins: Vec<(String, String)>) -> Self {
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        Self { client, catalogue, sidecar, nodes, admins }
    }

    /// Writes a record; returns its version.
    pub(super) async fn put(&self, record_type: &str, key: &str, body: &Value) -> u64 {
        let url = format!("http://{}/v1/records/{record_type}/{key}", self.catalogue);
        Self::version(
            self.client
                .put(url)
                .header("content-type", "application/json")
                .body(body.to_string())
                .send()
                .await
                .unwrap(),
        )
        .await
    }

    pub(super) async fn delete(&self, record_type: &str, key: &str) -> u64 {
        let url = format!("http://{}/v1/records/{record_type}/{key}", self.catalogue);
        Self::version(self.client.delete(url).send().await.unwrap()).await
    }

    async fn version(answer: reqwest::Response) -> u64 {
        assert!(answer.status().is_success(), "{}: {}", answer.status(), answer.text().await.unwrap());
        answer.headers()["x-record-version"].to_str().unwrap().parse().unwrap()
    }

    /// Reads a record through the sidecar.
    pub(super) async fn read(&self, key: &str) -> Shown {
        self.get(&self.sidecar, key).await
    }

    pub(super) async fn get(&self, address: &str, key: &str) -> Shown {
        let answer = self.client.get(format!("http://{address}/v1/contexts/{key}/limits")).send().await.unwrap();
        let [version, label] = ["x-record-version", "cache-status"].map(|name| {
            let last = answer.headers().get_all(name).iter().next_back();
            last.map(|line| line.to_str().unwrap().to_owned()).unwrap_or_default()
        });
        let (status, version) = (answer.status().as_u16(), version.parse().unwrap_or(0));
        Shown { status, version, label, body: answer.text().await.unwrap() }
    }

    /// Reads until what the sidecar's caller sees is as wanted.
    pub(super) async fn until(&self, key: &str, wanted: impl Fn(&Shown) -> bool) -> Shown {
        self.until_at(&self.sidecar, key, wanted).await
    }

    pub(super) async fn until_at(&self, address: &str, key: &str, wanted: impl Fn(&Shown) -> bool) -> Shown {
        let mut last = None;
        let reading = async {
            loop {
                let seen = self.get(address, key).await;
                if wanted(&seen) {
                    return seen;
                }
                last = Some(seen);
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        tokio::time::timeout(TIMEOUT, reading).await.unwrap_or_else(|_| panic!("seen at last: {last:?}"))
    }

    pub(super) async fn page(&self, admin: &str, path: &str) -> (u16, String) {
        let answer = self.client.get(format!("http://{admin}{path}")).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Waits until every process says that it serves, and the sidecar that it hears each topic.
    pub(super) async fn ready(&self) {
        for (name, admin) in &self.admins {
            let mut last = String::new();
            let looking = async {
                loop {
                    let (status, said) = self.page(admin, "/readyz").await;
                    if status == 200 && said.contains("\"reasons\":[]") {
                        return;
                    }
                    last = said;
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            };
            let came = tokio::time::timeout(TIMEOUT, looking).await;
            assert!(came.is_ok(), "{name}: {last}");
        }
    }
}
