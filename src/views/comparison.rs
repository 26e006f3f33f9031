//! Compares the views of a bucket with the catalogue's records, and a region's copies with the
//! views. What differs may just be on its way, so each suspect remembers what it has to reach.

use aws_lc_rs::digest::{Context, SHA256};
use futures_util::future::try_join_all;

use super::definition::ViewDefinition;
use super::disagreement::{self, Disagreement, Expected};
use super::limits;
use super::mapper::{self, Mapper};
use super::retry::retry_transient;
use super::vector::ViewVector;
use super::walk::{Pair, PairWalk, PartitionWalk};
use super::worker::Pace;
use crate::engine::{EngineError, Item, ItemKey, Table, Tables, bucket};

/// A view that differed when it was looked at.
pub(super) struct SuspectView {
    pub(super) key: String,
    /// Bucket in which it was found, which may be the wrong place for its key.
    bucket: u16,
    /// Vector that it was to be made of then.
    wanted: Option<ViewVector>,
}

/// Some views of a bucket that were compared with their records.
pub(super) struct ComparedViews {
    pub(super) suspects: Vec<SuspectView>,
    pub(super) compared: u64,
    /// Behind which key to go on; `None` at the end of the bucket.
    pub(super) next: Option<String>,
}

/// A region's copy that differs from the view.
#[derive(Clone, PartialEq, Eq)]
pub struct DifferingCopy {
    pub key: String,
    /// Bucket in which it was found, which may be the wrong place for its key.
    pub bucket: u16,
    /// The view's version.
    pub home: Option<u64>,
    /// The copy's.
    pub region: Option<u64>,
    pub how: Disagreement,
}

/// Some copies that differ, and behind which key to go on.
#[derive(Default)]
pub struct DifferingCopies {
    pub copies: Vec<DifferingCopy>,
    /// `None` at the end of the bucket.
    pub next: Option<String>,
}

/// Compares about `most` views of a bucket with their records, behind the key `after`.
pub(super) async fn compare_views(
    mapper: &Mapper,
    view: &ViewDefinition,
    number: u16,
    after: Option<&str>,
    most: u64,
    pace: &Pace,
) -> Result<ComparedViews, EngineError> {
    let records = PartitionWalk::new(&*mapper.store, Table::Records, bucket::of(&view.from, number), after);
    let views = PartitionWalk::new(&*mapper.store, Table::Views, bucket::of(&view.name, number), after);
    let mut walk = PairWalk::new(records, views);
    let mut found = ComparedViews { suspects: Vec::new(), compared: 0, next: None };
    while found.compared < most {
        let mut pairs = Vec::with_capacity(limits::COMPARED_AT_ONCE);
        while pairs.len() < limits::COMPARED_AT_ONCE
            && let Some(pair) = walk.next().await?
        {
            pairs.push(pair);
        }
        found.next = pairs.last().map(|pair| pair.key.clone());
        if pairs.is_empty() {
            break;
        }
        found.compared += pairs.len() as u64;
        found.suspects.extend(
            try_join_all(pairs.into_iter().map(|pair| async move {
                pace.wait().await;
                let (how, wanted) = match retry_transient(|| judge(mapper, view, &pair)).await {
                    Err(EngineError::Refused { .. }) => (Some(Disagreement::Unreadable), None),
                    judged => judged?,
                };
                Ok::<_, EngineError>(how.map(|_| SuspectView { key: pair.key, bucket: number, wanted }))
            }))
            .await?
            .into_iter()
            .flatten(),
        );
    }
    Ok(found)
}

async fn judge(
    mapper: &Mapper,
    view: &ViewDefinition,
    pair: &Pair,
) -> Result<(Option<Disagreement>, Option<ViewVector>), EngineError> {
    let expected = expected(mapper, view, pair.left.as_ref()).await?;
    let note = mapper.note(&view.name, &pair.key).await?.note;
    let how = disagreement::of_view(&expected, &note, pair.right.as_ref());
    Ok((how, expected.map(|(vector, _)| vector)))
}

async fn expected(mapper: &Mapper, view: &ViewDefinition, main: Option<&Item>) -> Result<Expected, EngineError> {
    let Some(main) = main else { return Ok(None) };
    let targets = match mapper::targets(view, main) {
        Ok(targets) => targets,
        Err(why) => return Ok(Some((ViewVector::default(), Err(why)))),
    };
    let inputs = mapper.inputs(&targets).await?;
    Ok(Some(mapper::made(view, main, targets, inputs)))
}

