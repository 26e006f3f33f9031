//! Compares everything with everything, and writes nothing: records with views, views with each
//! region's copies. What differs is looked at again after a wait, because changes travel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{self, StreamExt};

use super::comparison::{self, DifferingCopy, SuspectView};
use super::definition::{ViewDefinition, key_digest};
use super::disagreement::Disagreement;
use super::limits;
use super::mapper::Mapper;
use super::retry::retry_transient;
use super::worker::Pace;
use crate::engine::{self, EngineError, Table, Tables, bucket};

/// Mapper, regions and views to compare.
pub struct Verification {
    /// At home.
    pub mapper: Mapper,
    pub regions: Vec<VerifiedRegion>,
    pub views: Vec<Arc<ViewDefinition>>,
    /// Longest time for a change to be on its way.
    pub wait: Duration,
    /// Views compared with their records in a second.
    pub views_per_second: u32,
    /// Otherwise examples show the first digits of a key's hash.
    pub shows_keys: bool,
}

/// A region whose copies are compared.
pub struct VerifiedRegion {
    pub name: String,
    pub tables: Arc<dyn Tables>,
    /// The views that it takes; `None` for all.
    pub views: Option<BTreeSet<String>>,
}

/// Findings of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Views that were compared with their records.
    pub views: u64,
    /// Buckets that were compared with a region's.
    pub buckets: u64,
    /// Number of differences by place and kind: `views`, or a region's name.
    pub differing: BTreeMap<(String, Disagreement), u64>,
    /// The first few.
    pub examples: Vec<VerifyExample>,
    /// So much differed that not everything was compared.
    pub is_partial: bool,
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyExample {
    pub place: String,
    pub view: String,
    /// Its key, or the first digits of the key's hash; `bucket 7f` where nothing of it can be read.
    pub key: String,
    pub how: Disagreement,
}

/// Item that differed at first.
enum Suspect {
    View(SuspectView),
    /// Copy in one of the regions.
    Copy(usize, DifferingCopy),
    /// The engine refuses to read all of a bucket, at home or in one of the regions.
    Unreadable(Option<usize>, u16),
}

/// A bucket of a view, at home and in the regions that take it.
#[derive(Default)]
struct ComparedBucket {
    views: u64,
    /// Regions that it was compared with.
    copies: u64,
    suspects: Vec<Suspect>,
    is_partial: bool,
}

impl VerifyReport {
    pub fn is_clean(&self) -> bool {
        self.differing.is_empty() && !self.is_partial
    }
}

impl Verification {
    /// # Errors
    /// What an engine says that it keeps saying.
    pub async fn run(&self) -> Result<VerifyReport, EngineError> {
        let mut report = VerifyReport::default();
        let suspects = self.suspects(&mut report).await?;
        if !suspects.is_empty() {
            tokio::time::sleep(self.wait).await;
        }
        let looks = suspects.iter().map(|(view, suspect)| self.look_again(view, suspect).boxed());
        let mut looked = stream::iter(looks).buffered(limits::VERIFIED_AT_ONCE).zip(stream::iter(&suspects));
        while let Some((how, (view, suspect))) = looked.next().await {
            if let Some(how) = how? {
                self.tell(&mut report, view, suspect, how);
            }
        }
        drop(looked);
        Ok(report)
    }

    /// Suspects of every bucket of every view, in order.
    async fn suspects(&self, report: &mut VerifyReport) -> Result<Vec<(&ViewDefinition, Suspect)>, EngineError> {
        let pace = Pace::new(self.mapper.clock.clone(), self.views_per_second);
        let buckets =
            self.views.iter().flat_map(|view| (0..engine::limits::BUCKETS).map(move |bucket| (view, bucket)));
        let compared = buckets.map(|(view, number)| {
            let bucket = self.bucket(view, number, &pace);
            bucket.map(move |found| found.map(|found| (&**view, found))).boxed()
        });
        let mut compared = stream::iter(compared).buffered(limits::VERIFIED_AT_ONCE);
        let mut suspects = Vec::new();
        while let Some(bucket) = compared.next().await {
            let (view, bucket) = bucket?;
            report.views += bucket.views;
            report.buckets += bucket.copies;
            report.is_partial |= bucket.is_partial;
            suspects.extend(bucket.suspects.into_iter().map(|suspect| (view, suspect)));
            if suspects.len() >= limits::SUSPECTS {
                report.is_partial = true;
                break;
            }
        }
        Ok(suspects)
    }

