//! The half on the AWS emulator: each role a process, two ingesters and two sidecars among them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nearside::model::time::{Clock, Moment};
use nearside::tasks::on_blocking_pool;
use nearside_lab::chaos_server::port::Port;
use tempfile::TempDir;

use super::Failure;
use super::emulator::{Emulator, REGIONS};
use super::field::{Field, Order, Verdict, say};
use super::files::{self, Region};
use super::plan::{Kill, plan};
use super::process::Process;
use super::readers::Sidecar;
use super::settle;
use super::writers::client;

const HALF: &str = "emulated";
const PREFIX: &str = "kills";
const SETUP: Duration = Duration::from_secs(120);
/// Until it says that it is ready.
const START: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Most unplanned exits of all processes together: a port may be taken once.
const GIVEN_UP: usize = 3;

/// One process, and what is planned for it.
struct Member {
    process: Process,
    admin: Port,
    listen: Option<Port>,
    sidecar: Option<Arc<Sidecar>>,
    start_at: Option<Moment>,
    kill_after_start: Option<Duration>,
    kill_at: Option<Moment>,
    /// Which start it is: who waits for an earlier one gives up.
    starts: Arc<AtomicU64>,
}

struct Deployment {
    members: Vec<Member>,
    service_file: String,
    _directory: TempDir,
}

pub(crate) async fn run(order: Order) -> Result<Verdict, Failure> {
    let emulator = on_blocking_pool(Emulator::shared).await.ok_or("the emulator does not start")?;
    let aws = emulator.url().as_str().trim_end_matches('/').to_owned();
    let sidecars = vec![Sidecar::new("sidecar-1")?, Sidecar::new("sidecar-2")?];
    let field = Field::new(HALF, order, sidecars)?;
    let mut deployment = Deployment::new(&field, &aws).await?;
    deployment.start_all(&field).await?;
    field.begin();
    for kill in plan(order.seed, order.kills, order.writes) {
        field.until_written(kill.after_writes, || deployment.look_after(&field)).await?;
        deployment.wait(&field, kill.and_then).await?;
        deployment.carry_out(&field, &kill).await?;
    }
    field.until_written(order.writes, || deployment.look_after(&field)).await?;
    while deployment.members.iter().any(|member| !member.process.is_up() || member.kill_at.is_some()) {
        deployment.wait(&field, LOOK_EVERY).await?;
    }
    field.end_writing().await;
    let mut verdict = field.settle().await?;
    deployment.look_after(&field)?;
    match settle::verify(HALF, &deployment.service_file, "30s").await {
        Ok(said) => field.figures().verified = said,
        Err(error) => verdict = Verdict { is_kept: false, reported: format!("{}\n{error}", verdict.reported) },
    }
    say(&field.summary());
    Ok(verdict)
}

impl Member {
    fn new(name: &str, role: &'static str, arguments: Vec<String>, admin: Port, listen: Option<Port>) -> Self {
        Self {
            process: Process::new(HALF, name, role, arguments),
            admin,
            listen,
            sidecar: None,
            start_at: None,
            kill_after_start: None,
            kill_at: None,
            starts: Arc::default(),
        }
    }

    /// True if it is up and not to be killed yet.
    fn is_free(&self) -> bool {
        self.process.is_up() && self.kill_at.is_none()
    }