/// Disagreement of a suspect after a while; `None` if it has reached the version it had to, even if
/// it has more to reach now.
pub(super) async fn still_differs(
    mapper: &Mapper,
    view: &ViewDefinition,
    suspect: &SuspectView,
) -> Result<Option<Disagreement>, EngineError> {
    match retry_transient(|| look_again(mapper, view, suspect)).await {
        Err(EngineError::Refused { .. }) => Ok(Some(Disagreement::Unreadable)),
        looked => looked,
    }
}

async fn look_again(
    mapper: &Mapper,
    view: &ViewDefinition,
    suspect: &SuspectView,
) -> Result<Option<Disagreement>, EngineError> {
    let view_key = ItemKey::new(bucket::of(&view.name, suspect.bucket), &suspect.key);
    let main_key = ItemKey::new(bucket::of(&view.from, suspect.bucket), &suspect.key);
    // The view first. The other way round, one that was mapped in between would seem to be newer
    // than its record.
    let note = mapper.note(&view.name, &suspect.key).await?.note;
    let shown = mapper.store.get(Table::Views, &view_key).await?;
    let main = mapper.store.get(Table::Records, &main_key).await?;
    let expected = expected(mapper, view, main.as_ref()).await?;
    let how = disagreement::of_view(&expected, &note, shown.as_ref());
    let is_behind = matches!(how, Some(Disagreement::Older | Disagreement::OldInput));
    let has_moved = suspect.wanted.as_ref().is_some_and(|wanted| !wanted.is_newer_than(&note.vector));
    Ok(how.filter(|_| !(is_behind && has_moved)))
}

/// Digest of all items of a partition: their keys, versions and bodies.
pub(super) async fn partition_digest(
    tables: &dyn Tables,
    table: Table,
    partition: &str,
) -> Result<[u8; 32], EngineError> {
    let mut context = Context::new(&SHA256);
    let mut after: Option<String> = None;
    loop {
        let behind = after.as_deref();
        let page = retry_transient(|| tables.query(table, partition, behind, limits::WALK_PAGE)).await?;
        for item in &page.items {
            for part in [item.key.sort.as_bytes(), item.body.as_deref().unwrap_or_default()] {
                context.update(&(part.len() as u64).to_le_bytes());
                context.update(part);
            }
            context.update(&item.version.to_le_bytes());
            context.update(&[u8::from(item.body.is_some())]);
        }
        match page.next {
            Some(next) => after = Some(next.sort),
            None => break,
        }
    }
    Ok(context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes"))
}

/// The copies of a bucket of a view in a region that differ from it, behind the key `after`. Some
/// of them may just be on their way.
///
/// # Errors
/// What the engines say.
pub async fn differing_copies(
    home: &dyn Tables,
    region: &dyn Tables,
    view: &str,
    number: u16,
    after: Option<&str>,
) -> Result<DifferingCopies, EngineError> {
    let partition = bucket::of(view, number);
    let views = PartitionWalk::new(home, Table::Views, partition.clone(), after);
    let mut walk = PairWalk::new(views, PartitionWalk::new(region, Table::Contexts, partition, after));
    let mut found = DifferingCopies::default();
    while let Some(Pair { key, left, right }) = walk.next().await? {
        let Some(how) = disagreement::of_copy(left.as_ref(), right.as_ref()) else { continue };
        let (home, region) = (left.map(|item| item.version), right.map(|item| item.version));
        found.copies.push(DifferingCopy { key: key.clone(), bucket: number, home, region, how });
        if found.copies.len() >= limits::DIFFERING_COPIES {
            found.next = Some(key);
            break;
        }
    }
    Ok(found)
}

/// Disagreement, after a while, of a copy that differed; `None` if it has reached the version that
/// it had to, even if there is a newer one now.
///
/// # Errors
/// What the engines say.
pub async fn still_differing_copy(
    home: &dyn Tables,
    region: &dyn Tables,
    view: &str,
    suspect: &DifferingCopy,
) -> Result<Option<Disagreement>, EngineError> {
    let place = ItemKey::new(bucket::of(view, suspect.bucket), &suspect.key);
    // The copy first, for the same reason.
    let copy = region.get(Table::Contexts, &place).await?;
    let own = home.get(Table::Views, &place).await?;
    let how = disagreement::of_copy(own.as_ref(), copy.as_ref());
    let is_behind = how == Some(Disagreement::Older);
    let has_moved = suspect.home.is_some_and(|wanted| copy.is_some_and(|copy| copy.version >= wanted));
    Ok(how.filter(|_| !(is_behind && has_moved)))
}