    async fn bucket(&self, view: &ViewDefinition, number: u16, pace: &Pace) -> Result<ComparedBucket, EngineError> {
        let mut found = ComparedBucket::default();
        let is_read = unless_refused(self.views(view, number, pace, &mut found).await)?.is_some();
        let partition = bucket::of(&view.name, number);
        let own = comparison::partition_digest(&*self.mapper.store, Table::Views, &partition).await;
        let own = unless_refused(own)?;
        if !is_read || own.is_none() {
            found.suspects.push(Suspect::Unreadable(None, number));
        }
        let Some(own) = own else { return Ok(found) };
        for (region, served) in self.regions.iter().enumerate() {
            if served.views.as_ref().is_none_or(|views| views.contains(&view.name)) {
                found.copies += 1;
                if unless_refused(self.copies(region, view, number, own, &mut found).await)?.is_none() {
                    found.suspects.push(Suspect::Unreadable(Some(region), number));
                }
            }
        }
        Ok(found)
    }

    async fn views(
        &self,
        view: &ViewDefinition,
        number: u16,
        pace: &Pace,
        found: &mut ComparedBucket,
    ) -> Result<(), EngineError> {
        let (mut after, mut suspects) = (None, 0);
        loop {
            let most = limits::SWEEP_PIECE;
            let piece = comparison::compare_views(&self.mapper, view, number, after.as_deref(), most, pace).await?;
            found.views += piece.compared;
            suspects += piece.suspects.len();
            found.suspects.extend(piece.suspects.into_iter().map(Suspect::View));
            match piece.next {
                None => return Ok(()),
                next if suspects < limits::BUCKET_SUSPECTS => after = next,
                _ => break,
            }
        }
        found.is_partial = true;
        Ok(())
    }

    /// `own` stands for all views of the bucket.
    async fn copies(
        &self,
        region: usize,
        view: &ViewDefinition,
        number: u16,
        own: [u8; 32],
        found: &mut ComparedBucket,
    ) -> Result<(), EngineError> {
        let (home, tables) = (&*self.mapper.store, &*self.regions[region].tables);
        let partition = bucket::of(&view.name, number);
        if comparison::partition_digest(tables, Table::Contexts, &partition).await? == own {
            return Ok(());
        }
        let copies = comparison::differing_copies(home, tables, &view.name, number, None).await?;
        found.is_partial |= copies.next.is_some();
        found.suspects.extend(copies.copies.into_iter().map(|copy| Suspect::Copy(region, copy)));
        Ok(())
    }

    async fn look_again(
        &self,
        view: &ViewDefinition,
        suspect: &Suspect,
    ) -> Result<Option<Disagreement>, EngineError> {
        match suspect {
            Suspect::View(suspect) => comparison::still_differs(&self.mapper, view, suspect).await,
            Suspect::Copy(region, copy) => {
                let (home, tables) = (&*self.mapper.store, &*self.regions[*region].tables);
                Ok(unless_refused(
                    retry_transient(|| comparison::still_differing_copy(home, tables, &view.name, copy)).await,
                )?
                .unwrap_or(Some(Disagreement::Unreadable)))
            }
            Suspect::Unreadable(..) => Ok(Some(Disagreement::Unreadable)),
        }
    }

    fn tell(&self, report: &mut VerifyReport, view: &ViewDefinition, suspect: &Suspect, how: Disagreement) {
        let (region, key) = match suspect {
            Suspect::View(suspect) => (None, Ok(&suspect.key)),
            Suspect::Copy(region, copy) => (Some(*region), Ok(&copy.key)),
            Suspect::Unreadable(region, bucket) => (*region, Err(bucket)),
        };
        let place = region.map_or("views", |region| &self.regions[region].name);
        *report.differing.entry((place.to_owned(), how)).or_default() += 1;
        if report.examples.len() < limits::EXAMPLES {
            let key = match key {
                Ok(key) if self.shows_keys => key.clone(),
                Ok(key) => key_digest(key),
                Err(bucket) => format!("bucket {bucket:02x}"),
            };
            report.examples.push(VerifyExample { place: place.to_owned(), view: view.name.clone(), key, how });
        }
    }
}

/// `None` for what the engine refuses, however often it is asked.
fn unless_refused<T>(result: Result<T, EngineError>) -> Result<Option<T>, EngineError> {
    match result {
        Err(EngineError::Refused { .. }) => Ok(None),
        result => result.map(Some),
    }
}

#[cfg(test)]
mod tests;
