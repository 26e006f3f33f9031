//! The story that `nearside dev` shows: six steps, each done to a running world and measured from
//! outside. [`super::screen`] shows what was measured, and tests assert it. A step's result
//! consists of what a caller, a region or a topic saw, never of what was expected. Every step
//! undoes the changes that it made to the regions.

use std::net::SocketAddr;
use std::time::Duration;

use super::build::World;
use super::chaos::{Latency, Mode};
use super::ingest;
use super::reader::{Seen, Spread, WorldReader};
use crate::model::time::Moment;

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Story {
    /// A cold key.
    pub miss: Miss,
    /// The same key again and again.
    pub hits: StoryHits,
    /// A change in the catalogue.
    pub change: StoryChange,
    /// Cold keys while a region is switched off.
    pub dead_region: DeadRegion,
    /// Changed keys while the fastest region lags.
    pub lagging: Lagging,
    /// A changed key while no region answers.
    pub all_down: AllDown,
    /// How long the whole story took.
    pub took: Duration,
}

/// One region's part in a race, as the region saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryLeg {
    pub region: String,
    /// From the request's arrival there to its reply; `None` if it did not answer.
    pub took: Option<Duration>,
    /// The version that it showed.
    pub version: Option<u64>,
}

/// Step 1: a miss.
#[derive(Clone, Debug)]
pub struct Miss {
    pub seen: Seen,
    /// The region that won, according to the label.
    pub winner: Option<String>,
    pub legs: Vec<StoryLeg>,
}

/// Step 2: hits.
#[derive(Clone, Copy, Debug)]
pub struct StoryHits {
    /// Requests sent, one after another.
    pub asked: usize,
    /// Requests answered from the store.
    pub hits: usize,
    /// Requests not answered with 200.
    pub failed: usize,
    pub spread: Spread,
}

/// Step 3: a change.
#[derive(Clone, Debug)]
pub struct StoryChange {
    /// The version before the change, as the caller saw it.
    pub before: Option<u64>,
    /// The version that the catalogue gave.
    pub version: u64,
    /// From the put until a caller saw it.
    pub visible: Duration,
    /// From the put until each region's announcement was applied and acknowledged.
    pub arrivals: Vec<(String, Option<Duration>)>,
}

/// Step 4: a region dies.
#[derive(Clone, Debug)]
pub struct DeadRegion {
    /// The region that was switched off.
    pub region: String,
    /// Cold keys asked for.
    pub asked: usize,
    /// After how many of them the region was switched off.
    pub off_after: usize,
    /// Requests not answered with 200.
    pub failed: usize,
    /// The latency before that.
    pub before: Spread,
    /// The latency from then on.
    pub during: Spread,
}

/// Step 5: a region lags.
#[derive(Clone, Debug)]
pub struct Lagging {
    /// The region that lagged and was the fastest.
    pub region: String,
    /// Changed keys asked for, half of them stored before, half cold.
    pub asked: usize,
    /// How often the lagging region answered first, with the old version.
    pub answered_first: usize,
    /// How often a caller got the old version.
    pub old_served: usize,
    /// Requests not answered with 200.
    pub failed: usize,
    pub legs: Vec<StoryLeg>,
}

/// Step 6: all regions are down.
#[derive(Clone, Debug)]
pub struct AllDown {
    /// The version that was announced and that no region can deliver.
    pub announced: u64,
    /// What the caller of that key got.
    pub stored: Seen,
    /// What a caller of another stored key got.
    pub other: Seen,
    /// What a caller of a cold key got.
    pub cold: Seen,
    /// From the regions' return until a caller saw the announced version.
    pub recovered: Duration,
}

