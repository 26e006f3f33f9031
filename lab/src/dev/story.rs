//! The story that `nearside-lab dev` shows: nine steps, each done to a running world and measured from
//! outside. [`super::screen`] shows what was measured, and tests assert it. Every step undoes the changes that it made to the regions.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use nearside::engine::Table;
use nearside::model::time::Moment;

use super::access::{Audience, READER};
use super::announced::Announced;
use super::build::DevWorld;
use super::contents::{KEY, LIMITS, SHARD, TENANT, shard_of};
use super::measured::{
    AllDown, DeadRegion, Lagging, Miss, Story, StoryAccess, StoryAttempt, StoryChange, StoryEvent, StoryHits,
    StoryJoined, StoryShapes,
};
use super::reader::{Seen, Spread, WorldReader};
use super::region::{DevRegion, count};
use super::story_error::{StoryError, TIMEOUT, late};
use super::withdrawal;
use crate::chaos_server::chaos::{Latency, Mode};
use crate::chaos_server::traffic;

/// The first of the tenants of steps 3, 6 and 7, and one that nobody asks for before step 8.
const FIRST_BATCH: usize = 501;
const FIRST_COLD: usize = 101;
const FIRST_LAGGING: usize = 701;
const COLD: &str = "tenant-799";
/// Quiet time after which a change is over.
const CALM: Duration = Duration::from_millis(300);

/// Does all nine steps to `world` through the sidecar at `sidecar`; `tell` hears of each step and
/// may pause.
///
/// The world needs three regions and the records that it starts with.
pub async fn run_story(
    world: &DevWorld,
    sidecar: SocketAddr,
    mut tell: impl AsyncFnMut(StoryEvent<'_>),
) -> Result<Story, StoryError> {
    let began = world.clock.now();
    let stage = Stage { world, reader: WorldReader::new(sidecar, world.clock.clone())? };
    tell(StoryEvent::Begin("A miss: every region is asked at once, the first good reply is served")).await;
    let miss = stage.miss().await;
    tell(StoryEvent::Miss(&miss)).await;
    tell(StoryEvent::Begin("Hits: the same record again and again, one connection")).await;
    let hits = stage.hits(2_000, &mut tell).await;
    tell(StoryEvent::Hits(&hits)).await;
    tell(StoryEvent::Begin("What a caller needs: Protobuf, two fields, twenty records in one request")).await;
    let shapes = stage.shapes(20).await;
    tell(StoryEvent::Shapes(&shapes)).await;
    tell(StoryEvent::Begin("A change in the catalogue: every region announces it, the sidecar asks again")).await;
    let change = stage.change().await?;
    tell(StoryEvent::Change(&change)).await;
    tell(StoryEvent::Begin("A view made of two records: one of them changes, and with it every view that shows it"))
        .await;
    let joined = stage.joined().await?;
    tell(StoryEvent::Joined(&joined)).await;
    tell(StoryEvent::Begin("A region dies: cold records all the while, and it is the nearest region")).await;
    let dead_region = stage.dead_region(300, &mut tell).await;
    tell(StoryEvent::DeadRegion(&dead_region)).await;
    tell(StoryEvent::Begin("A region lags: it answers first, with versions older than announced, and loses")).await;
    let lagging = stage.lagging(40).await?;
    tell(StoryEvent::Lagging(&lagging)).await;
    tell(StoryEvent::Begin("All regions down: what is stored is served, and what cannot be fresh is labelled")).await;
    let all_down = stage.all_down().await?;
    tell(StoryEvent::AllDown(&all_down)).await;
    let access = stage.access(&mut tell).await?;
    let took = world.clock.now() - began;
    Ok(Story { miss, hits, shapes, change, joined, dead_region, lagging, all_down, access, took })
}

struct Stage<'a> {
    world: &'a DevWorld,
    reader: WorldReader,
}

