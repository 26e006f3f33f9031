//! The whole way from a writer to a sidecar's caller, as processes: catalogue, views and one region,
//! its topic, and the sidecar. On the embedded engine the three are one process, because a directory
//! is opened by one; its topic and queues are the harness's. On the emulator each is a process of
//! its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use url::Url;

use crate::app::process as own_process;
use crate::app::services::{self, Contents, Engine, RegionDuties, ServiceInstead, ServiceProcess, ServiceStartError};
use crate::aws::clients::Sdk;
use crate::config::scope::Origins;
use crate::config::services::ServicesConfig;
use crate::lab::bench::announcer::Announcer;
use crate::lab::bench::ground::{self, Ground};
use crate::lab::bench::process::{self, Running};
use crate::lab::bench::subject::SubjectError;
use crate::lab::bench::{fetch, sidecar};
use crate::lab::limits;
use crate::model::time::Clock;
use crate::telemetry::log;

pub(crate) const REGION: &str = "eu-west-1";
/// The record type that is written, and the view that is read.
pub(crate) const TYPE: &str = "tenant";
pub(crate) const VIEW: &str = "limits";
/// The topic, and how the names of the tables begin.
const NAME: &str = "bench";
const VIEWS: &str =
    "[[view]]\nname = \"limits\"\ndefinition = 1\nfrom = \"tenant\"\n[view.fields]\nusers = \"/users\"\n";
/// Where the emulator lies, below the repository's root, and who says so.
const EMULATOR: (&str, &str) = ("target/emulator", "tests/emulator/run.sh");

/// Where its parts answer. Its processes end with it, the sidecar first: it removes its queue from
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

/// Where each listens; chosen before anything starts.
struct Addresses {
    catalogue: SocketAddr,
    node: SocketAddr,
    sidecar: SocketAddr,
    admins: [SocketAddr; 4],
}

impl Addresses {
    fn choose() -> Result<Self, SubjectError> {
        let free = || process::free_port().map_err(SubjectError::from);
        Ok(Self { catalogue: free()?, node: free()?, sidecar: free()?, admins: [free()?, free()?, free()?, free()?] })
    }
}

/// On redb, with SNS and SQS by `announcer`.
pub(crate) fn embedded(ground: &Ground, announcer: &Announcer) -> Result<Deployment, SubjectError> {
    let (folder, addresses) = (ground.folder("embedded")?, Addresses::choose()?);
    let endpoint = announcer.announcing.endpoint.clone();
    let topic = own_process::block_on(create_topic(&endpoint)).map_err(unable)??;
    let engine = format!("kind = \"embedded\"\ndirectory = \"{}\"", folder.join("data").display());
    let file = write_settings(&folder, &engine, &topic, &addresses)?;
    let arguments = ["bench", "services", "--config", &path(&file), "--endpoint", &endpoint];
    let services = process::start(&ground.program, arguments, ground.core, &folder)?;
    finish(ground, vec![services], &addresses, &endpoint, topic)
}

/// On the AWS emulator of the tests.
pub(crate) fn emulated(ground: &Ground, emulator: &Emulator) -> Result<Deployment, SubjectError> {
    let Emulator { venv, script } = emulator;
    let (folder, addresses) = (ground.folder("emulator")?, Addresses::choose()?);
    let at = process::free_port()?;
    let arguments = [path(venv), at.port().to_string()];
    let mut emulator = process::start_piped(script, arguments, ground.own_core, &folder)?;
    emulator.wait_until(|| fetch::page(at, "/_localemu/health").ok())?;
    // As it spells itself in the URLs of certificates.
    let endpoint = format!("http://localhost:{}", at.port());
    let engine = format!("kind = \"aws\"\nregion = \"{REGION}\"\nprefix = \"{NAME}\"\nendpoint_url = \"{endpoint}\"");
    let topic = format!("arn:aws:sns:{REGION}:000000000000:{NAME}");
    let file = path(&write_settings(&folder, &engine, &topic, &addresses)?);
    let done = std::process::Command::new(&ground.program).args(["setup", "--config", &file]).output();
    let done = done.map_err(unable)?;
    if !done.status.success() {
        return Err(unable(String::from_utf8_lossy(&done.stderr).trim()));
    }
    let mut processes = Vec::new();
    for command in ["catalogue", "views", "region"] {
        let (keeper, arguments) = (Some(ground.program.as_path()), [command, "--config", &file]);
        processes.push(process::start_held(keeper, &ground.program, arguments, ground.core, &folder)?);
    }
    processes.push(emulator);
    finish(ground, processes, &addresses, &endpoint, topic)
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
    ground: &Ground,
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
    let folder = ground.folder("sidecar")?;
    let file = folder.join("nearside.toml");
    ground::write(&file, &sidecar_settings(endpoint, &topic, addresses))?;
    let arguments = ["bench", "sidecar", "--config", &path(&file)];
    let mut sidecar = process::start(&ground.program, arguments, ground.core, &folder)?;
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
    ground::write(&views, VIEWS)?;
    ground::write(
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

/// Serves as all of the file's processes on one engine until the process is told to stop.
pub(crate) async fn serve(config: ServicesConfig, contents: Contents, endpoint: Url) -> Result<(), ServicesError> {
    log::init(&config.log)?;
    let sdk = Sdk::new(Some(endpoint.clone()));
    let engine = Engine::open(&config.engine, sdk, &Clock::System).await?;
    let both = RegionDuties { ingest: true, node: true };
    let regions = config.regions.iter().map(|region| ServiceProcess::Region(Box::new(region.clone()), both));
    let mut running = Vec::new();
    for process in [ServiceProcess::Catalogue, ServiceProcess::Views].into_iter().chain(regions) {
        let instead = ServiceInstead {
            engine: Some(engine.clone()),
            topics: Some(endpoint.clone()),
            ..ServiceInstead::default()
        };
        let (config, contents) = (config.clone(), contents.clone());
        // On the heap: it is large.
        running.push(Box::pin(services::start(process, config, contents, &Origins::default(), instead)).await?);
    }
    own_process::told_to_stop().await?;
    for service in running.into_iter().rev() {
        service.stop().await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use crate::config::services::{ServiceRole, load};
    use crate::lab::aws::queue::ACCOUNT;

    #[test]
    fn the_generated_files_are_ones() {
        let folder = tempfile::tempdir().unwrap();
        let addresses = Addresses::choose().unwrap();
        let topic = format!("arn:aws:sns:{REGION}:{ACCOUNT}:{NAME}");
        let file = write_settings(folder.path(), "kind = \"memory\"", &topic, &addresses).unwrap();
        let (config, _) = load(ServiceRole::Views, Some(&file), std::iter::empty()).unwrap();
        assert_eq!(config.regions[0].topic.as_ref().unwrap().arn, topic);
        assert_eq!(Contents::read(&config).unwrap().views[0].name, VIEW);
        let text = sidecar_settings("http://127.0.0.1:1", &topic, &addresses);
        let config = read::from_toml(&text).unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{text}"));
        assert_eq!(config.service.routes[0].records[0].record_type, VIEW);
    }
}
