//! Owns the truth: what each record was, when, and which region knew it when.
//!
//! Before it: [`super::plan`] draws writes and lags. After it: regions answer from it, the checker
//! compares with it. Times are since the start of the simulation. A record's *place* counts its
//! writes: place 0 is what it was at the start, place n what its nth write made it. Invariant:
//! nothing here changes once it is built.

use std::time::Duration;

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It is there, with a new value.
    Changed,
    /// It is gone.
    Deleted,
}

/// One change at the source of truth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// When.
    pub(crate) at: Duration,
    /// Of which record.
    pub(crate) key: usize,
    /// What.
    pub(crate) kind: Kind,
    /// The version the source gives it: larger than all before, over all records, unless it goes
    /// `back`, or the last one still if only what is joined with it changed.
    pub(crate) version: u64,
    /// Which place of its record it leads to.
    pub(crate) place: usize,
    /// No region announces it: an operator's change, told by a RELOAD or a RESET.
    pub(crate) silent: bool,
    /// Its version is below an earlier one of its record: only a RESET makes anybody believe it.
    pub(crate) back: bool,
    /// It brings back what an earlier place showed.
    pub(crate) same_as: Option<usize>,
}

/// All changes, and when each region had ingested them.
pub(crate) struct Truth {
    /// In order of time.
    pub(crate) writes: Vec<Write>,
    /// Per record, its writes in order.
    by_key: Vec<Vec<usize>>,
    /// Which records are there at the start.
    present: Vec<bool>,
    /// Per region, per record: from when on which place is shown.
    steps: Vec<Vec<Vec<(Duration, usize)>>>,
    /// Per region: when each write was ingested, in the order of writes.
    pub(crate) ingests: Vec<Vec<Duration>>,
    /// Per region: how far behind it is when all is well.
    lags: Vec<Duration>,
    /// A region's data are rolled back: region, when, to what time.
    backup: Option<Backup>,
}

/// A region is restored from a backup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backup {
    /// Which region.
    pub(crate) region: usize,
    /// When.
    pub(crate) at: Duration,
    /// It shows what it had ingested by then,
    pub(crate) to: Duration,
    /// until then, when it has caught up again.
    pub(crate) until: Duration,
}

impl Truth {
    /// `writes` in order of time; `ingests` per region in the order of writes, never decreasing.
    pub(crate) fn new(
        present: Vec<bool>,
        writes: Vec<Write>,
        ingests: Vec<Vec<Duration>>,
        lags: Vec<Duration>,
        backup: Option<Backup>,
    ) -> Self {
        let mut by_key = vec![Vec::new(); present.len()];
        for (index, write) in writes.iter().enumerate() {
            by_key[write.key].push(index);
        }
        let region = |(region, ingested): (usize, &Vec<Duration>)| {
            let mut steps = vec![Vec::new(); present.len()];
            for (write, at) in writes.iter().zip(ingested) {
                steps[write.key].push((*at, write.place));
            }
            if let Some(backup) = backup.filter(|backup| backup.region == region) {
                steps.iter_mut().for_each(|steps| roll_back(steps, backup));
            }
            steps
        };
        let steps = ingests.iter().enumerate().map(region).collect();
        Self { writes, by_key, present, steps, ingests, lags, backup }
    }

    /// How many records there are.
    pub(crate) fn keys(&self) -> usize {
        self.present.len()
    }

    /// The place that `region` has of `key` at `at`.
    pub(crate) fn place_at(&self, region: usize, key: usize, at: Duration) -> usize {
        let steps = &self.steps[region][key];
        let after = steps.partition_point(|(since, _)| *since <= at);
        if after == 0 { 0 } else { steps[after - 1].1 }
    }

    /// The newest place of `key` at `at`.
    pub(crate) fn newest(&self, key: usize, at: Duration) -> usize {
        self.by_key[key].partition_point(|write| self.writes[*write].at <= at)
    }

