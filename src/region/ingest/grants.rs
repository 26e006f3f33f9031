//! The region's copy of the grants, fetched where the feed did not bring it.

use crate::access::record::{Confirmation, DOCUMENT, GRANTS};
use crate::engine::follow::Follower;
use crate::engine::{Item, ItemKey, Table, Tables, bucket};
use crate::region::copy::{is_confirmation, put_if_newer, said_of};
use crate::region::publisher::Said;

/// The newest version that these items confirm.
pub(super) fn confirmed_by<'i>(items: impl Iterator<Item = &'i Item>) -> Option<u64> {
    let confirmations = items.filter(|item| is_confirmation(item));
    confirmations
        .filter_map(|item| Confirmation::read(item.version, item.note.as_deref()))
        .map(|confirmation| confirmation.version)
        .max()
}

/// Fetches the document from the views if the region has an older one than was `confirmed`, and
/// returns what is to be said of it.
pub(super) async fn fetch(
    follower: &Follower,
    home: &dyn Tables,
    own: &dyn Tables,
    confirmed: Option<u64>,
) -> Option<Said> {
    let confirmed = confirmed?;
    let key = ItemKey::new(bucket::partition(GRANTS, DOCUMENT), DOCUMENT);
    let copy = follower.insist("reading the region's grants", || own.get(Table::Contexts, &key)).await;
    if copy.is_some_and(|copy| copy.version >= confirmed) {
        return None;
    }
    let document = follower.insist("fetching the grants", || home.get(Table::Views, &key)).await?;
    let put = follower.insist("writing the region's grants", || put_if_newer(own, document.clone()));
    if put.await { said_of(&document) } else { None }
}
