//! Owns the source of truth: the log of writes, and the lines by which region processes follow it.
//!
//! Before it: [`super::load`] writes. After it: [`super::region`], in its own process, reads
//! `base`, `again`, `change`, `through`, `drop` and answers `ingested`, `announced`, `dropped`.
//! Invariant: `through W` is sent when every change up to the wall time W was; a region that comes
//! back is given what it had ingested before, quietly, and ordered to announce again what it may
//! not have.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearside::model::time::Clock;
use nearside::tasks::Tasks;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};

use super::history::{At, History, Progress, Write};
use super::script::REGIONS;

/// Between two looks at the log.
const LOOK: Duration = Duration::from_millis(20);

/// The driver's books; shared by all its tasks.
pub(crate) struct Feed {
    pub(crate) history: Mutex<History>,
    /// Number of records; each begins at version 1.
    pub(crate) keys: u32,
    stalled: [AtomicBool; REGIONS],
    dropping: [AtomicU64; REGIONS],
    serving: [AtomicBool; REGIONS],
}

/// Now, on the clock of the history.
pub(crate) fn now() -> At {
    Clock::System.now().as_nanos() / 1_000
}

impl Feed {
    /// Serves the log; the address is for the regions.
    pub(crate) async fn start(keys: u32, tasks: &Tasks) -> std::io::Result<(Arc<Self>, SocketAddr)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let feed = Self {
            history: Mutex::default(),
            keys,
            stalled: Default::default(),
            dropping: Default::default(),
            serving: Default::default(),
        };
        let feed = Arc::new(feed);
        let (shared, spawner) = (feed.clone(), tasks.clone());
        tasks.spawn("feed", async move {
            while let Some(Ok((stream, _))) = spawner.stopping().run_until_cancelled(listener.accept()).await {
                let (feed, stopping) = (shared.clone(), spawner.stopping());
                spawner.spawn("fed", async move { stopping.run_until_cancelled(feed.follow(stream)).await });
            }
        });
        Ok((feed, address))
    }

    /// The next version of `key`.
    pub(crate) fn write(&self, key: u32) {
        let mut history = self.locked();
        history.writes.push(Write { at: now(), key });
    }

    /// The region ingests nothing while `stalled`.
    pub(crate) fn stall(&self, region: usize, stalled: bool) {
        self.stalled[region].store(stalled, Ordering::Relaxed);
    }

    /// So many of a hundred announcements of a region are lost.
    pub(crate) fn drop_share(&self, region: usize, percent: u64) {
        self.dropping[region].store(percent, Ordering::Relaxed);
    }

    /// True if the region's port is open.
    pub(crate) fn serves(&self, region: usize) -> bool {
        self.serving[region].load(Ordering::Relaxed)
    }

    pub(crate) fn locked(&self) -> MutexGuard<'_, History> {
        // What is recorded stays true even after a panic.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One region process, from its `hello` to its end.
    async fn follow(&self, stream: TcpStream) {
        let (from, mut to) = stream.into_split();
        let mut lines = BufReader::new(from).lines();
        let Ok(Some(hello)) = lines.next_line().await else { return };
        let Some(region) = hello.strip_prefix("hello ").and_then(|index| index.parse::<usize>().ok()) else { return };
        let hearing = async {
            while let Ok(Some(line)) = lines.next_line().await {
                self.hear(region, &line);
            }
        };
        tokio::select! {
            () = hearing => {}
            _ = self.tell(region, &mut to) => {}
        }
        self.serving[region].store(false, Ordering::Relaxed);
    }

    fn hear(&self, region: usize, line: &str) {
        let (word, number) = line.split_once(' ').unwrap_or((line, "0"));
        let progress = match word {
            "ingested" => Progress::Ingested,
            "announced" => Progress::Announced,
            "dropped" => Progress::Dropped,
            _ => return self.serving[region].store(true, Ordering::Relaxed),
        };
        self.locked().progress[region].push((now(), progress, number.parse().unwrap_or(0)));
    }

    async fn tell(&self, region: usize, to: &mut OwnedWriteHalf) -> std::io::Result<()> {
        let (mut cursor, base) = self.base(region);
        to.write_all(base.as_bytes()).await?;
        let mut sent = u64::MAX;
        loop {
            let mut text = String::new();
            let dropping = self.dropping[region].load(Ordering::Relaxed);
            if dropping != std::mem::replace(&mut sent, dropping) {
                push(&mut text, format_args!("drop {dropping}"));
            }
            if !self.stalled[region].load(Ordering::Relaxed) {
                let history = self.locked();
                let versions = versions_at(&history.writes, cursor, self.keys);
                cursor = changes(&history.writes, cursor, history.writes.len(), "change", versions, &mut text);
                // A millisecond short of now: a write may still come in this one.
                let through = Clock::System.wall().as_millis() - 1;
                push(&mut text, format_args!("through {through}"));
            }
            to.write_all(text.as_bytes()).await?;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// State of a region that starts (again), and what it is to announce again.
    fn base(&self, region: usize) -> (usize, String) {
        let history = self.locked();
        let [ingested, announced] = [Progress::Ingested, Progress::Announced].map(|what| {
            let reported = history.progress[region].iter().filter(|(_, progress, _)| *progress == what);
            reported.map(|(_, _, count)| *count as usize).max().unwrap_or(0)
        });
        let mut text = String::new();
        for (key, version) in versions_at(&history.writes, ingested, self.keys).into_iter().enumerate() {
            push(&mut text, format_args!("base {key} {version}"));
        }
        push(&mut text, format_args!("ready"));
        let versions = versions_at(&history.writes, announced, self.keys);
        changes(&history.writes, announced, ingested, "again", versions, &mut text);
        (ingested, text)
    }
}

/// Every record's version after so many changes.
fn versions_at(writes: &[Write], count: usize, keys: u32) -> Vec<u64> {
    let mut versions = vec![1; keys as usize];
    for write in &writes[..count] {
        versions[write.key as usize] += 1;
    }
    versions
}

fn changes(
    writes: &[Write],
    from: usize,
    until: usize,
    word: &str,
    mut versions: Vec<u64>,
    text: &mut String,
) -> usize {
    for (offset, write) in writes.iter().enumerate().take(until).skip(from) {
        versions[write.key as usize] += 1;
        let (count, key) = (offset + 1, write.key);
        push(text, format_args!("{word} {count} {key} {}", versions[key as usize]));
    }
    until.max(from)
}

fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}