    /// When the last region had what followed `place`.
    pub(crate) fn last_ingest_after(&self, key: usize, place: usize) -> Option<Duration> {
        let write = *self.by_key[key].get(place)?;
        self.ingests.iter().map(|ingests| ingests[write]).max()
    }

    /// When `region` had it.
    pub(crate) fn ingest_at(&self, region: usize, write: &Write) -> Duration {
        self.by_key[write.key].get(write.place - 1).map_or(write.at, |write| self.ingests[region][*write])
    }

    /// When the last region had it.
    pub(crate) fn last_ingest_of(&self, write: &Write) -> Duration {
        self.last_ingest_after(write.key, write.place - 1).unwrap_or(write.at)
    }

    /// When the first region had what followed `place`.
    pub(crate) fn first_ingest_after(&self, key: usize, place: usize) -> Option<Duration> {
        let write = *self.by_key[key].get(place)?;
        self.ingests.iter().map(|ingests| ingests[write]).min()
    }

    /// The write that led to `place`, if it was one.
    pub(crate) fn write_of(&self, key: usize, place: usize) -> Option<&Write> {
        let write = self.by_key[key].get(place.checked_sub(1)?)?;
        Some(&self.writes[*write])
    }

    /// The version of a place; of the start's too.
    pub(crate) fn version(&self, key: usize, place: usize) -> u64 {
        match self.write_of(key, place) {
            Some(write) => write.version,
            None if self.present[key] => 100 + key as u64,
            None => 0,
        }
    }

    /// Says whether a write changed what the record shows and not its version.
    pub(crate) fn keeps_version(&self, write: &Write) -> bool {
        write.place > 0 && write.version == self.version(write.key, write.place - 1) && write.silent
    }

    /// The last place of this version: nobody who goes by versions can tell those before it from it.
    pub(crate) fn last_of_version(&self, key: usize, place: usize) -> usize {
        let is_same = |later: &usize| self.version(key, *later) == self.version(key, place);
        (place + 1..=self.by_key[key].len()).take_while(is_same).last().unwrap_or(place)
    }

    /// The place whose content a place shows: its own, unless a restore brought back an older one.
    pub(crate) fn face(&self, key: usize, place: usize) -> usize {
        self.write_of(key, place).and_then(|write| write.same_as).unwrap_or(place)
    }

    /// Since when a record's versions are below earlier ones.
    pub(crate) fn went_back(&self, key: usize) -> Option<Duration> {
        self.by_key[key].iter().map(|write| &self.writes[*write]).find(|write| write.back).map(|write| write.at)
    }

    /// Whether the record is there.
    pub(crate) fn is_present(&self, key: usize, place: usize) -> bool {
        self.write_of(key, place).map_or(self.present[key], |write| write.kind == Kind::Changed)
    }

    /// Through when `region` has ingested everything, at `at`.
    pub(crate) fn through(&self, region: usize, at: Duration) -> Duration {
        let idle = at.saturating_sub(self.lags[region]);
        let ingested = self.ingests[region].partition_point(|ingest| *ingest <= at);
        let behind = self.writes.get(ingested).map_or(idle, |next| next.at.saturating_sub(Duration::from_nanos(1)));
        let rolled = self.backup.filter(|backup| backup.region == region && at >= backup.at && at < backup.until);
        let rolled = rolled.map_or(idle, |backup| backup.to.saturating_sub(self.lags[region]));
        idle.min(behind).min(rolled)
    }
}

/// From `backup.at` on what was shown at `backup.to`, until it has caught up.
fn roll_back(steps: &mut Vec<(Duration, usize)>, backup: Backup) {
    let before = |at: Duration, steps: &[(Duration, usize)]| {
        let after = steps.partition_point(|(since, _)| *since <= at);
        if after == 0 { 0 } else { steps[after - 1].1 }
    };
    let (old, new) = (before(backup.to, steps), before(backup.until, steps));
    steps.retain(|(since, _)| *since <= backup.at || *since > backup.until);
    steps.push((backup.at, old));
    steps.push((backup.until, new));
    steps.sort_by_key(|(since, _)| *since);
}
