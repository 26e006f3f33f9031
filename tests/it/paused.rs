//! SIGSTOP: a process that slept through changes, announced or not. What it serves first when it
//! wakes is fresh, or says that it may not be (R9, R10).

use std::time::Duration;

use futures_util::future::join_all;
use nearside::model::time::{Clock, Moment};
use nearside_lab::chaos_server::chaos::ChaosOrder;
use nearside_lab::chaos_server::port::Port;
use rustix::process::Signal;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::announced::until;
use super::program::{Program, TIMEOUT, settings};
use super::wire::{Message, read_message, request};
use crate::world::World;

/// Length of the stop: beyond every lease and grade of proof.
const PAUSE: Duration = Duration::from_secs(90);
/// Records; every third is changed and announced during the pause, every third is changed and
/// Number of records; every third is changed and announced during the pause, every third is changed
/// unannounced.
const RECORDS: usize = 24;

/// A sidecar of its own world, over one transport.
struct Sleeper {
    world: World,
    program: Program,
    transport: &'static str,
    /// Port that SNS posts to: held, so that nobody else is given it before the sidecar listens
    /// there.
    _posted_to: Port,
}

/// Answer to the first read of a record.
struct First {
    answer: Message,
    after: Duration,
}

impl First {
    async fn read(mut stream: TcpStream, woken: Moment) -> Self {
        let answer = read_message(&mut stream, false).await.expect("an answer");
        Self { answer, after: Clock::System.now() - woken }
    }

    fn is_fresh(&self, record: usize) -> bool {
        version_of(&self.answer) == if is_changed(record) { 2 } else { 1 }
    }
}

/// Runs `doing`; panics, naming `what`, when it takes longer than `limit`.
async fn within<T>(limit: Duration, what: &str, doing: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, doing).await.unwrap_or_else(|_| panic!("{what} stood still for {limit:?}"))
}

fn key(record: usize) -> String {
    format!("tenant-{}", record + 1)
}

fn is_changed(record: usize) -> bool {
    !record.is_multiple_of(3)
}

/// The answer says why it may not be fresh: a word that is no region's name.
fn is_labelled(world: &World, answer: &Message) -> bool {
    answer.parameter("detail").is_some_and(|detail| world.regions.iter().all(|region| region.name != detail))
}

impl Sleeper {
    /// LIVE, and every record a confirmed hit.
    async fn start(transport: &'static str) -> Self {
        let world = World::builder().records(RECORDS).heartbeat(Duration::from_secs(1)).start().await.unwrap();
        let port = Port::hold(0).unwrap();
        let base = &world.aws.base;
        let mut rest = format!(
            "[drain]\nlinger = \"0s\"\ndeadline = \"5s\"\n[announcements]\ntransport = \"{transport}\"\n\
             endpoint_url = \"{base}\"\ninsecure_sns_signer = \"{base}\"\n"
        );
        if transport == "http" {
            let listen = port.address();
            rest += &format!("http_listen = \"{listen}\"\nhttp_public_url = \"http://{listen}/in\"\n");
        }
        let urls: Vec<_> = world.regions.iter().map(|region| region.url()).collect();
        let regions: Vec<_> = world.regions.iter().zip(&urls).collect();
        let reported: Vec<_> = regions
            .iter()
            .map(|(region, url)| (region.name.as_str(), url.as_str(), region.publisher.topic()))
            .collect();
        let program = Program::start(&settings(&format!("paused-{transport}"), &reported, &rest)).await;
        let sleeper = Self { world, program, transport, _posted_to: port };
        sleeper.program.until("/readyz", |page| page["state"] == "fresh").await;
        for record in 0..RECORDS {
            until("a confirmed hit", async || sleeper.is_plain_hit(record, 1).await).await;
        }
        sleeper
    }

    async fn is_plain_hit(&self, record: usize, version: u64) -> bool {
        let answer = self.read(record).await;
        answer.is_hit() && answer.parameter("detail").is_none() && version_of(&answer) == version
    }