impl Stage<'_> {
    async fn miss(&self) -> Miss {
        let since = self.world.clock.now();
        let seen = self.reader.get(KEY).await;
        let attempts = self.attempts(KEY, since).await;
        let winner = seen.detail().map(str::to_owned);
        Miss { seen, winner, attempts }
    }

    async fn hits(&self, asked: usize, tell: &mut impl AsyncFnMut(StoryEvent<'_>)) -> StoryHits {
        let keys = vec![KEY.to_owned(); asked];
        let seen = self.reader.get_all(&keys, 1, async |done| tell(StoryEvent::Progress(done, asked)).await).await;
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
        let before = self.requests();
        let batch = (keys, self.reader.get_batch(&cold).await);
        let names = self.world.regions.iter().map(|region| region.server.name.clone());
        let requests =
            names.zip(self.requests().into_iter().zip(before).map(|(after, before)| after - before)).collect();
        StoryShapes { json, protobuf, fields, batch, requests }
    }

    /// Number of requests that each region has had.
    fn requests(&self) -> Vec<u64> {
        self.world.regions.iter().map(|region| region.server.traffic.total()).collect()
    }

    async fn change(&self) -> Result<StoryChange, StoryError> {
        let (before, since) = (self.reader.get(KEY).await.version, self.world.clock.now());
        self.put(1, "gold").await?;
        let seen = self.newer(before).await?;
        let visible = self.world.clock.now() - since;
        self.announced(since, &[KEY.to_owned()]).await?;
        let arrivals = self
            .world
            .regions
            .iter()
            .map(|region| {
                let of_it = self.said(region, since).into_iter().find(|one| one.view == LIMITS && one.key == KEY);
                (region.server.name.clone(), of_it.and_then(|one| one.taken).map(|at| at - since))
            })
            .collect();
        Ok(StoryChange { before, version: seen.version.unwrap_or_default(), visible, arrivals })
    }

    async fn joined(&self) -> Result<StoryJoined, StoryError> {
        let (before, since) = (self.reader.get(KEY).await.version, self.world.clock.now());
        let shard = shard_of(1);
        let body = format!(r#"{{"host":"{shard}-{}.example.com"}}"#, self.world.clock.wall().as_millis());
        let version = self.world.catalogue.put(SHARD, &shard, body).await?;
        self.newer(before).await?;
        let visible = self.world.clock.now() - since;
        let end = self.world.clock.now() + 2 * TIMEOUT;
        let (mut known, mut calm) = (0, self.world.clock.now());
        loop {
            let made = count(&self.world.engine, Table::Views, version).await?;
            let all: usize = made.values().sum();
            let mut said: Vec<_> = self.world.regions.iter().map(|region| self.said(region, since)).collect();
            // What a late region still has to say of an earlier change is not of this one.
            said.iter_mut().for_each(|said| said.retain(|one| one.version >= Some(version)));
            let is_applied = said.iter().all(|said| said.len() >= all && said.iter().all(|one| one.taken.is_some()));
            let now = self.world.clock.now();
            if all != known || !is_applied {
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

    /// Changes `tenant-{number}`. No two changes are alike, whenever the story ran before.
    async fn put(&self, number: usize, plan: &str) -> Result<u64, StoryError> {
        let (key, shard, since) = (format!("tenant-{number}"), shard_of(number), self.world.clock.wall().as_millis());
        let body = format!(
            r#"{{"name":"{key}","plan":"{plan}","since":{since},"shard":"{shard}","limits":{{"users":{number}}}}}"#
        );
        Ok(self.world.catalogue.put(TENANT, &key, body).await?)
    }

    /// Returns the reply to a caller once it is newer than `before`.
    async fn newer(&self, before: Option<u64>) -> Result<Seen, StoryError> {
        self.reader
            .until(KEY, TIMEOUT, |seen| seen.is_good() && seen.version > before)
            .await
            .ok_or(late("the change to be visible"))
    }

    /// Announcements of a region since then.
    fn said(&self, region: &DevRegion, since: Moment) -> Vec<Announced> {
        Announced::since(&self.world.aws.topics, &region.topic, since)
    }

    async fn dead_region(&self, asked: usize, tell: &mut impl AsyncFnMut(StoryEvent<'_>)) -> DeadRegion {
        let region = self.world.region(0);
        let keys: Vec<String> = (FIRST_COLD..).take(asked).map(|number| format!("tenant-{number}")).collect();
        let off_after = asked / 4;
        let asking = self.reader.get_all(&keys, 8, async |done| {
            if done == off_after {
                region.set(Mode::Off).await;
            }
            tell(StoryEvent::Progress(done, asked)).await;
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
            let attempts = self.attempts(key, since).await;
            if attempts[last].version.is_some_and(|version| version < new)
                && attempts.iter().all(|attempt| attempt.took >= attempts[last].took)
            {
                answered_first += 1;
                shown = attempts;
            }
        }
        Ok(Lagging {
            region: self.world.region(last).name.clone(),
            asked: keys.len(),
            answered_first,
            old_served: seen.iter().filter(|one| one.version.is_some_and(|version| version < new)).count(),
            failed: seen.iter().filter(|one| !one.is_good()).count(),
            attempts: shown,
        })
    }

    async fn all_down(&self) -> Result<AllDown, StoryError> {
        for region in self.world.regions.iter() {
            region.server.set(Mode::Off).await;
        }
        let down = self.nobody_answers().await;
        for region in self.world.regions.iter() {
            region.server.set(Mode::Healthy).await;
        }
        let back = self.world.clock.now();
        let (announced, stored, other, cold) = down?;
        self.reader
            .until(KEY, TIMEOUT, |seen| seen.is_good() && seen.version >= Some(announced))
            .await
            .ok_or(late("the regions to be asked again"))?;
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

    /// `None` where nobody is refused.
    async fn access(&self, tell: &mut impl AsyncFnMut(StoryEvent<'_>)) -> Result<Option<StoryAccess>, StoryError> {
        if !self.world.enforces() {
            return Ok(None);
        }
        tell(StoryEvent::Begin("Who may read: regions ask for a token, and a withdrawn grant ends stored replies"))
            .await;
        let access = withdrawal::run(self.world, &self.reader).await?;
        tell(StoryEvent::Access(&access)).await;
        Ok(Some(access))
    }

    /// Each region's part in the race for `key` that began after `since`, once all have answered.
    async fn attempts(&self, key: &str, since: Moment) -> Vec<StoryAttempt> {
        let path = WorldReader::path(key);
        let end = self.world.clock.now() + Duration::from_secs(1);
        loop {
            let answered: Vec<_> =
                self.world.regions.iter().map(|region| region.server.traffic.last(&path, since)).collect();
            if answered.iter().all(Option::is_some) || self.world.clock.now() >= end {
                let attempts = self.world.regions.iter().zip(answered).map(|(region, answered)| StoryAttempt {
                    region: region.server.name.clone(),
                    took: answered.as_ref().map(traffic::Answered::took),
                    version: answered.and_then(|answered| answered.version),
                });
                return attempts.collect();
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until every region that does not lag has announced the views of `keys`, and all who
    /// listen have applied it.
    async fn announced(&self, since: Moment, keys: &[String]) -> Result<(), StoryError> {
        let end = self.world.clock.now() + TIMEOUT;
        while !self.world.regions.iter().all(|region| self.is_done(region, since, keys)) {
            if self.world.clock.now() >= end {
                return Err(late("announcements to be applied"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    fn is_done(&self, region: &DevRegion, since: Moment, keys: &[String]) -> bool {
        let said = self.said(region, since);
        let applied = said.iter().filter(|one| one.view == LIMITS && one.taken.is_some());
        let applied: BTreeSet<&str> = applied.map(|one| one.key.as_str()).collect();
        region.server.knobs().lag >= TIMEOUT || keys.iter().all(|key| applied.contains(key.as_str()))
    }
}

/// Waits until the sidecar has subscribed to every topic; each region's node has too.
pub async fn subscribed(world: &DevWorld) -> Result<(), StoryError> {
    const LISTENING: usize = 2;
    let end = world.clock.now() + TIMEOUT;
    while world.regions.iter().any(|region| world.aws.topics.standing(&region.topic).subscriptions < LISTENING) {
        if world.clock.now() >= end {
            return Err(late("the sidecar to subscribe"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Waits until every region has been filled, and answers.
pub async fn filled(world: &DevWorld) -> Result<(), StoryError> {
    let end = world.clock.now() + TIMEOUT;
    for region in world.regions.iter() {
        let reader = WorldReader::new(region.server.address(), world.clock.clone())?;
        let reader = reader.with_token(world.issuer.token(READER, Audience::Regions));
        let left = end - world.clock.now();
        reader.until(KEY, left, Seen::is_good).await.ok_or(late("a region to be filled"))?;
    }
    Ok(())
}
