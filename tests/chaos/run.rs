//! Owns one run: the stage is set, the script carried out under load, the history handed over.
//!
//! Before it: [`super::script`] made the plan. After it: [`super::check`] judges the [`History`].
//! Invariant: a fault is recorded from before its first effect until after its last; the same lane
//! never has two at once.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nearside::aws::sqs::PREFIX;
use nearside::tasks::Tasks;
use nearside_lab::chaos_server::port::Port;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::emulator::{Emulator, REGIONS};
use super::feed::{Feed, now};
use super::history::{At, History, SECOND, Window};
use super::load::{Load, Rates};
use super::processes::Process;
use super::proxy::{Proxy, Treatment};
use super::script::{Fault, Kind};

/// Records; each begins at version 1.
const KEYS: u32 = 300;
const RATES: Rates = Rates { reads: 550, writes: 6 };
/// Ingest lag of each region, milliseconds.
const LAGS: [u64; 3] = [20, 150, 600];
/// Longest wait for a process to answer.
const TIMEOUT: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Reads that follow a SIGCONT at once, of records that changed meanwhile.
const PROBES: usize = 64;
/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);
/// The long pause, and the quiet before and after it.
const LONG_PAUSE: (u64, Duration) = (90_000, Duration::from_secs(15));

type Failure = Box<dyn Error + Send + Sync>;

/// Everything that a fault can meet.
pub(crate) struct Stage {
    feed: Arc<Feed>,
    load: Arc<Load>,
    sidecar: Process,
    /// The sidecar dies and sleeps one at a time.
    sidecar_busy: Mutex<()>,
    regions: Vec<Process>,
    /// Between the sidecar and each region.
    proxies: Vec<Proxy>,
    /// Between each region and SNS.
    voices: Vec<Proxy>,
    /// Between the sidecar and SNS and SQS, all regions.
    ears: Proxy,
    emulator: &'static Emulator,
    topics: Vec<String>,
    _directory: TempDir,
}

/// Parameters of a run.
pub(crate) struct Order {
    pub(crate) seed: u64,
    pub(crate) minutes: u64,
    pub(crate) long_pause: bool,
}

