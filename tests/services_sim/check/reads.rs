//! Checks of nodes' answers: G4, and that no answer is older than it says.

use std::time::Duration;

use nearside::engine::{Item, ItemKey, ItemWrite, Stream, bucket};
use nearside::model::time::Moment;

use super::super::node::Got;
use super::super::readers::Read;
use super::{Checker, Name, text};

/// Seconds are cut off.
const CUT: Duration = Duration::from_secs(1);
/// A bound from here on may rest on how far regions lag (R5), which nothing here holds them to.
const WORST_LAG: Duration = Duration::from_secs(60);
/// A node looks each second whether its region is complete.
const LOOKED: Duration = Duration::from_millis(1_200);

/// Version of something in a region's table, and since when; none after the table was lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    since: Moment,
    /// Its place among all that happened: much happens in the same millisecond.
    place: u64,
    version: u64,
}

/// Versions of a view that sidecars may have received.
#[derive(Default)]
pub(crate) struct Announced {
    /// From this region.
    pub(crate) newest: Option<u64>,
    /// From this region before that.
    pub(crate) earlier: Option<u64>,
    /// From any region.
    pub(crate) elsewhere: Option<u64>,
}

impl Checker {
    pub(crate) fn announced_versions(&self, region: usize, name: &Name) -> Announced {
        let (own, all) = (self.announcements_of(region, name), 0..self.unclaimed.len());
        Announced {
            newest: own.last().copied(),
            earlier: own.get(own.len() / 2).copied(),
            elsewhere: all.filter_map(|region| self.announcements_of(region, name).last().copied()).max(),
        }
    }

    fn announcements_of(&self, region: usize, name: &Name) -> &[u64] {
        self.announcements.get(&(region, name.clone())).map_or(&[], Vec::as_slice)
    }

    /// A read begins: when, and after how many puts.
    pub(crate) fn begin(&self) -> (Moment, u64) {
        (self.now(), self.places)
    }

    fn kept(&mut self, version: u64) -> Kept {
        self.places += 1;
        Kept { since: self.now(), place: self.places, version }
    }

    pub(super) fn copied(&mut self, region: usize, name: Name, version: u64) {
        let kept = self.kept(version);
        self.copies.entry((region, name)).or_insert_with(|| vec![Kept::default()]).push(kept);
    }

    /// The region's table is empty.
    pub(crate) fn lost_copies(&mut self, region: usize) {
        let lost = self.kept(0);
        self.lost_at.insert(region);
        let of_region = self.copies.iter_mut().filter(|((of, _), _)| *of == region);
        of_region.for_each(|(_, copies)| copies.push(lost));
    }

    /// The region began, or has to begin again.
    pub(super) fn begun(&mut self, region: usize, write: &ItemWrite) {
        match write {
            ItemWrite::Put(..) => self.incomplete.remove(&region),
            _ => self.incomplete.insert(region, self.now()),
        };
    }

    pub(crate) fn lost_region(&mut self, region: usize) {
        self.lost_copies(region);
        self.incomplete.insert(region, self.now());
    }

    pub(crate) fn read(&mut self, read: &Read, got: &Got) {
        let (stated, start) = (read.asked.floor, self.start);
        self.count("reads");
        self.say(|| {
            format!(
                "node {} of region {} answers {:?} since {:.3} with {} {} age {:?} {}",
                read.node,
                read.region,
                read.asked,
                read.began.0.since(start).as_secs_f64(),
                got.status,
                got.version,
                got.age,
                got.line
            )
        });
        match got.status {
            200 | 304 | 404 => {}
            503 => return self.count("reads refused"),
            status => return self.violated("Status", format!("a node answers {status}")),
        }
        self.count(if got.is_hit() { "reads answered from a node's store" } else { "reads answered from a table" });
        match (stated, read.asked.no_cache) {
            (Some(_), _) if got.is_hit() => self.count("reads at a floor, from the store"),
            (Some(_), _) => self.count("reads at a floor, from the table"),
            (None, true) => self.count("reads that insist"),
            (None, false) => {}
        }
        let is_real = match self.views.get(&read.name).and_then(|known| known.get(&got.version)) {
            Some(Some(body)) => got.status == 304 || got.status == 200 && *body == got.body,
            Some(None) => got.status == 404,
            None => got.status == 404 && got.version == 0,
        };
        if !is_real {
            let shown = text(Some(&got.body));
            self.violated(
                "Invented",
                format!("{read:?} gets {} {} {shown}, which never was", got.status, got.version),
            );
        }
        self.floor(read, got);
        self.age(read, got);
        let since = self.incomplete.get(&read.region).filter(|since| read.began.0.since(**since) > LOOKED);
        if self.prompt.contains(&read.region) && since.is_some() && !got.is_hit() {
            self.violated("Complete", format!("{read:?} gets {} from a table that is not complete", got.status));
        }
    }

