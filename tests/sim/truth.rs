//! Owns the truth: what each record was, when, and which region knew it when.
//!
//! Before it: [`super::plan`] draws writes and lags. After it: regions answer from it, the checker
//! compares with it. Times are since the start of the simulation. A record's *position* counts its
//! writes: position 0 is what it was at the start, position n what its nth write made it.
//! Invariant: nothing here changes once it is built.

use std::time::Duration;

/// Effect of a write.
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
    /// Record that it changes.
    pub(crate) key: usize,
    /// What.
    pub(crate) kind: Kind,
    /// The version the source gives it: larger than all before, over all records, unless it goes
    /// `back`, or the last one still if only what is joined with it changed.
    pub(crate) version: u64,
    /// Which position of its record it leads to.
    pub(crate) position: usize,
    /// No region announces it: an operator's change, which a RELOAD or a RESET follows.
    pub(crate) silent: bool,
    /// Its version is below an earlier one of its record: only a RESET makes anybody believe it.
    pub(crate) back: bool,
    /// It brings back what an earlier position showed.
    pub(crate) same_as: Option<usize>,
}

/// All changes, and when each region had ingested them.
pub(crate) struct Truth {
    /// Writes in order of time.
    pub(crate) writes: Vec<Write>,
    /// Per record, its writes in order.
    by_key: Vec<Vec<usize>>,
    /// Which records are there at the start.
    present: Vec<bool>,
    /// Per region, per record: from when on which position is visible.
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
        let steps = ingests
            .iter()
            .enumerate()
            .map(|(region, ingested)| {
                let mut steps = vec![Vec::new(); present.len()];
                for (write, at) in writes.iter().zip(ingested) {
                    steps[write.key].push((*at, write.position));
                }
                if let Some(backup) = backup.filter(|backup| backup.region == region) {
                    steps.iter_mut().for_each(|steps| roll_back(steps, backup));
                }
                steps
            })
            .collect();
        Self { writes, by_key, present, steps, ingests, lags, backup }
    }

    /// Number of records.
    pub(crate) fn keys(&self) -> usize {
        self.present.len()
    }

    /// The position that `region` has of `key` at `at`.
    pub(crate) fn position_at(&self, region: usize, key: usize, at: Duration) -> usize {
        place_in(&self.steps[region][key], at)
    }

    /// The newest position of `key` at `at`.
    pub(crate) fn newest(&self, key: usize, at: Duration) -> usize {
        self.by_key[key].partition_point(|write| self.writes[*write].at <= at)
    }

    /// Time at which the last region had what followed `position`.
    pub(crate) fn last_ingest_after(&self, key: usize, position: usize) -> Option<Duration> {
        let write = *self.by_key[key].get(position)?;
        self.ingests.iter().map(|ingests| ingests[write]).max()
    }

    /// Time at which `region` had it.
    pub(crate) fn ingest_at(&self, region: usize, write: &Write) -> Duration {
        self.by_key[write.key].get(write.position - 1).map_or(write.at, |write| self.ingests[region][*write])
    }

    /// Time at which the last region had it.
    pub(crate) fn last_ingest_of(&self, write: &Write) -> Duration {
        self.last_ingest_after(write.key, write.position - 1).unwrap_or(write.at)
    }

    /// Time at which the first region had what followed `position`.
    pub(crate) fn first_ingest_after(&self, key: usize, position: usize) -> Option<Duration> {
        let write = *self.by_key[key].get(position)?;
        self.ingests.iter().map(|ingests| ingests[write]).min()
    }

    /// The write that led to `position`, if it was one.
    pub(crate) fn write_of(&self, key: usize, position: usize) -> Option<&Write> {
        let write = self.by_key[key].get(position.checked_sub(1)?)?;
        Some(&self.writes[*write])
    }

    /// The version of a position; of the start's too.
    pub(crate) fn version(&self, key: usize, position: usize) -> u64 {
        match self.write_of(key, position) {
            Some(write) => write.version,
            None if self.present[key] => 100 + key as u64,
            None => 0,
        }
    }

    /// Says whether a write changed what the record shows and not its version.
    pub(crate) fn keeps_version(&self, write: &Write) -> bool {
        write.position > 0 && write.version == self.version(write.key, write.position - 1) && write.silent
    }

    /// The last position of this version: by versions alone those before it look the same.
    pub(crate) fn last_of_version(&self, key: usize, position: usize) -> usize {
        (position + 1..=self.by_key[key].len())
            .take_while(|later| self.version(key, *later) == self.version(key, position))
            .last()
            .unwrap_or(position)
    }

    /// The position whose content a position shows: its own, unless a restore brought an older one
    /// back.
    pub(crate) fn face(&self, key: usize, position: usize) -> usize {
        self.write_of(key, position).and_then(|write| write.same_as).unwrap_or(position)
    }

    /// Since when a record's versions are below earlier ones.
    pub(crate) fn went_back(&self, key: usize) -> Option<Duration> {
        self.by_key[key].iter().map(|write| &self.writes[*write]).find(|write| write.back).map(|write| write.at)
    }

    /// True if the record is there.
    pub(crate) fn is_present(&self, key: usize, position: usize) -> bool {
        self.write_of(key, position).map_or(self.present[key], |write| write.kind == Kind::Changed)
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

/// From `backup.at` on the state at `backup.to`, until it has caught up.
fn roll_back(steps: &mut Vec<(Duration, usize)>, backup: Backup) {
    let (old, new) = (place_in(steps, backup.to), place_in(steps, backup.until));
    steps.retain(|(since, _)| *since <= backup.at || *since > backup.until);
    steps.push((backup.at, old));
    steps.push((backup.until, new));
    steps.sort_by_key(|(since, _)| *since);
}

/// Place at `at`, of steps in order of time.
fn place_in(steps: &[(Duration, usize)], at: Duration) -> usize {
    let after = steps.partition_point(|(since, _)| *since <= at);
    if after == 0 { 0 } else { steps[after - 1].1 }
}
