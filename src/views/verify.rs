//! Compares everything with everything, and writes nothing: records with views, views with each
//! region's copies. What differs is looked at again after a wait, because changes travel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::comparison::{self, DifferingCopy, SuspectView};
use super::definition::{ViewDefinition, short_digest};
use super::disagreement::Disagreement;
use super::limits;
use super::mapper::Mapper;
use super::patience::patiently;
use super::worker::Pace;
use crate::engine::{self, EngineError, Tables};

/// What is compared.
pub struct Verification {
    /// At home.
    pub mapper: Mapper,
    pub regions: Vec<VerifiedRegion>,
    pub views: Vec<Arc<ViewDefinition>>,
    /// How long a change may be on its way.
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

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Views that were compared with their records.
    pub views: u64,
    /// Buckets that were compared with a region's.
    pub buckets: u64,
    /// How often something differs, by where and how: `views`, or a region's name.
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
    /// Its key, or the first digits of the key's hash.
    pub key: String,
    pub how: Disagreement,
}

/// What differed at first.
enum Suspect {
    View(Arc<ViewDefinition>, SuspectView),
    /// In one of the regions.
    Copy(usize, Arc<ViewDefinition>, DifferingCopy),
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
        for suspect in suspects {
            self.look_again(&suspect, &mut report).await?;
        }
        Ok(report)
    }

    async fn suspects(&self, report: &mut VerifyReport) -> Result<Vec<Suspect>, EngineError> {
        let pace = Pace::new(self.mapper.clock.clone(), self.views_per_second);
        let mut suspects = Vec::new();
        for view in &self.views {
            for bucket in 0..engine::limits::BUCKETS {
                let (found, compared) = comparison::suspects(&self.mapper, view, bucket, &pace).await?;
                report.views += compared;
                suspects.extend(found.into_iter().map(|suspect| Suspect::View(view.clone(), suspect)));
                for (region, served) in self.regions.iter().enumerate() {
                    if served.views.as_ref().is_some_and(|views| !views.contains(&view.name)) {
                        continue;
                    }
                    report.buckets += 1;
                    let found = self.copies(&*served.tables, view, bucket).await?;
                    suspects.extend(found.into_iter().map(|copy| Suspect::Copy(region, view.clone(), copy)));
                }
                if suspects.len() >= limits::SUSPECTS {
                    report.is_partial = true;
                    return Ok(suspects);
                }
            }
        }
        Ok(suspects)
    }

    async fn copies(
        &self,
        tables: &dyn Tables,
        view: &ViewDefinition,
        bucket: u16,
    ) -> Result<Vec<DifferingCopy>, EngineError> {
        let home = &*self.mapper.store;
        if comparison::is_bucket_alike(home, tables, &view.name, bucket).await? {
            return Ok(Vec::new());
        }
        let (mut copies, mut after) = (Vec::new(), None);
        loop {
            let found = comparison::differing_copies(home, tables, &view.name, bucket, after.as_deref()).await?;
            copies.extend(found.copies);
            match found.next {
                Some(next) if copies.len() < limits::SUSPECTS => after = Some(next),
                _ => return Ok(copies),
            }
        }
    }

    async fn look_again(&self, suspect: &Suspect, report: &mut VerifyReport) -> Result<(), EngineError> {
        let (place, view, key, how) = match suspect {
            Suspect::View(view, suspect) => {
                let how = patiently(|| comparison::still_differs(&self.mapper, view, suspect)).await?;
                ("views", view, &suspect.key, how)
            }
            Suspect::Copy(region, view, copy) => {
                let VerifiedRegion { name, tables, .. } = &self.regions[*region];
                let home = &*self.mapper.store;
                let look = || comparison::still_differing_copy(home, &**tables, &view.name, copy);
                (name.as_str(), view, &copy.key, patiently(look).await?)
            }
        };
        let Some(how) = how else { return Ok(()) };
        *report.differing.entry((place.to_owned(), how)).or_default() += 1;
        if report.examples.len() < limits::EXAMPLES {
            let key = if self.shows_keys { key.clone() } else { short_digest(key.as_bytes())[..8].to_owned() };
            report.examples.push(VerifyExample { place: place.to_owned(), view: view.name.clone(), key, how });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
