//! The whole way from a writer to a sidecar's caller, as processes: catalogue, views and one region,
//! its topic, and the sidecar. On the embedded engine the three are one process, because a directory
//! is opened by one; its topic and queues are the harness's. On the emulator each is a process of
//! its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nearside::app::process as own_process;
use nearside::app::services::{
    self, Contents, Engine, RegionDuties, ServiceOverrides, ServiceProcess, ServiceStartError,
};
use nearside::aws::clients::Sdk;
use nearside::config::scope::Origins;
use nearside::config::services::ServicesConfig;
use nearside::model::time::Clock;
use nearside::telemetry::log;
use url::Url;

use crate::bench::announcer::Announcer;
use crate::bench::host::{self, Host};
use crate::bench::process::{self, Running};
use crate::bench::subject::SubjectError;
use crate::bench::{fetch, sidecar};
use crate::limits;

pub(crate) const REGION: &str = "eu-west-1";
/// The record type that is written, and the view that is read.
pub(crate) const TYPE: &str = "tenant";
pub(crate) const VIEW: &str = "limits";
/// The topic, and how the names of the tables begin.
const NAME: &str = "bench";
const VIEWS: &str =
    "[[view]]\nname = \"limits\"\ndefinition = 1\nfrom = \"tenant\"\n[view.fields]\nusers = \"/users\"\n";
/// Folder of the emulator, below the repository's root, and the script that makes it.
const EMULATOR: (&str, &str) = ("target/emulator", "tests/emulator/run.sh");

/// Addresses of its parts. Its processes end with it, the sidecar first: it removes its queue from
/// what is still there.
#[derive(Debug)]
pub(crate) struct Deployment {
    pub catalogue: SocketAddr,
    pub sidecar: SocketAddr,
    /// SNS and SQS.
    pub endpoint: Url,
    /// The ARN of the region's topic.
    pub topic: String,
    _processes: Vec<Running>,
}

/// Listen addresses; chosen before anything starts.
struct Addresses {
    catalogue: SocketAddr,
    node: SocketAddr,
    sidecar: SocketAddr,
    admins: [SocketAddr; 4],
}

impl Addresses {
    fn choose() -> Result<Self, SubjectError> {
        Ok(Self {
            catalogue: process::free_port()?,
            node: process::free_port()?,
            sidecar: process::free_port()?,
            admins: [process::free_port()?, process::free_port()?, process::free_port()?, process::free_port()?],
        })
    }
}

/// On redb, with SNS and SQS by `announcer`.
pub(crate) fn embedded(host: &Host, announcer: &Announcer) -> Result<Deployment, SubjectError> {
    let (folder, addresses) = (host.folder("embedded")?, Addresses::choose()?);
    let endpoint = announcer.announcing.endpoint.clone();
    let topic = own_process::block_on(create_topic(&endpoint)).map_err(unable)??;
    let engine = format!("kind = \"embedded\"\ndirectory = \"{}\"", folder.join("data").display());
    let file = write_settings(&folder, &engine, &topic, &addresses)?;
    let arguments = ["bench", "services", "--config", &path(&file), "--endpoint", &endpoint];
    let services = process::start(&host.harness, arguments, host.core, &folder)?;
    finish(host, vec![services], &addresses, &endpoint, topic)
}