/// What happens, as it happens.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// A step begins, with this title.
    Begin(&'static str),
    /// How much of a step is done, and of how much.
    Progress(usize, usize),
    /// Step 1 is done; the others follow.
    Miss(&'a Miss),
    Hits(&'a StoryHits),
    Change(&'a StoryChange),
    DeadRegion(&'a DeadRegion),
    Lagging(&'a Lagging),
    AllDown(&'a AllDown),
}

/// Why the story could not be told to its end.
#[derive(Debug, thiserror::Error)]
pub enum StoryError {
    #[error("no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
    #[error("the catalogue refused a change: {0}")]
    Refused(#[from] super::catalogue::PutRefused),
    /// Something did not come in time.
    #[error("waited {waited:?} for {what}")]
    Late { what: &'static str, waited: Duration },
}

const PATIENCE: Duration = Duration::from_secs(8);
/// The key of steps 1, 2, 3 and 6.
const KEY: &str = "tenant-1";

/// Does all six steps to `world` through the sidecar at `sidecar`; `tell` hears of each step and
/// may pause.
///
/// The world needs three regions and the records `tenant-1` ... `tenant-3000`.
pub async fn run_story(
    world: &World,
    sidecar: SocketAddr,
    mut tell: impl AsyncFnMut(Told<'_>),
) -> Result<Story, StoryError> {
    let began = world.clock.now();
    let stage = Stage { world, reader: WorldReader::new(sidecar, world.clock.clone())? };
    tell(Told::Begin("A miss: every region is asked at once, the first good reply is served")).await;
    let miss = stage.miss().await;
    tell(Told::Miss(&miss)).await;
    tell(Told::Begin("Hits: the same record again and again, one connection")).await;
    let hits = stage.hits(2_000, &mut tell).await;
    tell(Told::Hits(&hits)).await;
    tell(Told::Begin("A change in the catalogue: every region announces it, the sidecar asks again")).await;
    let change = stage.change().await?;
    tell(Told::Change(&change)).await;
    tell(Told::Begin("A region dies: cold records all the while, and it is the nearest region")).await;
    let dead_region = stage.dead_region(500, &mut tell).await;
    tell(Told::DeadRegion(&dead_region)).await;
    tell(Told::Begin("A region lags: it answers first, with versions older than announced, and loses")).await;
    let lagging = stage.lagging(40).await?;
    tell(Told::Lagging(&lagging)).await;
    tell(Told::Begin("All regions down: what is stored is served, and what cannot be fresh is labelled")).await;
    let all_down = stage.all_down().await?;
    tell(Told::AllDown(&all_down)).await;
    Ok(Story { miss, hits, change, dead_region, lagging, all_down, took: world.clock.now() - began })
}

struct Stage<'a> {
    world: &'a World,
    reader: WorldReader,
}

impl Stage<'_> {
    async fn miss(&self) -> Miss {
        let since = self.world.clock.now();
        let seen = self.reader.get(KEY).await;
        let legs = self.legs(KEY, since).await;
        let winner = seen.detail().map(str::to_owned);
        Miss { seen, winner, legs }
    }

    async fn hits(&self, asked: usize, tell: &mut impl AsyncFnMut(Told<'_>)) -> StoryHits {
        let keys = vec![KEY.to_owned(); asked];
        let seen = self.reader.get_all(&keys, 1, async |done| tell(Told::Progress(done, asked)).await).await;
        let hits = seen.iter().filter(|one| one.is_hit()).count();
        let failed = seen.iter().filter(|one| !one.is_good()).count();
        StoryHits { asked, hits, failed, spread: Spread::of(&seen) }
    }

    async fn change(&self) -> Result<StoryChange, StoryError> {
        let before = self.reader.get(KEY).await.version;
        let since = self.world.clock.now();
        let version = self.world.catalogue.put(KEY, r#"{"name":"tenant-1","plan":"gold"}"#)?;
        let shows = |seen: &Seen| seen.is_good() && seen.version >= Some(version);
        self.reader.until(KEY, PATIENCE, shows).await.ok_or(late("the change to be visible"))?;
        let visible = self.world.clock.now() - since;
        self.announced(since).await?;
        let taken = self.world.taken_since(since).into_iter().map(|at| at.map(|at| at - since));
        let names = self.world.regions.iter().map(|region| region.name.clone());
        Ok(StoryChange { before, version, visible, arrivals: names.zip(taken).collect() })
    }

    async fn dead_region(&self, asked: usize, tell: &mut impl AsyncFnMut(Told<'_>)) -> DeadRegion {
        let region = self.world.region(0);
        let keys: Vec<String> = (1001..).take(asked).map(|number| format!("tenant-{number}")).collect();
        let off_after = asked / 4;
        let asking = self.reader.get_all(&keys, 25, async |done| {
            if done == off_after {
                region.set(Mode::Off).await;
            }
            tell(Told::Progress(done, asked)).await;
        });
        let seen = asking.await;
        region.set(Mode::Healthy).await;
        let (before, during) = seen.split_at(off_after);
        DeadRegion {
            region: region.name.clone(),
            asked,
            off_after,
            failed: seen.iter().filter(|one| !one.is_good()).count(),
            before: Spread::of(before),
            during: Spread::of(during),
        }
    }

    async fn lagging(&self, asked: usize) -> Result<Lagging, StoryError> {
        let keys: Vec<String> = (2001..).take(asked).map(|number| format!("tenant-{number}")).collect();
        self.reader.get_all(&keys[..asked / 2], 10, async |_| {}).await;
        let last = self.world.regions.len() - 1;
        let region = self.world.region(last);
        let knobs = region.knobs();
        region
            .turn(|knobs| {
                knobs.lag = Duration::from_secs(3600);
                knobs.latency = Latency::millis(2, 1);
            })
            .await;
        let done = self.lose_races(&keys, last).await;
        region.turn(|now| *now = knobs).await;
        done
    }

    /// Changes `keys` everywhere but in the region at `last`, and reads them.
    async fn lose_races(&self, keys: &[String], last: usize) -> Result<Lagging, StoryError> {
        let since = self.world.clock.now();
        for key in keys {
            self.world.catalogue.put(key, format!(r#"{{"name":"{key}","plan":"new"}}"#))?;
        }
        self.announced(since).await?;
        let seen = self.reader.get_all(keys, 4, async |_| {}).await;
        let (mut answered_first, mut shown) = (0, Vec::new());
        for key in keys {
            let legs = self.legs(key, since).await;
            if legs[last].version == Some(1) && legs.iter().all(|leg| leg.took >= legs[last].took) {
                answered_first += 1;
                shown = legs;
            }
        }
        Ok(Lagging {
            region: self.world.region(last).name.clone(),
            asked: keys.len(),
            answered_first,
            old_served: seen.iter().filter(|one| one.version < Some(2)).count(),
            failed: seen.iter().filter(|one| !one.is_good()).count(),
            legs: shown,
        })
    }

    async fn all_down(&self) -> Result<AllDown, StoryError> {
        for region in self.world.regions.iter() {
            region.set(Mode::Off).await;
        }
        let down = self.nobody_answers().await;
        for region in self.world.regions.iter() {
            region.set(Mode::Healthy).await;
        }
        let back = self.world.clock.now();
        let (announced, stored, other, cold) = down?;
        let shows = |seen: &Seen| seen.is_good() && seen.version >= Some(announced);
        self.reader.until(KEY, PATIENCE, shows).await.ok_or(late("the regions to be asked again"))?;
        Ok(AllDown { announced, stored, other, cold, recovered: self.world.clock.now() - back })
    }

    /// Announces a change while no region can deliver it; returns its version and what three
    /// callers got.
    async fn nobody_answers(&self) -> Result<(u64, Seen, Seen, Seen), StoryError> {
        let since = self.world.clock.now();
        let announced = self.world.catalogue.put(KEY, r#"{"name":"tenant-1","plan":"platinum"}"#)?;
        self.announced(since).await?;
        let stored = self.reader.get(KEY).await;
        let other = self.reader.get("tenant-2001").await;
        let cold = self.reader.get("tenant-2999").await;
        Ok((announced, stored, other, cold))
    }

    /// Each region's part in the race for `key` that began after `since`, once all have answered.
    async fn legs(&self, key: &str, since: Moment) -> Vec<StoryLeg> {
        let path = WorldReader::path(key);
        let end = self.world.clock.now() + Duration::from_secs(1);
        loop {
            let answered: Vec<_> =
                self.world.regions.iter().map(|region| region.traffic.last(&path, since)).collect();
            if answered.iter().all(Option::is_some) || self.world.clock.now() >= end {
                let legs = self.world.regions.iter().zip(answered).map(|(region, answered)| StoryLeg {
                    region: region.name.clone(),
                    took: answered.as_ref().map(super::traffic::Answered::took),
                    version: answered.and_then(|answered| answered.version),
                });
                return legs.collect();
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until every region that does not lag has announced everything, and the sidecar has
    /// applied it.
    async fn announced(&self, since: Moment) -> Result<(), StoryError> {
        let catalogue = *self.world.catalogue.end().borrow();
        let end = self.world.clock.now() + PATIENCE;
        let prompt = |region: &super::region::WorldRegion| region.knobs().lag < PATIENCE;
        loop {
            let taken = self.world.taken_since(since);
            let mut open = self.world.regions.iter().zip(taken).filter(|(region, _)| prompt(region));
            if open.all(|(region, taken)| region.cursor() >= catalogue && taken.is_some()) {
                return Ok(());
            }
            if self.world.clock.now() >= end {
                return Err(late("announcements to be applied"));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Waits until the sidecar has subscribed to every topic, and then sends a heartbeat on each, so
/// that it need not wait for the next one.
pub async fn subscribed(world: &World) -> Result<(), StoryError> {
    let end = world.clock.now() + PATIENCE;
    while (0..world.regions.len()).any(|index| world.topic(index).subscriptions == 0) {
        if world.clock.now() >= end {
            return Err(late("the sidecar to subscribe"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world.regions.iter().for_each(|region| ingest::heartbeat(region));
    Ok(())
}

const fn late(what: &'static str) -> StoryError {
    StoryError::Late { what, waited: PATIENCE }
}
