//! The story that `nearside dev` shows: eight steps, each done to a running world and measured from
//! outside. [`super::screen`] shows what was measured, and tests assert it. A step's result
//! consists of what a caller, a region or a topic saw, never of what was expected. Every step
//! undoes the changes that it made to the regions.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use super::announced::Announced;
use super::build::{DevRegion, DevWorld, count};
use super::catalogue::NotWritten;
use super::contents::{LIMITS, SHARD, TENANT, shard_of};
use super::reader::{Seen, Spread, WorldReader};
use crate::engine::{EngineError, Table};
use crate::lab::front::chaos::{Latency, Mode};
use crate::lab::front::traffic;
use crate::model::time::Moment;

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Story {
    /// A cold key.
    pub miss: Miss,
    /// The same key again and again.
    pub hits: StoryHits,
    /// The same records in other shapes.
    pub shapes: StoryShapes,
    /// A change in the catalogue.
    pub change: StoryChange,
    /// A change of a record that many views need.
    pub joined: StoryJoined,
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

/// Step 3: what callers ask for besides one record as it is.
#[derive(Clone, Debug)]
pub struct StoryShapes {
    pub json: Seen,
    pub protobuf: Seen,
    /// The fields that were asked for, and what came.
    pub fields: (&'static str, Seen),
    /// How many cold records were asked for in one request, and what came.
    pub batch: (usize, Seen),
    /// How many requests reached each region for those.
    pub requests: Vec<(String, u64)>,
}

/// Step 4: a change.
#[derive(Clone, Debug)]
pub struct StoryChange {
    /// The view's version before the change, as the caller saw it.
    pub before: Option<u64>,
    /// The view's version from then on, as the caller saw it.
    pub version: u64,
    /// From the put until a caller saw it.
    pub visible: Duration,
    /// From the put until each region's announcement was applied and acknowledged.
    pub arrivals: Vec<(String, Option<Duration>)>,
}

/// Step 5: a view made of two records.
#[derive(Clone, Debug)]
pub struct StoryJoined {
    /// The record that was changed.
    pub shard: String,
    /// Views that were made again, of those that show it and of all others.
    pub made: usize,
    pub others: usize,
    /// How many changes the regions announced, together.
    pub announcements: usize,
    /// From the put until a caller saw one of them.
    pub visible: Duration,
    /// From the put until all of them were applied and acknowledged, from every region.
    pub applied: Duration,
}

/// Step 6: a region dies.
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

/// Step 7: a region lags.
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

/// Step 8: all regions are down.
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
    Shapes(&'a StoryShapes),
    Change(&'a StoryChange),
    Joined(&'a StoryJoined),
    DeadRegion(&'a DeadRegion),
    Lagging(&'a Lagging),
    AllDown(&'a AllDown),
}

/// Why the story could not be told to its end.
#[derive(Debug, thiserror::Error)]
pub enum StoryError {
    #[error("no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
    #[error(transparent)]
    Refused(#[from] NotWritten),
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Something did not come in time.
    #[error("waited {waited:?} for {what}")]
    Late { what: &'static str, waited: Duration },
}

const PATIENCE: Duration = Duration::from_secs(8);
/// The first of the tenants of steps 3, 6 and 7, and one that nobody asks for before step 8.
const FIRST_BATCH: usize = 501;
const FIRST_COLD: usize = 101;
const FIRST_LAGGING: usize = 701;
const COLD: &str = "tenant-799";
/// How long nothing new must have come for a change to be over.
const CALM: Duration = Duration::from_millis(300);
/// The key of steps 1 to 5 and 8; it is on the first shard.
pub(super) const KEY: &str = "tenant-1";

/// Does all eight steps to `world` through the sidecar at `sidecar`; `tell` hears of each step and
/// may pause.
///
/// The world needs three regions and the records that it starts with.
pub async fn run_story(
    world: &DevWorld,
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
    tell(Told::Begin("What a caller needs: Protobuf, two fields, twenty records in one request")).await;
    let shapes = stage.shapes(20).await;
    tell(Told::Shapes(&shapes)).await;
    tell(Told::Begin("A change in the catalogue: every region announces it, the sidecar asks again")).await;
    let change = stage.change().await?;
    tell(Told::Change(&change)).await;
    tell(Told::Begin("A view made of two records: one of them changes, and with it every view that shows it")).await;
    let joined = stage.joined().await?;
    tell(Told::Joined(&joined)).await;
    tell(Told::Begin("A region dies: cold records all the while, and it is the nearest region")).await;
    let dead_region = stage.dead_region(300, &mut tell).await;
    tell(Told::DeadRegion(&dead_region)).await;
    tell(Told::Begin("A region lags: it answers first, with versions older than announced, and loses")).await;
    let lagging = stage.lagging(40).await?;
    tell(Told::Lagging(&lagging)).await;
    tell(Told::Begin("All regions down: what is stored is served, and what cannot be fresh is labelled")).await;
    let all_down = stage.all_down().await?;
    tell(Told::AllDown(&all_down)).await;
    Ok(Story { miss, hits, shapes, change, joined, dead_region, lagging, all_down, took: world.clock.now() - began })
}

struct Stage<'a> {
    world: &'a DevWorld,
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

    async fn shapes(&self, keys: usize) -> StoryShapes {
        const FIELDS: &str = "plan,host";
        let json = self.reader.get(KEY).await;
        let protobuf = self.reader.get_protobuf(KEY).await;
        let fields = (FIELDS, self.reader.get_fields(KEY, FIELDS).await);
        let cold: Vec<String> = (FIRST_BATCH..).take(keys).map(|number| format!("tenant-{number}")).collect();
        let total = || self.world.regions.iter().map(|region| region.front.traffic.total()).collect::<Vec<_>>();
        let before = total();
        let batch = (keys, self.reader.get_batch(&cold).await);
        let names = self.world.regions.iter().map(|region| region.front.name.clone());
        let requests = names.zip(total().into_iter().zip(before).map(|(after, before)| after - before)).collect();
        StoryShapes { json, protobuf, fields, batch, requests }
    }

    async fn change(&self) -> Result<StoryChange, StoryError> {
        let (before, since) = (self.reader.get(KEY).await.version, self.world.clock.now());
        self.put(1, "gold").await?;
        let seen = self.newer(before).await?;
        let visible = self.world.clock.now() - since;
        self.announced(since, &[KEY.to_owned()]).await?;
        let arrival = |region: &std::sync::Arc<DevRegion>| {
            let of_it = self.said(region, since).into_iter().find(|one| one.view == LIMITS && one.key == KEY);
            (region.front.name.clone(), of_it.and_then(|one| one.taken).map(|at| at - since))
        };
        let arrivals = self.world.regions.iter().map(arrival).collect();
        Ok(StoryChange { before, version: seen.version.unwrap_or_default(), visible, arrivals })
    }

    async fn joined(&self) -> Result<StoryJoined, StoryError> {
        let (before, since) = (self.reader.get(KEY).await.version, self.world.clock.now());
        let shard = shard_of(1);
        let body = format!(r#"{{"host":"{shard}-{}.example.com"}}"#, self.world.clock.wall().as_millis());
        let version = self.world.catalogue.put(SHARD, &shard, body).await?;
        self.newer(before).await?;
        let visible = self.world.clock.now() - since;
        let end = self.world.clock.now() + 2 * PATIENCE;
        let (mut known, mut calm) = (0, self.world.clock.now());
        loop {
            let made = count(&self.world.engine, Table::Views, version).await?;
            let all: usize = made.values().sum();
            // What a late region still has to say of an earlier change is not of this one.
            let of_this = |region| {
                let said = self.said(region, since).into_iter();
                said.filter(|one| one.version >= Some(version)).collect::<Vec<_>>()
            };
            let said: Vec<_> = self.world.regions.iter().map(|region| of_this(region)).collect();
            let applied = |said: &Vec<Announced>| said.len() >= all && said.iter().all(|one| one.taken.is_some());
            let now = self.world.clock.now();
            if all != known || !said.iter().all(applied) {
                (known, calm) = (all, now);
            }
            if now - calm >= CALM {
                let of_it = made.get(LIMITS).copied().unwrap_or(0);
                let last = said.iter().flatten().filter_map(|one| one.taken).max().unwrap_or(since);
                let announcements = said.iter().map(Vec::len).sum();
                let others = all - of_it;
                return Ok(StoryJoined { shard, made: of_it, others, announcements, visible, applied: last - since });
            }
            if now >= end {
                return Err(late("every view of a record to be announced"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Changes `tenant-{number}`. No two changes are alike, whenever the story was told before.
    async fn put(&self, number: usize, plan: &str) -> Result<u64, StoryError> {
        let (key, shard, since) = (format!("tenant-{number}"), shard_of(number), self.world.clock.wall().as_millis());
        let body = format!(
            r#"{{"name":"{key}","plan":"{plan}","since":{since},"shard":"{shard}","limits":{{"users":{number}}}}}"#
        );
        Ok(self.world.catalogue.put(TENANT, &key, body).await?)
    }

    /// What a caller got once it was newer than `before`.
    async fn newer(&self, before: Option<u64>) -> Result<Seen, StoryError> {
        let shows = |seen: &Seen| seen.is_good() && seen.version > before;
        self.reader.until(KEY, PATIENCE, shows).await.ok_or(late("the change to be visible"))
    }

    /// What a region has announced since then.
    fn said(&self, region: &DevRegion, since: Moment) -> Vec<Announced> {
        Announced::since(&self.world.aws.topics, &region.topic, since)
    }

    async fn dead_region(&self, asked: usize, tell: &mut impl AsyncFnMut(Told<'_>)) -> DeadRegion {
        let region = self.world.region(0);
        let keys: Vec<String> = (FIRST_COLD..).take(asked).map(|number| format!("tenant-{number}")).collect();
        let off_after = asked / 4;
        let asking = self.reader.get_all(&keys, 8, async |done| {
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
        let numbers = FIRST_LAGGING..FIRST_LAGGING + asked;
        let keys: Vec<String> = numbers.map(|number| format!("tenant-{number}")).collect();
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
        // A view is at least as new as the record that it is made of.
        let mut new = u64::MAX;
        for number in FIRST_LAGGING..FIRST_LAGGING + keys.len() {
            new = new.min(self.put(number, "new").await?);
        }
        self.announced(since, keys).await?;
        let seen = self.reader.get_all(keys, 4, async |_| {}).await;
        let (mut answered_first, mut shown) = (0, Vec::new());
        for key in keys {
            let legs = self.legs(key, since).await;
            if legs[last].version.is_some_and(|version| version < new)
                && legs.iter().all(|leg| leg.took >= legs[last].took)
            {
                answered_first += 1;
                shown = legs;
            }
        }
        Ok(Lagging {
            region: self.world.region(last).name.clone(),
            asked: keys.len(),
            answered_first,
            old_served: seen.iter().filter(|one| one.version.is_some_and(|version| version < new)).count(),
            failed: seen.iter().filter(|one| !one.is_good()).count(),
            legs: shown,
        })
    }

    async fn all_down(&self) -> Result<AllDown, StoryError> {
        for region in self.world.regions.iter() {
            region.front.set(Mode::Off).await;
        }
        let down = self.nobody_answers().await;
        for region in self.world.regions.iter() {
            region.front.set(Mode::Healthy).await;
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
        self.put(1, "platinum").await?;
        self.announced(since, &[KEY.to_owned()]).await?;
        let said = self.said(&self.world.regions[0], since);
        let announced = said.iter().filter(|one| one.view == LIMITS).find_map(|one| one.version).unwrap_or(0);
        let stored = self.reader.get(KEY).await;
        let other = self.reader.get(&format!("tenant-{FIRST_LAGGING}")).await;
        let cold = self.reader.get(COLD).await;
        Ok((announced, stored, other, cold))
    }

    /// Each region's part in the race for `key` that began after `since`, once all have answered.
    async fn legs(&self, key: &str, since: Moment) -> Vec<StoryLeg> {
        let path = WorldReader::path(key);
        let end = self.world.clock.now() + Duration::from_secs(1);
        loop {
            let answered: Vec<_> =
                self.world.regions.iter().map(|region| region.front.traffic.last(&path, since)).collect();
            if answered.iter().all(Option::is_some) || self.world.clock.now() >= end {
                let legs = self.world.regions.iter().zip(answered).map(|(region, answered)| StoryLeg {
                    region: region.front.name.clone(),
                    took: answered.as_ref().map(traffic::Answered::took),
                    version: answered.and_then(|answered| answered.version),
                });
                return legs.collect();
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until every region that does not lag has announced the views of `keys`, and all who
    /// listen have applied it.
    async fn announced(&self, since: Moment, keys: &[String]) -> Result<(), StoryError> {
        let end = self.world.clock.now() + PATIENCE;
        let is_done = |region: &DevRegion| {
            let said = self.said(region, since);
            let applied = |one: &&Announced| one.view == LIMITS && one.taken.is_some();
            let applied: BTreeSet<&str> = said.iter().filter(applied).map(|one| one.key.as_str()).collect();
            region.front.knobs().lag >= PATIENCE || keys.iter().all(|key| applied.contains(key.as_str()))
        };
        while !self.world.regions.iter().all(|region| is_done(region)) {
            if self.world.clock.now() >= end {
                return Err(late("announcements to be applied"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

/// Waits until the sidecar has subscribed to every topic; each region's node has too.
pub async fn subscribed(world: &DevWorld) -> Result<(), StoryError> {
    const LISTENING: usize = 2;
    let end = world.clock.now() + PATIENCE;
    let standing = |region: &DevRegion| world.aws.topics.standing(&region.topic).subscriptions;
    while world.regions.iter().any(|region| standing(region) < LISTENING) {
        if world.clock.now() >= end {
            return Err(late("the sidecar to subscribe"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Waits until every region has been filled, and answers.
pub async fn filled(world: &DevWorld) -> Result<(), StoryError> {
    let end = world.clock.now() + PATIENCE;
    for region in world.regions.iter() {
        let reader = WorldReader::new(region.front.address(), world.clock.clone())?;
        let left = end - world.clock.now();
        reader.until(KEY, left, Seen::is_good).await.ok_or(late("a region to be filled"))?;
    }
    Ok(())
}

const fn late(what: &'static str) -> StoryError {
    StoryError::Late { what, waited: PATIENCE }
}