    /// A connection on which a read was asked for and not yet answered.
    async fn ask(&self, record: usize) -> TcpStream {
        let mut stream = TcpStream::connect(self.program.tcp).await.unwrap();
        let target = format!("/v1/contexts/{}", key(record));
        stream.write_all(&request("GET", &target, &[], b"")).await.unwrap();
        stream
    }

    async fn read(&self, record: usize) -> Message {
        read_message(&mut self.ask(record).await, false).await.expect("an answer")
    }

    async fn change(&self, chosen: impl Fn(usize) -> bool) {
        for record in (0..RECORDS).filter(|record| chosen(*record)) {
            self.world.catalogue.put(&key(record), "{\"changed\":true}").unwrap();
        }
        within(TIMEOUT, "the ingest of changes", self.world.ingested()).await;
    }

    async fn mute(&self, mute: bool) {
        for region in self.world.regions.iter() {
            assert!(self.world.obey(&region.name, ChaosOrder::Mute(mute)).await);
        }
    }

    /// Makes the changes that happen while it is stopped.
    async fn sleep_through_changes(&self) {
        self.program.signal(Signal::STOP);
        let stopped = Clock::System.now();
        self.change(|record| record % 3 == 1).await;
        self.mute(true).await;
        self.change(|record| record % 3 == 2).await;
        self.mute(false).await;
        // The pause is the subject: nothing is waited for but its end.
        tokio::time::sleep(PAUSE.saturating_sub(Clock::System.now() - stopped)).await;
    }

    /// Half of the reads wait for it when it wakes, the other half come right after.
    async fn wake(&self) -> Vec<First> {
        let (early, late) = (0..RECORDS / 2, RECORDS / 2..RECORDS);
        let waiting = join_all(early.map(|record| self.ask(record))).await;
        let woken = Clock::System.now();
        self.program.signal(Signal::CONT);
        let waited = join_all(waiting.into_iter().map(|stream| First::read(stream, woken)));
        let came = join_all(late.map(async |record| First::read(self.ask(record).await, woken).await));
        let (mut firsts, came) = futures_util::future::join(waited, came).await;
        firsts.extend(came);
        firsts
    }

    async fn recovers(&self) {
        self.program.until("/readyz", |page| page["state"] == "fresh").await;
        for record in 0..RECORDS {
            let version = if is_changed(record) { 2 } else { 1 };
            until("a confirmed hit again", async || self.is_plain_hit(record, version).await).await;
        }
    }

    async fn sleeps_and_wakes(mut self) {
        within(PAUSE + TIMEOUT, "the pause", self.sleep_through_changes()).await;
        let firsts = within(TIMEOUT, "a first read", self.wake()).await;
        println!(
            "{}: stopped for {PAUSE:?}; of {RECORDS} first reads {} were fresh, {} labelled, {} plain hits; the last came \
             after {:?}",
            self.transport,
            firsts.iter().enumerate().filter(|(record, first)| first.is_fresh(*record)).count(),
            firsts.iter().filter(|first| is_labelled(&self.world, &first.answer)).count(),
            firsts.iter().filter(|first| first.answer.is_hit()).count(),
            firsts.iter().map(|first| first.after).max().unwrap()
        );
        for (record, first) in firsts.iter().enumerate() {
            let sound = first.is_fresh(record) || is_labelled(&self.world, &first.answer);
            assert!(sound, "{record}: {:?}", first.answer);
        }
        // And it recovers by itself.
        within(2 * TIMEOUT, "the recovery", self.recovers()).await;
        self.program.signal(Signal::TERM);
        assert!(within(TIMEOUT, "the end", self.program.ended()).await.success());
        within(TIMEOUT, "the end of the world", self.world.stop(Duration::from_secs(5))).await;
    }
}

fn version_of(answer: &Message) -> u64 {
    answer.header("x-record-version").parse().unwrap_or_default()
}

/// Criterion: a SIGSTOP of 90 s with changes meanwhile. Both transports sleep at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigstop_reads_are_fresh_or_labelled() {
    let starting = futures_util::future::join(Sleeper::start("sqs"), Sleeper::start("http"));
    let (sqs, http) = within(2 * TIMEOUT, "the start", starting).await;
    futures_util::future::join(sqs.sleeps_and_wakes(), http.sleeps_and_wakes()).await;
}
