//! The half on redb: `nearside-lab dev --data`, all roles in one process, and a sidecar of its own
//! beside it.

use std::path::PathBuf;
use std::time::Duration;

use nearside::model::time::Clock;
use nearside_lab::TOPIC;
use nearside_lab::chaos_server::port::Port;
use tempfile::TempDir;

use super::Failure;
use super::emulator::REGIONS;
use super::field::{Field, Order, Verdict};
use super::files;
use super::plan::{Kill, plan};
use super::process::{DEV, Process};
use super::readers::Sidecar;
use super::settle;

const HALF: &str = "embedded";
/// Share of the kills that hits the sidecar beside `dev`.
const SIDECARS_PART: f64 = 0.2;
/// A start, and how many a process may give up in a row: `dev` waits 8 s for its parts.
const START: Duration = Duration::from_secs(120);
const STARTS: usize = 4;
const STOP: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

struct World {
    dev: Process,
    /// Beside it.
    sidecar: Process,
    /// Port of that sidecar.
    port: Port,
    /// The addresses that its file names.
    known: Vec<String>,
    directory: TempDir,
}

pub(crate) async fn run(order: Order) -> Result<Verdict, Failure> {
    let inside = Sidecar::new("dev's sidecar")?;
    let beside = Sidecar::new("the one beside")?;
    let field = Field::new(HALF, order, vec![inside, beside])?;
    let mut world = World::new()?;
    world.start(&field, None).await?;
    field.begin();
    for kill in plan(order.seed, order.kills, order.writes) {
        field.until_written(kill.after_writes, || Ok(())).await?;
        tokio::time::sleep(kill.and_then).await;
        world.carry_out(&field, &kill).await?;
    }
    field.until_written(order.writes, || Ok(())).await?;
    field.end_writing().await;
    let mut verdict = field.settle().await?;
    // Its tables are one process's at a time.
    let code = world.dev.interrupt(STOP).await;
    if code != Some(0) {
        return Err(format!("dev ended with {code:?}: {}", world.dev.last_words()).into());
    }
    match settle::verify(HALF, &world.service_file()?, "0s").await {
        Ok(said) => field.figures().verified = said,
        Err(error) => verdict = Verdict { is_kept: false, reported: format!("{}\n{error}", verdict.reported) },
    }
    super::field::say(&field.summary());
    Ok(verdict)
}

impl World {
    fn new() -> Result<Self, Failure> {
        let directory = tempfile::tempdir()?;
        let data = directory.path().join("data");
        let arguments = [DEV, "--no-story", "--access", "off", "--data", files::text(&data)?].map(str::to_owned);
        let file = directory.path().join("nearside.toml");
        let run = ["run", "--config", files::text(&file)?].map(str::to_owned);
        Ok(Self {
            dev: Process::new(HALF, DEV, DEV, arguments.into()),
            sidecar: Process::new(HALF, "sidecar", "sidecar", run.into()),
            port: Port::hold(0)?,
            known: Vec::new(),
            directory,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    async fn carry_out(&mut self, field: &Field, kill: &Kill) -> Result<(), Failure> {
        if kill.victim >= SIDECARS_PART {
            field.kill(&mut self.dev);
            tokio::time::sleep(kill.down).await;
            return self.start(field, kill.while_starting).await;
        }
        field.kill(&mut self.sidecar);
        tokio::time::sleep(kill.down).await;
        if let Some(after) = kill.while_starting {
            field.sidecars[1].begins_anew();
            self.sidecar.start()?;
            tokio::time::sleep(after).await;
            field.kill(&mut self.sidecar);
        }
        self.start_sidecar(field).await
    }

    /// Starts `dev`, and the sidecar beside it where it has to; kills it on the way if that is
    /// wanted.
    async fn start(&mut self, field: &Field, kill_after: Option<Duration>) -> Result<(), Failure> {
        if let Some(after) = kill_after {
            field.sidecars[0].begins_anew();
            self.dev.start()?;
            tokio::time::sleep(after).await;
            field.kill(&mut self.dev);
        }
        for _ in 0..STARTS {
            field.sidecars[0].begins_anew();
            self.dev.start()?;
            if until_said(&mut self.dev, "Subscribed").await? {
                field.ready()("dev", Clock::System.now() - self.dev.started);
                return self.follow(field).await;
            }
            field.figures().given_up.push(self.dev.last_words());
        }
        Err(format!("dev gave up starting {STARTS} times: {}", self.dev.last_words()).into())
    }

    /// Takes the addresses from what `dev` says. They stay, unless others took its ports meanwhile.
    async fn follow(&mut self, field: &Field) -> Result<(), Failure> {
        let said = self.dev.said();
        field.write_log.moved(&address_of("catalogue ", &said)?);
        field.sidecars[0].moved(&address_of("sidecar ", &said)?);
        let names = [&["SNS and SQS "][..], &REGIONS].concat();
        let addresses = names.into_iter().map(|name| address_of(name, &said)).collect::<Result<Vec<_>, _>>()?;
        if addresses == self.known && self.sidecar.is_up() {
            return Ok(());
        }
        self.known = addresses;
        let regions = REGIONS.iter().zip(&self.known[1..]);
        let regions: Vec<_> = regions
            .map(|(name, at)| (*name, at.clone(), format!("arn:aws:sns:{name}:000000000000:{TOPIC}")))
            .collect();
        let (listen, aws) = (self.port.address().to_string(), format!("http://{}", self.known[0]));
        std::fs::write(self.path("nearside.toml"), files::sidecar(&listen, "127.0.0.1:0", &aws, &regions))?;
        self.sidecar.kill();
        field.sidecars[1].moved(&listen);
        self.start_sidecar(field).await
    }

    async fn start_sidecar(&mut self, field: &Field) -> Result<(), Failure> {
        field.sidecars[1].begins_anew();
        self.sidecar.start()?;
        if !until_said(&mut self.sidecar, "\"serving\"").await? {
            return Err(format!("the sidecar ended: {}", self.sidecar.last_words()).into());
        }
        field.ready()("sidecar", Clock::System.now() - self.sidecar.started);
        Ok(())
    }

    /// Service file for `nearside verify`.
    fn service_file(&self) -> Result<String, Failure> {
        let engine = format!("kind = \"embedded\"\ndirectory = \"{}\"", files::text(&self.path("data"))?);
        let regions: Vec<_> = REGIONS.iter().map(|name| files::Region::new(name, TOPIC)).collect();
        let file = files::service(self.directory.path(), "service", &engine, None, None, &regions)?;
        Ok(files::text(&file)?.to_owned())
    }
}

/// Address that `dev` says something has.
fn address_of(name: &str, said: &str) -> Result<String, String> {
    let line = said.lines().find_map(|line| line.trim_start().strip_prefix(name));
    let url = line.and_then(|line| line.split_whitespace().find(|word| word.starts_with("http://")));
    url.map(|url| url.trim_start_matches("http://").to_owned()).ok_or(format!("dev names no {name}"))
}

/// Waits until it has printed `word`; false once it has ended.
async fn until_said(process: &mut Process, word: &str) -> Result<bool, Failure> {
    let end = Clock::System.now() + START;
    while Clock::System.now() < end {
        if process.said().contains(word) {
            return Ok(true);
        }
        if process.ended().is_some() {
            return Ok(false);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(format!("{} was not ready in {START:?}: {}", process.name, process.last_words()).into())
}