/// On the AWS emulator of the tests.
pub(crate) fn emulated(host: &Host, emulator: &Emulator) -> Result<Deployment, SubjectError> {
    let Emulator { venv, script } = emulator;
    let (folder, addresses) = (host.folder("emulator")?, Addresses::choose()?);
    let at = process::free_port()?;
    let arguments = [path(venv), at.port().to_string()];
    let mut emulator = process::start_piped(script, arguments, host.own_core, &folder)?;
    emulator.wait_until(|| fetch::page(at, "/_localemu/health").ok())?;
    // As it spells itself in the URLs of certificates.
    let endpoint = format!("http://localhost:{}", at.port());
    let engine = format!("kind = \"aws\"\nregion = \"{REGION}\"\nprefix = \"{NAME}\"\nendpoint_url = \"{endpoint}\"");
    let topic = format!("arn:aws:sns:{REGION}:000000000000:{NAME}");
    let file = path(&write_settings(&folder, &engine, &topic, &addresses)?);
    let nearside = &host.product()?.program;
    let done = std::process::Command::new(nearside).args(["setup", "--config", &file]).output();
    let done = done.map_err(unable)?;
    if !done.status.success() {
        return Err(unable(String::from_utf8_lossy(&done.stderr).trim()));
    }
    let mut processes = Vec::new();
    for command in ["catalogue", "views", "region"] {
        let (keeper, arguments) = (Some(host.harness.as_path()), [command, "--config", &file]);
        processes.push(process::start_held(keeper, nearside, arguments, host.core, &folder)?);
    }
    processes.push(emulator);
    finish(host, processes, &addresses, &endpoint, topic)
}

/// The environment that the emulator runs in, and the script that runs it.
pub(crate) struct Emulator {
    venv: PathBuf,
    script: PathBuf,
}

impl Emulator {
    /// The one that the tests have set up, seen from the root of the repository.
    pub(crate) fn find() -> Option<Self> {
        let root = std::env::current_dir().ok()?;
        let found = Self { venv: root.join(EMULATOR.0), script: root.join(EMULATOR.1) };
        (found.venv.join("bin/localemu").exists() && found.script.exists()).then_some(found)
    }
}

/// Starts the sidecar, and waits until all of them serve.
fn finish(
    host: &Host,
    mut processes: Vec<Running>,
    addresses: &Addresses,
    endpoint: &str,
    topic: String,
) -> Result<Deployment, SubjectError> {
    let [.., last] = addresses.admins;
    let Some(first) = processes.first_mut() else { return Err(unable("there are no services")) };
    for admin in &addresses.admins[..3] {
        first.wait_within(limits::BENCH_DEPLOYMENT_WAIT, || serves(*admin, "serving").then_some(()))?;
    }
    let folder = host.folder("sidecar")?;
    let file = folder.join("nearside.toml");
    host::write(&file, &sidecar_settings(endpoint, &topic, addresses))?;
    let (keeper, arguments) = (Some(host.harness.as_path()), ["run", "--config", &path(&file)]);
    let mut sidecar = process::start_held(keeper, &host.product()?.program, arguments, host.core, &folder)?;
    sidecar.wait_within(limits::BENCH_DEPLOYMENT_WAIT, || serves(last, "fresh").then_some(()))?;
    processes.insert(0, sidecar);
    let endpoint = Url::parse(endpoint).map_err(unable)?;
    let (catalogue, sidecar) = (addresses.catalogue, addresses.sidecar);
    Ok(Deployment { catalogue, sidecar, endpoint, topic, _processes: processes })
}

fn serves(admin: SocketAddr, state: &str) -> bool {
    fetch::page(admin, "/readyz").is_ok_and(|page| sidecar::says(&page, state))
}