    fn start(&mut self, field: &Field) -> Result<(), Failure> {
        if let Some(sidecar) = &self.sidecar {
            sidecar.begins_anew();
        }
        self.process.start()?;
        (self.start_at, self.kill_at) =
            (None, self.kill_after_start.take().map(|after| self.process.started + after));
        let (starts, url) = (self.starts.clone(), format!("http://{}/readyz", self.admin.address()));
        let this = starts.fetch_add(1, Ordering::Relaxed) + 1;
        let (role, since, ready) = (self.process.role, self.process.started, field.ready());
        let client = client(Duration::from_secs(5))?;
        field.tasks().spawn("until-ready", async move {
            while starts.load(Ordering::Relaxed) == this && Clock::System.now() - since < START {
                if client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
                    return ready(role, Clock::System.now() - since);
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        Ok(())
    }

    fn kill(&mut self, field: &Field) {
        field.kill(&mut self.process);
        self.kill_at = None;
        self.starts.fetch_add(1, Ordering::Relaxed);
    }
}

impl Deployment {
    /// Creates the tables, streams and topics, and writes a file for each process.
    async fn new(field: &Field, aws: &str) -> Result<Self, Failure> {
        let directory = tempfile::tempdir()?;
        let engine =
            format!("kind = \"aws\"\nregion = \"{}\"\nprefix = \"{PREFIX}\"\nendpoint_url = \"{aws}\"", REGIONS[0]);
        let regions: Vec<_> = REGIONS.iter().map(|name| Region::new(name, PREFIX)).collect();
        let whole = files::service(directory.path(), "service", &engine, None, None, &regions)?;
        let service_file = files::text(&whole)?.to_owned();
        let arguments = ["setup", "--config", &service_file].map(str::to_owned);
        let mut setup = Process::new(HALF, "setup", "setup", arguments.into());
        setup.start()?;
        if setup.until_ended(SETUP).await != Some(0) {
            return Err(format!("nearside setup: {}", setup.said()).into());
        }
        let mut deployment = Self { members: Vec::new(), service_file, _directory: directory };
        deployment.add_home(field, &engine, &regions)?;
        for (at, name, roles) in [
            (0, "ingest-a", &["--role", "ingest"][..]),
            (0, "ingest-b", &["--role", "ingest"]),
            (0, "node", &["--role", "node"]),
            (1, "region", &[]),
            (2, "region", &[]),
        ] {
            deployment.add_region(at, name, roles, &engine, &regions)?;
        }
        deployment.add_sidecars(field, aws, &regions)?;
        Ok(deployment)
    }

    fn directory(&self) -> &std::path::Path {
        self._directory.path()
    }

    fn add_home(&mut self, field: &Field, engine: &str, regions: &[Region]) -> Result<(), Failure> {
        let (listen, admin) = (Port::hold(0)?, Port::hold(0)?);
        let places = (&*listen.address().to_string(), &*admin.address().to_string());
        field.write_log.moved(places.0);
        let file = files::service(self.directory(), "catalogue", engine, Some(places), None, regions)?;
        let arguments = ["catalogue", "--config", files::text(&file)?].map(str::to_owned);
        self.members.push(Member::new("catalogue", "catalogue", arguments.into(), admin, Some(listen)));
        let admin = Port::hold(0)?;
        let file =
            files::service(self.directory(), "views", engine, None, Some(&admin.address().to_string()), regions)?;
        let arguments = ["views", "--config", files::text(&file)?].map(str::to_owned);
        self.members.push(Member::new("views", "views", arguments.into(), admin, None));
        Ok(())
    }

    fn add_region(
        &mut self,
        at: usize,
        role: &'static str,
        roles: &[&str],
        engine: &str,
        regions: &[Region],
    ) -> Result<(), Failure> {
        let (listen, admin) = (Port::hold(0)?, Port::hold(0)?);
        let mut regions = regions.to_vec();
        regions[at] = regions[at].at(&listen.address().to_string(), &admin.address().to_string());
        let name = format!("{}-{role}", REGIONS[at]);
        let file = files::service(self.directory(), &name, engine, None, None, &regions)?;
        let arguments = [&["region", "--config", files::text(&file)?, "--name", REGIONS[at]][..], roles].concat();
        let arguments = arguments.into_iter().map(str::to_owned).collect();
        let listen = (roles != ["--role", "ingest"]).then_some(listen);
        let role = if role.starts_with("ingest") { "ingest" } else { role };
        self.members.push(Member::new(&name, role, arguments, admin, listen));
        Ok(())
    }

    fn add_sidecars(&mut self, field: &Field, aws: &str, regions: &[Region]) -> Result<(), Failure> {
        let nodes = self.members.iter().filter(|member| ["node", "region"].contains(&member.process.role));
        let nodes = nodes.filter_map(|member| member.listen.as_ref()).map(|port| port.address().to_string());
        let nodes: Vec<_> = nodes.zip(regions).zip(REGIONS).collect();
        let nodes: Vec<_> =
            nodes.into_iter().map(|((at, region), name)| (name, at, region.topic().to_owned())).collect();
        for sidecar in &field.sidecars {
            let (listen, admin) = (Port::hold(0)?, Port::hold(0)?);
            let places = (listen.address().to_string(), admin.address().to_string());
            let file = self.directory().join(format!("{}.toml", sidecar.name));
            std::fs::write(&file, files::sidecar(&places.0, &places.1, aws, &nodes))?;
            let arguments = ["run", "--config", files::text(&file)?].map(str::to_owned);
            sidecar.moved(&places.0);
            let mut member = Member::new(&sidecar.name, "sidecar", arguments.into(), admin, Some(listen));
            member.sidecar = Some(sidecar.clone());
            self.members.push(member);
        }
        Ok(())
    }

    /// Starts everything, and waits until it is ready.
    async fn start_all(&mut self, field: &Field) -> Result<(), Failure> {
        for member in &mut self.members {
            member.start(field)?;
        }
        let end = Clock::System.now() + START;
        while field.tasks().running().get("until-ready").is_some_and(|count| *count > 0) {
            self.wait(field, LOOK_EVERY).await?;
        }
        if Clock::System.now() >= end {
            return Err(format!("not everything was ready in {START:?}").into());
        }
        Ok(())
    }

    /// Starts who has been down for long enough, and kills who is to be killed while it starts.
    fn look_after(&mut self, field: &Field) -> Result<(), Failure> {
        let now = Clock::System.now();
        for member in &mut self.members {
            if member.process.ended().is_some() {
                let end = format!("{} ended by itself: {}", member.process.name, member.process.last_words());
                let mut figures = field.figures();
                figures.given_up.push(end);
                if figures.given_up.len() > GIVEN_UP {
                    return Err(figures.given_up.join("\n").into());
                }
                member.start_at = Some(now);
            }
            if member.kill_at.is_some_and(|at| now >= at) {
                member.kill(field);
                member.start_at = Some(now);
            }
            if member.start_at.is_some_and(|at| now >= at) {
                member.start(field)?;
            }
        }
        Ok(())
    }

    async fn wait(&mut self, field: &Field, span: Duration) -> Result<(), Failure> {
        let end = Clock::System.now() + span;
        while Clock::System.now() < end {
            self.look_after(field)?;
            tokio::time::sleep(LOOK_EVERY.min(span)).await;
        }
        Ok(())
    }

    /// Kills one of those that are up.
    async fn carry_out(&mut self, field: &Field, kill: &Kill) -> Result<(), Failure> {
        while !self.members.iter().any(Member::is_free) {
            self.wait(field, LOOK_EVERY).await?;
        }
        let mut up: Vec<_> = self.members.iter_mut().filter(|member| member.is_free()).collect();
        let victim = ((up.len() as f64 * kill.victim) as usize).min(up.len() - 1);
        let member = &mut up[victim];
        member.kill(field);
        member.start_at = Some(Clock::System.now() + kill.down);
        member.kill_after_start = kill.while_starting;
        Ok(())
    }
}