/// Carries out `faults` and returns what happened.
pub(crate) async fn run(order: &Order, faults: Vec<Fault>) -> Result<History, Failure> {
    let tasks = Tasks::new();
    let stage = Arc::new(Stage::set(&tasks).await?);
    let over = tasks.stopping().child_token();
    let load = stage.load.clone().run(tasks.clone(), order.seed, RATES, over.clone());
    tasks.spawn("load", load);
    let begun = now();
    let progress = tasks.spawn("progress", progress(stage.feed.clone(), begun));
    let script = async {
        let faults = faults.into_iter().map(|fault| {
            let stage = stage.clone();
            tasks.spawn("fault", async move { stage.carry_out(fault, begun).await })
        });
        for fault in faults.collect::<Vec<_>>() {
            fault.await?.ok_or("a fault was cut short")?.map_err(|error| error.to_string())?;
        }
        sleep_until(begun, order.minutes * 60_000).await;
        if order.long_pause {
            tokio::time::sleep(LONG_PAUSE.1).await;
            let kind = Kind::SidecarStop;
            let fault = Fault { kind, at: 0, lasts: LONG_PAUSE.0, regions: Vec::new(), strength: 0 };
            stage.carry_out(fault, begun).await?;
            tokio::time::sleep(LONG_PAUSE.1).await;
        }
        Ok::<_, Failure>(())
    };
    let done = tokio::select! {
        done = script => done,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    progress.abort();
    over.cancel();
    done?;
    let ended = now();
    if stage.sidecar.has_ended() || stage.regions.iter().any(Process::has_ended) {
        return Err("a process ended by itself; see what it said".into());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let feed = stage.feed.clone();
    drop(stage);
    tasks.drain(Duration::from_secs(5)).await;
    let mut history = std::mem::take(&mut *feed.locked());
    history.span = (begun, ended);
    Ok(history)
}

#[expect(clippy::print_stdout, reason = "the driver speaks to its user")]
async fn progress(feed: Arc<Feed>, begun: At) {
    let mut before = 0;
    loop {
        tokio::time::sleep(PROGRESS).await;
        let history = feed.locked();
        let (reads, writes, faults) = (history.reads.len(), history.writes.len(), history.windows.len());
        let failed = history.reads.iter().filter(|read| read.got.is_err()).count();
        let rate = (reads - before) as u64 / PROGRESS.as_secs();
        before = reads;
        println!(
            "{:>4} s  {reads} reads ({rate}/s, {failed} without an answer, {} held back)  {writes} writes  {faults} \
             faults over",
            (now() - begun) / SECOND,
            history.held_back,
        );
    }
}

async fn sleep_until(begun: At, millis: u64) {
    let due = begun + millis * 1_000;
    tokio::time::sleep(Duration::from_micros(due.saturating_sub(now()))).await;
}

impl Stage {
    async fn set(tasks: &Tasks) -> Result<Self, Failure> {
        let emulator = tokio::task::spawn_blocking(Emulator::shared).await?;
        let aws = address_of(emulator)?;
        let directory = tempfile::tempdir()?;
        let (feed, feed_address) = Feed::start(KEYS, tasks).await?;
        let (mut proxies, mut voices, mut regions, mut topics) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let logs = Path::new(env!("CARGO_TARGET_TMPDIR"));
        for (index, name) in REGIONS.into_iter().enumerate() {
            let topic = emulator.topic(name, "chaos", 2).await.arn;
            let (port, voice) = (Port::hold(0)?, Proxy::start(aws, tasks).await?);
            proxies.push(Proxy::start(port.address(), tasks).await?);
            let arguments = [
                "region".to_owned(),
                format!("--index={index}"),
                format!("--port={}", port.address().port()),
                format!("--feed={feed_address}"),
                format!("--aws=http://{}", voice.address),
                format!("--topic={topic}"),
                format!("--lag={}", LAGS[index]),
            ];
            let log = logs.join(format!("chaos-{name}.log"));
            regions.push(Process::new(&std::env::current_exe()?, arguments.to_vec(), log, port));
            voices.push(voice);
            topics.push(topic);
        }
        let ears = Proxy::start(aws, tasks).await?;
        let (port, admin) = (Port::hold(0)?, Port::hold(0)?);
        let addresses = Addresses { tcp: port.address(), admin: admin.address(), aws: ears.address };
        let settings = settings(&proxies, &topics, &addresses, emulator, directory.path());
        let file = directory.path().join("nearside.toml");
        std::fs::write(&file, settings)?;
        let arguments = vec!["run".to_owned(), "--config".to_owned(), file.display().to_string()];
        let log = logs.join("chaos-sidecar.log");
        let sidecar = Process::new(Path::new(env!("CARGO_BIN_EXE_nearside")), arguments, log, port);
        let load = Arc::new(Load::new(feed.clone(), sidecar.address, &REGIONS)?);
        let sidecar_busy = Mutex::new(());
        let stage = Self {
            feed,
            load,
            sidecar,
            sidecar_busy,
            regions,
            proxies,
            voices,
            ears,
            emulator,
            topics,
            _directory: directory,
        };
        for index in 0..REGIONS.len() {
            stage.regions[index].start()?;
            stage.until_region_serves(index).await?;
        }
        stage.start_sidecar().await?;
        Ok(stage)
    }

    async fn until_region_serves(&self, region: usize) -> Result<(), Failure> {
        let serves = async {
            while !self.feed.serves(region) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        Ok(tokio::time::timeout(TIMEOUT, serves).await.map_err(|_| "a region did not start")?)
    }

    async fn start_sidecar(&self) -> Result<(), Failure> {
        self.sidecar.start()?;
        let accepts = async {
            while TcpStream::connect(self.sidecar.address).await.is_err() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        Ok(tokio::time::timeout(TIMEOUT, accepts).await.map_err(|_| "the sidecar did not start")?)
    }

    /// One fault, from its time to its end.
    async fn carry_out(&self, fault: Fault, begun: At) -> Result<(), Failure> {
        sleep_until(begun, fault.at).await;
        let from = now();
        match fault.kind {
            Kind::SidecarKill | Kind::SidecarStop => return self.meet_sidecar(fault).await,
            Kind::QueueDelete | Kind::TopicDelete => self.meet_topic(&fault).await?,
            _ => {
                for region in &fault.regions {
                    self.begin(&fault, *region);
                }
                let deaf = fault.kind == Kind::PollBlackhole;
                if deaf {
                    self.ears.set(Treatment::Blackhole);
                }
                tokio::time::sleep(Duration::from_millis(fault.lasts)).await;
                if deaf {
                    self.ears.set(Treatment::Pass);
                }
                for region in &fault.regions {
                    self.end(&fault, *region).await?;
                }
            }
        }
        self.over(fault, from);
        Ok(())
    }

    fn over(&self, fault: Fault, from: At) {
        let window = Window { kind: fault.kind, regions: fault.regions, from, until: now() };
        self.feed.locked().windows.push(window);
    }

    fn begin(&self, fault: &Fault, region: usize) {
        let (proxy, voice) = (&self.proxies[region], &self.voices[region]);
        let span = Duration::from_millis(fault.strength);
        match fault.kind {
            Kind::RegionKill => self.regions[region].kill(),
            Kind::RegionStop => self.regions[region].pause(true),
            Kind::RegionBlackhole => proxy.set(Treatment::Blackhole),
            Kind::RegionDelay => proxy.set(Treatment::Delay(span)),
            Kind::RegionDrip => proxy.set(Treatment::Drip),
            Kind::RegionCut => proxy.set(Treatment::Cut),
            Kind::PublishBlackhole => voice.set(Treatment::Blackhole),
            Kind::PublishDelay => voice.set(Treatment::Delay(span)),
            Kind::Drop => self.feed.drop_share(region, fault.strength),
            Kind::IngestStall => self.feed.stall(region, true),
            _ => {}
        }
    }

    async fn end(&self, fault: &Fault, region: usize) -> Result<(), Failure> {
        match fault.kind {
            Kind::RegionKill => {
                self.regions[region].start()?;
                self.until_region_serves(region).await?;
            }
            Kind::RegionStop => self.regions[region].pause(false),
            Kind::Drop => self.feed.drop_share(region, 0),
            Kind::IngestStall => self.feed.stall(region, false),
            Kind::PublishBlackhole | Kind::PublishDelay => self.voices[region].set(Treatment::Pass),
            _ => self.proxies[region].set(Treatment::Pass),
        }
        Ok(())
    }

    async fn meet_sidecar(&self, fault: Fault) -> Result<(), Failure> {
        let _alone = self.sidecar_busy.lock().await;
        let from = now();
        let written = self.feed.locked().writes.len();
        let lasts = Duration::from_millis(fault.lasts);
        if fault.kind == Kind::SidecarKill {
            self.load.life.fetch_add(1, Ordering::SeqCst);
            self.sidecar.kill();
            self.remove_queues().await;
            tokio::time::sleep(lasts).await;
            self.start_sidecar().await?;
        } else {
            self.sidecar.pause(true);
            tokio::time::sleep(lasts).await;
            self.sidecar.pause(false);
        }
        self.feed.locked().outages.push((from, now()));
        self.over(fault, from);
        // Whatever was under way: these ask now.
        let mut changed: Vec<u32> = self.feed.locked().writes[written..].iter().map(|write| write.key).collect();
        changed.sort_unstable();
        changed.dedup();
        let probes = changed.into_iter().take(PROBES).map(|key| self.load.read(key));
        futures_util::future::join_all(probes).await;
        Ok(())
    }

    async fn meet_topic(&self, fault: &Fault) -> Result<(), Failure> {
        for region in fault.regions.iter().copied() {
            if fault.kind == Kind::QueueDelete {
                self.remove_queues_of(region).await;
                continue;
            }
            let sns = self.emulator.sns(REGIONS[region]);
            sns.delete_topic().topic_arn(&self.topics[region]).send().await?;
            tokio::time::sleep(Duration::from_millis(fault.lasts)).await;
            let made = self.emulator.topic(REGIONS[region], "chaos", 2).await;
            assert_eq!(made.arn, self.topics[region], "a topic comes back under its name");
        }
        Ok(())
    }

    /// Removes queues that a killed sidecar leaves behind; in production the janitor does.
    async fn remove_queues(&self) {
        for (region, topic) in self.topics.iter().enumerate() {
            self.remove_queues_of(region).await;
            let sns = self.emulator.sns(REGIONS[region]);
            let listed = sns.list_subscriptions_by_topic().topic_arn(topic).send().await;
            // A topic that is away just now has none.
            for subscription in listed.map(|listed| listed.subscriptions.unwrap_or_default()).unwrap_or_default() {
                let _ = sns.unsubscribe().set_subscription_arn(subscription.subscription_arn).send().await;
            }
        }
    }

    async fn remove_queues_of(&self, region: usize) {
        let sqs = self.emulator.sqs(REGIONS[region]);
        let listed = sqs.list_queues().queue_name_prefix(PREFIX).send().await;
        for url in listed.map(|listed| listed.queue_urls.unwrap_or_default()).unwrap_or_default() {
            // It may be gone meanwhile.
            let _ = sqs.delete_queue().queue_url(url).send().await;
        }
    }
}

fn address_of(emulator: &Emulator) -> Result<SocketAddr, Failure> {
    let port = emulator.url().port().ok_or("the emulator's URL has a port")?;
    Ok(SocketAddr::from(([127, 0, 0, 1], port)))
}

/// Addresses that the sidecar listens on, and the one at which it finds SNS and SQS.
struct Addresses {
    tcp: SocketAddr,
    admin: SocketAddr,
    aws: SocketAddr,
}

/// The sidecar's configuration, as an operator would write it.
fn settings(
    proxies: &[Proxy],
    topics: &[String],
    addresses: &Addresses,
    emulator: &Emulator,
    directory: &Path,
) -> String {
    let mut text = "service.name = \"chaos\"\n".to_owned();
    for ((proxy, topic), name) in proxies.iter().zip(topics).zip(REGIONS) {
        let url = format!("http://{}", proxy.address);
        text += &format!("[[service.region]]\nname = \"{name}\"\nurl = \"{url}\"\ntopic = \"{topic}\"\n");
    }
    let (Addresses { tcp, admin, aws }, signer) = (addresses, emulator.url());
    let remembered = directory.join("remembered").display().to_string();
    text + &format!(
        "[[service.route]]\npath = \"/v1/contexts/{{key}}\"\nrecords = [\"context:{{key}}\"]\n\
         [listen]\ntcp = \"{tcp}\"\n[admin]\nlisten = \"{admin}\"\n[log]\nformat = \"json\"\n\
         [freshness]\nworst_lag = \"30s\"\nstate_file = \"{remembered}\"\n\
         [announcements]\nendpoint_url = \"http://{aws}\"\ninsecure_sns_signer = \"{signer}\"\n"
    )
}