fn unable(why: impl std::fmt::Display) -> SubjectError {
    SubjectError::Unable { program: "the services".to_owned(), why: why.to_string() }
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

async fn create_topic(endpoint: &str) -> Result<String, SubjectError> {
    let clients = Sdk::new(Some(Url::parse(endpoint).map_err(unable)?)).clients(REGION).await;
    let made = clients.sns.create_topic().name(NAME).send().await.map_err(unable)?;
    made.topic_arn.ok_or_else(|| unable("a topic has no ARN"))
}

/// The services' file and the views' beside it.
fn write_settings(folder: &Path, engine: &str, topic: &str, addresses: &Addresses) -> Result<PathBuf, SubjectError> {
    let (file, views) = (folder.join("service.toml"), folder.join("views.toml"));
    let Addresses { catalogue, node, admins: [first, second, third, _], .. } = addresses;
    host::write(&views, VIEWS)?;
    host::write(
        &file,
        &format!(
            "[engine]\n{engine}\n[catalogue]\nlisten = \"{catalogue}\"\nadmin = \"{first}\"\n\
             [[catalogue.type]]\nname = \"{TYPE}\"\n[views]\nfile = \"{}\"\nadmin = \"{second}\"\n\
             [[region]]\nname = \"{REGION}\"\ntopic = \"{topic}\"\nlisten = \"{node}\"\nadmin = \"{third}\"\n\
             [drain]\nlinger = \"0s\"\n",
            views.display()
        ),
    )?;
    Ok(file)
}

fn sidecar_settings(endpoint: &str, topic: &str, addresses: &Addresses) -> String {
    let Addresses { node, sidecar, admins: [.., admin], .. } = addresses;
    format!(
        "[service]\nname = \"bench\"\nversion_header = \"x-record-version\"\n\
         [[service.region]]\nname = \"{REGION}\"\nurl = \"http://{node}\"\ntopic = \"{topic}\"\n\
         [[service.route]]\npath = \"/v1/contexts/{{key}}/{VIEW}\"\nrecords = [\"{VIEW}:{{key}}\"]\n\
         [listen]\ntcp = \"{sidecar}\"\n[admin]\nlisten = \"{admin}\"\n[drain]\nlinger = \"0s\"\n\
         [announcements]\nendpoint_url = \"{endpoint}\"\ninsecure_sns_signer = \"{endpoint}\"\n"
    )
}

/// Why the services of the embedded engine do not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServicesError {
    #[error("its log: {0}")]
    Log(#[from] log::LogError),
    #[error(transparent)]
    Start(#[from] ServiceStartError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Serves as all of the file's processes on one engine until the process is asked to stop.
pub(crate) async fn serve(config: ServicesConfig, contents: Contents, endpoint: Url) -> Result<(), ServicesError> {
    log::init(&config.log)?;
    let sdk = Sdk::new(Some(endpoint.clone()));
    let engine = Engine::open(&config.engine, sdk, &Clock::System).await?;
    let both = RegionDuties { ingest: true, node: true };
    let regions = config.regions.iter().map(|region| ServiceProcess::Region(Box::new(region.clone()), both));
    let mut running = Vec::new();
    for process in [ServiceProcess::Catalogue, ServiceProcess::Views].into_iter().chain(regions) {
        let instead = ServiceOverrides {
            engine: Some(engine.clone()),
            topics: Some(endpoint.clone()),
            ..ServiceOverrides::default()
        };
        let (config, contents) = (config.clone(), contents.clone());
        // On the heap: it is large.
        running.push(Box::pin(services::start(process, config, contents, &Origins::default(), instead)).await?);
    }
    own_process::stop_requested().await?;
    for service in running.into_iter().rev() {
        service.stop().await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::queue::ACCOUNT;
    use nearside::config::read;
    use nearside::config::services::{ServiceRole, load};

    #[test]
    fn generated_settings_files_are_valid() {
        let folder = tempfile::tempdir().unwrap();
        let addresses = Addresses::choose().unwrap();
        let topic = format!("arn:aws:sns:{REGION}:{ACCOUNT}:{NAME}");
        let file = write_settings(folder.path(), "kind = \"memory\"", &topic, &addresses).unwrap();
        let (config, _) = load(ServiceRole::Views, Some(&file), std::iter::empty()).unwrap();
        assert_eq!(config.regions[0].topic.as_ref().unwrap().arn, topic);
        assert_eq!(Contents::read(&config).unwrap().views[0].name, VIEW);
        let text = sidecar_settings("http://127.0.0.1:1", &topic, &addresses);
        let config = read::from_toml(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        assert_eq!(config.service.routes[0].records[0].record_type, VIEW);
    }
}