    /// G4; and who insists gets what was in the table when they asked.
    fn floor(&mut self, read: &Read, got: &Got) {
        let copies = self.copies.get(&(read.region, read.name.clone()));
        let least = copies.map_or(0, |copies| {
            let before = copies.partition_point(|kept| kept.place <= read.began.1);
            copies[before - 1..].iter().map(|kept| kept.version).min().unwrap_or_default()
        });
        let (property, owed) = match (read.asked.floor, read.asked.no_cache) {
            // What a table has lost, nobody can answer.
            (Some(floor), _) if read.is_announced && !self.lost_at.contains(&read.region) => ("G4", floor),
            (Some(floor), _) => ("G4", floor.min(least)),
            (None, true) => ("Insisted", least),
            (None, false) => return,
        };
        if read.is_announced {
            self.count("reads at a floor that the region announced");
        }
        if got.version < owed {
            let (status, version) = (got.status, got.version);
            self.violated(property, format!("{read:?} gets {status} {version}, and not {owed}: {}", got.line));
        }
    }

    /// G5's consequence: an answer is no older than it says.
    fn age(&mut self, read: &Read, got: &Got) {
        let now = self.now();
        // As a sidecar takes it: from when it asked, or by its Age.
        let made = read.began.0.min(now.before(got.age)).before(CUT + self.skew);
        let copies = self.copies.get(&(read.region, read.name.clone()));
        let last = copies.and_then(|copies| copies.iter().rposition(|kept| kept.version <= got.version));
        let replaced = copies.zip(last).and_then(|(copies, last)| copies.get(last + 1));
        let aged = replaced.filter(|by| by.since < made && !self.is_excused(&read.name, by.version)).copied();
        let bounded = got.bound().filter(|bound| *bound < WORST_LAG).and_then(|bound| {
            let made = read.began.0.before(bound + CUT + self.skew);
            let newer = self.written.get(&read.name)?.range(got.version + 1..);
            newer
                .map(|(version, at)| (*at, *version))
                .find(|(at, version)| *at < made && !self.is_excused(&read.name, *version))
        });
        let is_swept = self.lost_at.contains(&read.region);
        if let Some(Kept { since, version, .. }) = aged.filter(|_| !is_swept) {
            let old = now.since(since).as_secs_f64();
            let text =
                format!("{read:?} gets {} of age {:?}, replaced by {version} {old:.3} s ago", got.version, got.age);
            self.violated("Aged", format!("{text}: {}", got.line));
        }
        if let Some((at, version)) = bounded.filter(|_| !is_swept) {
            let old = now.since(at).as_secs_f64();
            let text = format!("{read:?} gets {}, and {version} was written {old:.3} s ago", got.version);
            self.violated("Bounded", format!("{text}: {}", got.line));
        }
    }

    /// True if a version of a view was left out of its stream, or lost before it was announced.
    fn is_excused(&self, name: &Name, version: u64) -> bool {
        let key = ItemKey::new(bucket::partition(&name.0, &name.1), &name.1);
        self.skipped.contains(&(Stream::Views, key, version)) || self.excused.contains(&(name.clone(), version))
    }

    /// At the end each node answers what its region has.
    pub(crate) fn converged(&mut self, region: usize, item: &Item, got: Option<&Got>) {
        let shown = got.map(|got| (got.status, got.version));
        let right = (if item.body.is_some() { 200 } else { 404 }, item.version);
        if shown != Some(right) {
            let name = super::name_of(&item.key);
            self.violated(
                "Converged",
                format!("a node of region {region} answers {shown:?} for {name:?}, not {right:?}"),
            );
        }
    }
}
